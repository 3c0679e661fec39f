//! `profile` of a runner: the name of the agent's launch settings, computed for each deployment.
//!
//! An agent has named sets of targets and settings, its profiles. A runner names one, and may derive the name
//! from the deployment: `${environment.type}-${var.region}`.

use crate::ids::MAX_PROFILE_LENGTH;
use crate::ids::{EnvId, EnvTypeId, ProjectId, RunnerProfileId};
use crate::inputs::Inputs;
use crate::json::Json;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};

/// The name of a profile, which may contain references such as `${environment.id}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileName {
    given: String,
    parts: Vec<Part>,
}

/// The target of a deployment: the values for the references of a [`ProfileName`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileContext {
    /// `${project.id}`.
    pub project: ProjectId,
    /// `${environment.id}`.
    pub environment: EnvId,
    /// `${environment.type}`, also written `${env_type.id}`.
    pub env_type: EnvTypeId,
    /// `${project.profile}`: the name that the project gives, whose own references are replaced too.
    pub project_profile: Option<ProfileName>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Project,
    ProjectProfile,
    Environment,
    EnvType,
    Variable(String),
}

/// Why a text is not the name of a profile. The message continues after the path of the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileNameError {
    /// It is empty or too long.
    #[error("must have 1 to {MAX_PROFILE_LENGTH} bytes")]
    Length,
    /// It contains a character that no name has.
    #[error(
        "must consist of letters, digits and `._-/`, and of references such as `${{project.id}}`"
    )]
    Character,
    /// `${` without `}`.
    #[error("has a `${{` without its `}}`")]
    Open,
    /// It contains an unknown reference.
    #[error(
        "has a reference that is not known; there are `${{project.id}}`, `${{environment.id}}`, \
         `${{environment.type}}`, `${{var.NAME}}`, and `${{project.profile}}` in a runner"
    )]
    Reference,
    /// A project's own profile refers to itself.
    #[error("cannot contain `${{project.profile}}`: that is this name")]
    Itself,
}

/// Why a name could not be computed for a deployment. Never contains the value of a variable, which may be a
/// secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterpolationError {
    /// The deployment does not set the variable.
    #[error(
        "the runner's profile `{profile}` needs the variable `{variable}`, which this deployment does \
         not set"
    )]
    Missing {
        /// The profile's name in the runner.
        profile: String,
        /// The variable.
        variable: String,
    },
    /// The project names no profile.
    #[error(
        "the runner takes the profile that the project names (`{profile}`), and project `{project}` names none; set one \
         with: canyon update project {project} --set=profile=NAME"
    )]
    NoProjectProfile {
        /// The profile's name in the runner.
        profile: String,
        /// The project.
        project: ProjectId,
    },
    /// The value cannot be part of a name.
    #[error(
        "the value of the variable `{variable}` cannot be part of the name of a profile (the \
         runner's `{profile}`): it must be a number, true or false, or a text of letters, digits and \
         `._-/`"
    )]
    Value {
        /// The profile's name in the runner.
        profile: String,
        /// The variable.
        variable: String,
    },
    /// The computed name is too long.
    #[error(
        "the runner's profile `{0}` has more than {MAX_PROFILE_LENGTH} bytes for this deployment"
    )]
    Length(String),
}

impl ProfileName {
    /// Whether a deployment may have this profile: all text fits, in its order, with at least one character for each
    /// reference.
    pub fn may_be(&self, profile: &RunnerProfileId) -> bool {
        let mut rest = profile.as_str();
        // How many references come before the next text.
        let mut references = 0;
        for (index, part) in self.parts.iter().enumerate() {
            let Part::Text(text) = part else {
                references += 1;
                continue;
            };
            let is_last = index + 1 == self.parts.len();
            let after = match references {
                0 => rest.strip_prefix(text.as_str()),
                _ if is_last => rest
                    .strip_suffix(text.as_str())
                    .filter(|left| left.len() >= references)
                    .map(|_| ""),
                // The earliest place leaves most to the rest.
                _ => rest
                    .get(references..)
                    .and_then(|left| left.split_once(text.as_str()))
                    .map(|(_, after)| after),
            };
            let Some(after) = after else { return false };
            (rest, references) = (after, 0);
        }
        if references > 0 { rest.len() >= references } else { rest.is_empty() }
    }

    /// Whether the project decides about it: it contains `${project.profile}`.
    pub fn asks_the_project(&self) -> bool {
        self.parts.contains(&Part::ProjectProfile)
    }

