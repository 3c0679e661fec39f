//! The secrets of a container job: each is a value, which is sealed before anything is stored, or a reference to a secret store.

use super::ContainerJob;
use crate::json::Json;
use crate::runner::fields::Fields;
use crate::secret_reference::SecretReference;
use crate::secret_text::SecretText;
use crate::variables::edit::secret_fault;
use crate::variables::job::JobVariable;
use crate::variables::secret_json::SecretJson;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// A secret of a container job.
#[derive(Clone, PartialEq, Eq)]
pub enum JobSecret {
    /// Its value: in a request, and in the job. It is never serialized.
    Value(SecretText),
    /// The value is sealed, apart from the job.
    Sealed,
    /// The job reads it in a secret store, with its own identity.
    Reference(SecretReference),
}

/// Maximum number of secret variables, and of secret files.
const MAX_SECRETS: usize = 64;
/// The field of a secret whose value is sealed.
const SEALED: &str = "sealed";

impl JobSecret {
    /// Reads `{"value": "…"}` or `{"store": "…", "ref": "…", "version": "…"}`, and notes faults at `path`.
    pub(super) fn parse(given: Value, path: &str, fields: &mut Fields) -> Option<Self> {
        let fault = |fields: &mut Fields, reason: &str| {
            fields.fault(path, reason);
            None
        };
        let Value::Object(members) = given else {
            return fault(fields, "must be an object: with `value`, or with `store` and `ref`");
        };
        let has = |name: &str| members.contains_key(name);
        match (has("value"), has("store") || has("ref") || has("version")) {
            (true, false) if members.len() == 1 => {
                let Some(Value::String(text)) = members.get("value") else {
                    return fault(fields, "needs a text as `value`");
                };
                if text.contains('\0') {
                    return fault(fields, "has a NUL character");
                }
                match secret_fault(&Json::String(text.clone())) {
                    Some(reason) => fault(fields, &reason),
                    None => Some(Self::Value(text.clone().into())),
                }
            }
            (false, true) => Self::reference(members, path, fields),
            _ => fault(fields, "has either `value`, or `store`, `ref` and perhaps `version`"),
        }
    }

    fn reference(members: Map<String, Value>, path: &str, fields: &mut Fields) -> Option<Self> {
        let known = |name: &String| matches!(name.as_str(), "store" | "ref" | "version");
        if !members.keys().all(known) {
            fields.fault(path, "has another field than `store`, `ref` and `version`");
            return None;
        }
        let Ok(reference) = serde_json::from_value::<SecretReference>(members.into()) else {
            fields.fault(
                path,
                "needs the id of a secret store as `store`, and texts as `ref` and `version`",
            );
            return None;
        };
        let faults = reference.faults();
        for (field, reason) in &faults {
            fields.fault(&format!("{path}.{field}"), reason.clone());
        }
        faults.is_empty().then_some(Self::Reference(reference))
    }

    /// The value, where it is known.
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Value(text) => Some(text.expose()),
            Self::Sealed | Self::Reference(_) => None,
        }
    }
}

impl fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) | Self::Sealed => f.write_str("[secret]"),
            Self::Reference(reference) => write!(f, "{reference}"),
        }
    }
}

impl Serialize for JobSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(_) | Self::Sealed => json!({ SEALED: true }).serialize(serializer),
            Self::Reference(reference) => reference.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for JobSecret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let given = Value::deserialize(from)?;
        if given.get(SEALED).is_some() {
            return Ok(Self::Sealed);
        }
        serde_json::from_value(given).map(Self::Reference).map_err(serde::de::Error::custom)
    }
}

