//! Which resources a definition is for.

use super::plain;
use crate::dns_label::is_dns_label;
use crate::field_error::FieldErrors;
use crate::ids::{EnvId, EnvTypeId, ProjectId};
use crate::resource_name::ResourceName;
use crate::runner::fields::Fields;
use crate::runner::shape::Shape;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fmt;

const ID: Shape = plain("an id", 255, |text| !text.is_empty());
const CLASS: Shape =
    plain("a class: lower case letters, digits and hyphens, at most 63", 63, is_dns_label);
const DEFAULT_CLASS: &str = "default";

/// What a resource must be for a definition. An absent member fits every resource; `class` is `default` unless it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Criterion {
    /// The type of its environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_type: Option<String>,
    /// Its project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    /// Its environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_id: Option<String>,
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub res_id: Option<String>,
    /// Its class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

/// The environment of a resource.
#[derive(Clone, Copy, Debug)]
pub struct MatchTarget<'a> {
    /// Its type.
    pub env_type: &'a EnvTypeId,
    /// Its project.
    pub project: &'a ProjectId,
    /// Its id.
    pub env: &'a EnvId,
}

/// How specific a criterion is. The derived order is the precedence: the id of the resource counts most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Specificity([bool; 4]);

impl Criterion {
    /// Parses the body of a request.
    ///
    /// # Errors
    ///
    /// Every fault with its path.
    pub fn parse(body: Value) -> Result<Self, FieldErrors> {
        let mut faults = FieldErrors::default();
        let read = Fields::read(body, "", &mut faults, Self::read);
        faults.into_result(read.unwrap_or_default())
    }

    pub(super) fn read(fields: &mut Fields) -> Self {
        Self {
            env_type: fields.text("env_type", &ID),
            app_id: fields.text("app_id", &ID),
            env_id: fields.text("env_id", &ID),
            res_id: fields.text("res_id", &ID),
            class: fields.text("class", &CLASS).filter(|class| class != DEFAULT_CLASS),
        }
    }

    /// Its id, which follows from what it says.
    pub fn id(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        hex::encode(&Sha256::digest(text)[..8])
    }

    /// Its class.
    pub fn class(&self) -> &str {
        self.class.as_deref().unwrap_or(DEFAULT_CLASS)
    }

    /// How specific it is.
    pub fn specificity(&self) -> Specificity {
        let names = [&self.res_id, &self.env_id, &self.app_id, &self.env_type];
        Specificity(names.map(Option::is_some))
    }

    /// Why it does not fit the resource `name` in the environment `target`, if it does not.
    pub fn mismatch(&self, name: &ResourceName, target: MatchTarget<'_>) -> Option<String> {
        let wanted = [
            ("env_type", self.env_type.as_deref(), target.env_type.as_str()),
            ("app_id", self.app_id.as_deref(), target.project.as_str()),
            ("env_id", self.env_id.as_deref(), target.env.as_str()),
            ("res_id", self.res_id.as_deref(), name.id()),
            ("class", Some(self.class()), name.class()),
        ];
        let differs = |(field, wanted, given): (&str, Option<&str>, &str)| {
            let wanted = wanted.filter(|wanted| *wanted != given)?;
            Some(format!("its `{field}` is `{wanted}`, not `{given}`"))
        };
        wanted.into_iter().find_map(differs)
    }
}

/// As people read it: `env_type development, res_id photos`.
impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = [
            ("env_type", &self.env_type),
            ("app_id", &self.app_id),
            ("env_id", &self.env_id),
            ("res_id", &self.res_id),
            ("class", &self.class),
        ];
        let given = members.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let texts: Vec<_> = given.map(|(name, value)| format!("{name} {value}")).collect();
        if texts.is_empty() {
            f.write_str("every resource")
        } else {
            f.write_str(&texts.join(", "))
        }
    }
}
