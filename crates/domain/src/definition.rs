//! A resource definition: how resources of a type are made, in the format that other orchestrators publish.
//!
//! A definition names a driver and the driver's inputs. Which definition a resource gets is a matter of its [`Criterion`]s
//! ([`matching`]). Texts of the inputs refer to the run and to other resources ([`placeholder`]); [`resolution`] follows them and
//! returns the container job to run.

pub mod account_reference;
pub mod affected;
mod container_job;
pub mod criterion;
mod driver_inputs;
mod evaluation;
pub mod matching;
pub mod module_job;
pub mod placeholder;
pub mod placement;
pub mod resolution;
mod resolve_error;
pub mod secrets;
mod template;

use crate::dns_label::is_dns_label;
use crate::field_error::FieldErrors;
use crate::ids::text_id;
use crate::runner::fields::Fields;
use crate::runner::shape::Shape;
use crate::runner::string_enum::string_enum;
use criterion::Criterion;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;

/// Maximum length of a definition as JSON, in bytes.
pub const MAX_DEFINITION: usize = 64 * 1024;
/// Maximum number of criteria of a definition.
const MAX_CRITERIA: usize = 50;

text_id!(
    /// A resource definition of an organization.
    DefinitionId, "resource definition id", 100, is_definition_id,
    "use at least 3 lower case letters, digits and hyphens, starting and ending with a letter or digit"
);

fn is_definition_id(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    text.len() >= 3 && text.bytes().all(is_plain) && !text.starts_with('-') && !text.ends_with('-')
}

string_enum! {
    /// What makes the resources of a definition.
    Driver {
        /// A container image, in the cluster that the definition names.
        Container = "humanitec/container",
        /// A container image, in the cluster that a `config` resource names.
        ContainerRunner = "humanitec/container-runner",
        /// A module of OpenTofu, in the cluster that a `config` resource names.
        OpentofuRunner = "humanitec/opentofu-container-runner",
        /// The same. The runner's image decides which program runs it.
        TerraformRunner = "humanitec/terraform-container-runner",
        /// Outputs from templates.
        Template = "humanitec/template",
        /// Outputs that are the inputs.
        Echo = "humanitec/echo",
        /// Outputs that are fixed.
        Static = "humanitec/static",
        /// A runner whose jobs an agent launches.
        Agent = "humanitec/agent",
    }
}

/// What makes the resources of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverWork {
    /// A container job.
    Container,
    /// A module.
    Module,
    /// Nothing: they have outputs only.
    Nothing,
}

impl Driver {
    /// What makes its resources.
    pub const fn work(self) -> DriverWork {
        match self {
            Self::Container | Self::ContainerRunner => DriverWork::Container,
            Self::OpentofuRunner | Self::TerraformRunner => DriverWork::Module,
            Self::Template | Self::Echo | Self::Static | Self::Agent => DriverWork::Nothing,
        }
    }

    /// The resource whose outputs say where its jobs run, if one does.
    pub(crate) const fn config(self) -> Option<&'static str> {
        match self {
            Self::ContainerRunner => Some("config#container-runner"),
            Self::OpentofuRunner => Some("config#opentofu-container-runner"),
            Self::TerraformRunner => Some("config#terraform-container-runner"),
            Self::Container | Self::Template | Self::Echo | Self::Static | Self::Agent => None,
        }
    }
}

const NAME: Shape = plain("text", 100, |text| !text.trim().is_empty());
const TYPE: Shape =
    plain("a type: lower case letters, digits and hyphens, at most 63", 63, is_dns_label);
const ACCOUNT: Shape = plain("the id of an account", 200, |text| !text.is_empty());

const fn plain(rule: &'static str, max: usize, fits: fn(&str) -> bool) -> Shape {
    Shape { rule, max, fits, published: None, format: None }
}