impl Fields<'_> {
    /// Secrets by name or path.
    pub(super) fn secrets(&mut self, name: &'static str) -> Option<BTreeMap<String, JobSecret>> {
        let given = self.free_object(name)?;
        if given.len() > MAX_SECRETS {
            self.fault(name, format!("has {} secrets; {MAX_SECRETS} are allowed", given.len()));
            return None;
        }
        let mut read = |(key, secret): (String, Value)| {
            let shown: String = key.chars().take(80).collect();
            let secret = JobSecret::parse(secret, &format!("{name}[{shown:?}]"), self)?;
            Some((key, secret))
        };
        Some(given.into_iter().filter_map(&mut read).collect())
    }
}

impl ContainerJob {
    /// Its secrets, by their paths in the job.
    pub fn secrets(&self) -> impl Iterator<Item = (String, &JobSecret)> {
        let variables = self.secret_variables.iter().flatten();
        let variables = variables.map(|(name, secret)| (variable_path(name), secret));
        let files = self.secret_files.iter().flatten();
        let files = files.map(|(path, secret)| (file_path(path), secret));
        let source = self.source.iter().filter_map(|source| source.password.as_ref());
        variables.chain(files).chain(source.map(|secret| (PASSWORD.to_owned(), secret)))
    }

    /// Those of its secrets that a secret store keeps, by their paths.
    pub fn secret_references(&self) -> impl Iterator<Item = (String, &SecretReference)> {
        self.secrets().filter_map(|(path, secret)| match secret {
            JobSecret::Reference(reference) => Some((path, reference)),
            JobSecret::Value(_) | JobSecret::Sealed => None,
        })
    }

    /// Takes the values of the secrets out of the job, by their paths.
    pub fn take_secret_values(&mut self) -> BTreeMap<String, SecretJson> {
        let mut taken = BTreeMap::new();
        self.each_secret(&mut |path, secret| {
            if let JobSecret::Value(text) = secret {
                taken.insert(path, Json::String(text.expose().to_owned()).into());
                *secret = JobSecret::Sealed;
            }
        });
        taken
    }

    /// Fills in the values of the secrets, which are among the `variables` of the run, by their paths.
    pub fn fill_secrets(&mut self, variables: &[JobVariable]) {
        self.each_secret(&mut |path, secret| {
            let found = variables.iter().find(|one| one.name == path);
            match found.map(|one| one.value.expose()) {
                Some(Json::String(text)) => *secret = JobSecret::Value(text.clone().into()),
                Some(other) => *secret = JobSecret::Value(other.to_string().into()),
                None => {}
            }
        });
    }

    fn each_secret(&mut self, visit: &mut dyn FnMut(String, &mut JobSecret)) {
        for (name, secret) in self.secret_variables.iter_mut().flatten() {
            visit(variable_path(name), secret);
        }
        for (path, secret) in self.secret_files.iter_mut().flatten() {
            visit(file_path(path), secret);
        }
        if let Some(secret) = self.source.as_mut().and_then(|source| source.password.as_mut()) {
            visit(PASSWORD.to_owned(), secret);
        }
    }
}

const PASSWORD: &str = "source.password";

fn variable_path(name: &str) -> String {
    format!("secret_variables[{name:?}]")
}