    /// The name that a project gives.
    ///
    /// # Errors
    ///
    /// [`ProfileNameError`], also for a name that asks the project.
    pub fn of_project(given: &str) -> Result<Self, ProfileNameError> {
        let name: Self = given.parse()?;
        if name.asks_the_project() { Err(ProfileNameError::Itself) } else { Ok(name) }
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.given
    }

    /// The name for a deployment to `context` that sets `variables`.
    ///
    /// ```
    /// # use canyon_domain::runner::{agents::ProfileName, profile::ProfileContext};
    /// # use canyon_domain::job::Inputs;
    /// let name: ProfileName = "${environment.type}/${var.region}".parse().unwrap();
    /// let context = ProfileContext {
    ///     project: "payments/api".parse()?,
    ///     environment: "eu".parse()?,
    ///     env_type: "production".parse()?,
    ///     project_profile: None,
    /// };
    /// let variables = Inputs::from([("region".to_owned(), "frankfurt".into())]);
    /// assert_eq!(name.interpolate(&context, &variables).unwrap(), "production/frankfurt");
    /// # Ok::<(), canyon_domain::ids::InvalidId>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InterpolationError`] names the variable that is missing, or whose value cannot be part of a name.
    pub fn interpolate(
        &self,
        context: &ProfileContext,
        variables: &Inputs,
    ) -> Result<String, InterpolationError> {
        let mut name = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => name.push_str(text),
                Part::Project => name.push_str(context.project.as_str()),
                Part::ProjectProfile => {
                    let named = context.project_profile.as_ref().ok_or_else(|| {
                        let (profile, project) = (self.given.clone(), context.project.clone());
                        InterpolationError::NoProjectProfile { profile, project }
                    })?;
                    // A project's name has no such reference itself, so this ends.
                    name.push_str(&named.interpolate(context, variables)?);
                }
                Part::Environment => name.push_str(context.environment.as_str()),
                Part::EnvType => name.push_str(context.env_type.as_str()),
                Part::Variable(variable) => name.push_str(&self.value(variable, variables)?),
            }
        }
        if name.len() > MAX_PROFILE_LENGTH {
            return Err(InterpolationError::Length(self.given.clone()));
        }
        Ok(name)
    }

    fn value(&self, variable: &str, variables: &Inputs) -> Result<String, InterpolationError> {
        let (profile, variable) = (self.given.clone(), variable.to_owned());
        let text = match variables.get(&variable) {
            None | Some(Json::Null) => {
                return Err(InterpolationError::Missing { profile, variable });
            }
            Some(Json::String(text)) => text.clone(),
            Some(Json::Number(number)) => number.as_str().to_owned(),
            Some(Json::Bool(flag)) => flag.to_string(),
            Some(Json::Array(_) | Json::Object(_)) => String::new(),
        };
        // With an empty value, two different deployments could have the same profile name.
        if text.is_empty() || !text.chars().all(is_name_char) {
            return Err(InterpolationError::Value { profile, variable });
        }
        Ok(text)
    }
}

impl FromStr for ProfileName {
    type Err = ProfileNameError;

    fn from_str(given: &str) -> Result<Self, ProfileNameError> {
        if given.is_empty() || given.len() > MAX_PROFILE_LENGTH {
            return Err(ProfileNameError::Length);
        }
        let mut parts = Vec::new();
        let mut rest = given;
        while let Some((text, after)) = rest.split_once("${") {
            let (reference, after) = after.split_once('}').ok_or(ProfileNameError::Open)?;
            parts.extend(text_part(text)?);
            parts.push(Part::of_reference(reference)?);
            rest = after;
        }
        parts.extend(text_part(rest)?);
        Ok(Self { given: given.to_owned(), parts })
    }
}

impl Part {
    fn of_reference(reference: &str) -> Result<Self, ProfileNameError> {
        match reference {
            "project.id" => Ok(Self::Project),
            "project.profile" => Ok(Self::ProjectProfile),
            "environment.id" => Ok(Self::Environment),
            "environment.type" | "env_type.id" => Ok(Self::EnvType),
            other => other
                .strip_prefix("var.")
                .filter(|name| is_variable_name(name))
                .map(|name| Self::Variable(name.to_owned()))
                .ok_or(ProfileNameError::Reference),
        }
    }
}

fn text_part(text: &str) -> Result<Option<Part>, ProfileNameError> {
    if !text.chars().all(is_name_char) {
        return Err(ProfileNameError::Character);
    }
    Ok((!text.is_empty()).then(|| Part::Text(text.to_owned())))
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-/".contains(c)
}

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

impl Serialize for ProfileName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.given)
    }
}

impl<'de> Deserialize<'de> for ProfileName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