/// A resource definition.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// Its id.
    pub id: DefinitionId,
    /// Its name, for people.
    pub name: String,
    /// The type of the resources that it is for.
    #[serde(rename = "type")]
    pub resource_type: String,
    /// What makes them.
    #[serde(rename = "driver_type")]
    pub driver: Driver,
    /// The account that the driver uses.
    #[serde(rename = "driver_account", default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The driver's inputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
    /// Its secret inputs, as [`secrets`] describes them.
    #[serde(rename = "secret_refs", default, skip_serializing_if = "Map::is_empty")]
    pub secrets: Map<String, Value>,
    /// Which resources it is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Criterion>,
}

/// Without its inputs, which may have the values of secrets.
impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, resource_type, driver, .. } = self;
        write!(f, "{id} ({driver} for {resource_type})")
    }
}

/// A definition as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredDefinition {
    /// The definition.
    pub definition: Definition,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// It differs after each change.
    pub version: u64,
}

impl Definition {
    /// Parses the body of a request.
    ///
    /// # Errors
    ///
    /// Every fault with its path.
    pub fn parse(body: Value) -> Result<Self, FieldErrors> {
        let mut parsed = Self::parse_changed(body)?;
        let mut faults = FieldErrors::default();
        secrets::each_leaf(&mut parsed.secrets, "", &mut |path, leaf| {
            if leaf.contains_key("sealed") {
                let reason = "has either `value`, or `store`, `ref` and perhaps `version`";
                faults.add(format!("driver_inputs.secret_refs.{path}"), reason);
            }
        });
        faults.into_result(parsed)
    }

    /// Parses a stored definition that a request has changed: some of its secrets are sealed.
    ///
    /// # Errors
    ///
    /// Every fault with its path.
    pub fn parse_changed(body: Value) -> Result<Self, FieldErrors> {
        let mut faults = FieldErrors::default();
        let length = body.to_string().len();
        if length > MAX_DEFINITION {
            faults.add("", format!("has {length} bytes; {MAX_DEFINITION} are allowed"));
            return Err(faults);
        }
        let read = Fields::read(body, "", &mut faults, Self::read).flatten();
        let read = faults.into_result(read)?;
        read.ok_or_else(|| {
            let mut faults = FieldErrors::default();
            faults.add("", "is no definition");
            faults
        })
    }

    fn read(fields: &mut Fields) -> Option<Self> {
        let id = fields.text_or_fault("id");
        let name = fields.required_text("name", &NAME);
        let resource_type = fields.required_text("type", &TYPE);
        if !fields.has("driver_type") {
            fields.fault("driver_type", "is required");
        }
        let driver = fields.one_of("driver_type");
        let account = fields.text("driver_account", &ACCOUNT);
        let (values, secrets) =
            fields.object("driver_inputs", driver_inputs::read).unwrap_or_default();
        if fields.take("provision").is_some_and(|given| given != Value::Object(Map::new())) {
            fields.fault(
                "provision",
                "is not supported: no resource is made beside the one that is deployed; remove it",
            );
        }
        let count = 0..=MAX_CRITERIA;
        let criteria = fields.objects("criteria", &count, Criterion::read).unwrap_or_default();
        let mut seen = BTreeSet::new();
        for (index, criterion) in criteria.iter().enumerate() {
            if !seen.insert(criterion.clone()) {
                fields.fault(&format!("criteria[{index}]"), "is there twice");
            }
        }
        let read = Self {
            id: id?,
            name,
            resource_type,
            driver: driver?,
            account,
            values,
            secrets,
            criteria,
        };
        fields.faults("driver_inputs", driver_inputs::check(&read));
        Some(read)
    }

    /// Whether its resources can be those of `resource_type`.
    pub fn is_for(&self, resource_type: &str) -> bool {
        self.resource_type == resource_type
    }
}

impl Fields<'_> {
    fn text_or_fault(&mut self, name: &'static str) -> Option<DefinitionId> {
        if !self.has(name) {
            self.take(name);
            self.fault(name, "is required");
            return None;
        }
        self.parsed(name, &plain("text", 100, |_| true))
    }
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;