fn file_path(path: &str) -> String {
    format!("secret_files[{path:?}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(more: &Value) -> Result<ContainerJob, String> {
        let mut given = json!({ "image": "a/b:1", "command": ["/x"] });
        given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ContainerJob::parse(given).map_err(|faults| {
            faults
                .iter()
                .map(|fault| format!("{}: {}", fault.path, fault.reason))
                .collect::<Vec<_>>()
                .join("; ")
        })
    }

    #[test]
    fn no_value_of_a_secret_is_serialized_or_printed() {
        let mut job = job(&json!({
            "secret_variables": {"TOKEN": {"value": "hunter22"}, "KEY": {"store": "vault", "ref": "a#b"}},
            "secret_files": {"id": {"value": "hunter23"}},
            "source": {"url": "https://git.example.com/a.git", "password": {"value": "hunter24"}},
        }))
        .unwrap();
        for _ in 0..2 {
            let shown = format!("{job:?} {}", serde_json::to_string(&job).unwrap());
            assert!(!shown.contains("hunter") && shown.contains("a#b"), "{shown}");
            let read: ContainerJob =
                serde_json::from_value(serde_json::to_value(&job).unwrap()).unwrap();
            let sealed = |(path, secret): (String, &JobSecret)| (path, secret.value().is_none());
            assert!(read.secrets().map(sealed).all(|(_, sealed)| sealed));
            let taken: Vec<_> = job.take_secret_values().into_keys().collect();
            assert!(taken.is_empty() || taken.len() == 3, "{taken:?}");
        }
    }

    #[test]
    fn what_was_taken_out_is_filled_in_by_path() {
        let mut job = job(&json!({
            "secret_variables": {"TOKEN": {"value": "hunter22"}},
            "secret_files": {"a/id": {"value": "hunter23"}},
        }))
        .unwrap();
        let before = job.clone();
        let taken = job.take_secret_values();
        assert_ne!(job, before);
        let variable = |(name, value): (String, SecretJson)| JobVariable {
            kind: crate::variables::VariableKind::Terraform,
            name,
            value,
            secret: true,
            from: crate::variable_scope::VariableScope::Organization,
            is_input: true,
        };
        job.fill_secrets(&taken.into_iter().map(variable).collect::<Vec<_>>());
        assert_eq!(job, before);
    }

    #[test]
    fn faults_of_secrets_name_their_place_and_not_the_value() {
        for (given, expected) in [
            (
                json!({"secret_variables": {"A": "hunter22"}}),
                "secret_variables[\"A\"]: must be an object",
            ),
            (
                json!({"secret_variables": {"A": {"value": "short"}}}),
                "secret_variables[\"A\"]: is too short",
            ),
            (
                json!({"secret_variables": {"A": {"sealed": true}}}),
                "secret_variables[\"A\"]: has either",
            ),
            (
                json!({"secret_variables": {"A": {"value": "hunter22", "store": "x"}}}),
                "secret_variables[\"A\"]: has either",
            ),
            (
                json!({"secret_variables": {"A": {"store": "x"}}}),
                "secret_variables[\"A\"]: needs the id",
            ),
            (
                json!({"secret_variables": {"A": {"store": "vault", "ref": ""}}}),
                "secret_variables[\"A\"].ref: has 1 to",
            ),
            (
                json!({"secret_variables": {"ACTION": {"value": "hunter22"}}}),
                "secret_variables[\"ACTION\"]: must be the name",
            ),
            (
                json!({"secret_variables": {"A": {"value": "hunter22"}}, "variables": {"A": "x"}}),
                "secret_variables[\"A\"]: is in `variables` too",
            ),
            (
                json!({"secret_files": {"../a": {"value": "hunter22"}}}),
                "secret_files[\"../a\"]: must lie in",
            ),
            (
                json!({"secret_files": {"a": {"value": "hunter22"}}, "files": {"./a": "x"}}),
                "secret_files[\"a\"]: is the same file",
            ),
            (json!({"source": {"url": "http://h/a.git"}}), "source.url: must be"),
            (
                json!({"source": {"url": "https://u:hunter22@h/a.git"}}),
                "source.url: is refused: an https",
            ),
            (json!({"source": {"url": "https://h/a.git//b"}}), "source.url: is refused: a folder"),
            (
                json!({"source": {"url": "https://h/a.git", "ref": "--upload-pack=x"}}),
                "source.ref: is refused",
            ),
            (json!({"source": {"url": "https://h/a.git", "path": "../x"}}), "source.path: must be"),
            (
                json!({"source": {"url": "https://h/a.git", "username": "x"}}),
                "source.username: goes only",
            ),
        ] {
            let found = job(&given).unwrap_err();
            assert!(found.starts_with(expected), "{found} instead of {expected}");
            assert!(!found.contains("hunter22"), "{found}");
        }
    }
}
