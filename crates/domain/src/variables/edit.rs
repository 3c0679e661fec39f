//! A change of one variable, as a caller requests it.

use super::secret_json::SecretJson;
use super::{MAX_VALUE_BYTES, VariableKey, VariableKind};
use crate::field_error::FieldErrors;
use crate::json::Json;
use crate::secret_reference::SecretReference;
use crate::secret_text::MIN_SECRET_BYTES;
use std::collections::BTreeMap;

/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 200;
/// The deepest value. It is sent within other objects, and JSON parsers stop at 128 levels.
const MAX_DEPTH: usize = 64;

/// A change of one variable. What is absent keeps its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariableEdit {
    /// The new value.
    pub value: Option<SecretJson>,
    /// Where a job reads the value, in its place.
    pub reference: Option<SecretReference>,
    /// Whether it is a secret. A new value of a secret stays one unless this is `false`.
    pub secret: Option<bool>,
    /// Its purpose.
    pub description: Option<String>,
}

/// The changes of a set: `None` removes the variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariableEdits(BTreeMap<VariableKey, Option<VariableEdit>>);

impl VariableEdits {
    /// Parses the changes of the variables of one kind. Notes the faults, below the path of the kind.
    pub fn read(
        &mut self,
        kind: VariableKind,
        given: BTreeMap<String, Option<VariableEdit>>,
        faults: &mut FieldErrors,
    ) {
        for (name, edit) in given {
            let shown: String = name.chars().take(60).collect();
            let path = format!("{}[{shown:?}]", kind.as_str());
            match VariableKey::new(kind, &name) {
                Ok(key) => {
                    if let Some(edit) = &edit {
                        edit.check(kind, &path, faults);
                    }
                    self.0.insert(key, edit);
                }
                Err(fault) => faults.add(path, fault.to_string()),
            }
        }
    }

    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The changes by key.
    pub fn iter(&self) -> impl Iterator<Item = (&VariableKey, Option<&VariableEdit>)> {
        self.0.iter().map(|(key, edit)| (key, edit.as_ref()))
    }
}

impl VariableEdit {
    fn check(&self, kind: VariableKind, path: &str, faults: &mut FieldErrors) {
        let description = self.description.as_deref().unwrap_or_default();
        if description.chars().count() > MAX_DESCRIPTION || description.contains(char::is_control) {
            faults.add(
                format!("{path}.description"),
                format!("has at most {MAX_DESCRIPTION} characters, and no control characters"),
            );
        }
        if let Some(reference) = &self.reference {
            if self.value.is_some() {
                faults.add(path, "has a `value` and a `reference`: give one of them");
            }
            if self.secret == Some(false) {
                let reason = "cannot be `false`: what a store keeps is a secret";
                faults.add(format!("{path}.secret"), reason);
            }
            for (field, reason) in reference.faults() {
                faults.add(format!("{path}.reference.{field}"), reason);
            }
        }
        let Some(value) = self.value.as_ref().map(SecretJson::expose) else { return };
        if let Some(fault) = fault_of(value, kind) {
            faults.add(format!("{path}.value"), fault);
        } else if self.secret == Some(true)
            && let Some(fault) = secret_fault(value)
        {
            faults.add(format!("{path}.value"), fault);
        }
    }
}

fn fault_of(value: &Json, kind: VariableKind) -> Option<String> {
    if value.depth() > MAX_DEPTH {
        return Some(format!("is nested more than {MAX_DEPTH} levels deep"));
    }
    if value.to_string().len() > MAX_VALUE_BYTES {
        return Some(format!("has more than {} KiB", MAX_VALUE_BYTES / 1024));
    }
    match (kind, value) {
        (VariableKind::Terraform, Json::Null) => Some(
            "is `null`: remove the variable instead, with `null` in place of its object".to_owned(),
        ),
        (VariableKind::Environment, Json::String(text)) if text.contains('\0') => {
            Some("has a NUL character, which no environment variable can have".to_owned())
        }
        (VariableKind::Terraform, _) | (VariableKind::Environment, Json::String(_)) => None,
        (VariableKind::Environment, _) => {
            Some("is not a text: the value of an environment variable is one".to_owned())
        }
    }
}

/// Why the value cannot be that of a secret Terraform variable, if it cannot. It continues a sentence after the path.
pub fn secret_value_fault(value: &Json) -> Option<String> {
    fault_of(value, VariableKind::Terraform).or_else(|| secret_fault(value))
}

/// Why the value cannot be a secret, if it cannot.
pub fn secret_fault(value: &Json) -> Option<String> {
    let is_short = match value {
        Json::String(text) => text.len() < MIN_SECRET_BYTES,
        Json::Null | Json::Bool(_) => true,
        Json::Number(number) => number.as_str().len() < MIN_SECRET_BYTES,
        Json::Array(_) | Json::Object(_) => false,
    };
    is_short.then(|| {
        format!(
            "is too short for a secret: it has at least {MIN_SECRET_BYTES} bytes, because a shorter text is not masked in \
             logs"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn edit(value: serde_json::Value, secret: Option<bool>) -> VariableEdit {
        VariableEdit { value: Some(Json::from(value).into()), secret, ..VariableEdit::default() }
    }

    fn refers(
        value: Option<serde_json::Value>,
        secret: Option<bool>,
        locator: &str,
    ) -> VariableEdit {
        let store = "vault".parse().unwrap();
        let reference = SecretReference { store, locator: locator.to_owned(), version: None };
        let value = value.map(|value| Json::from(value).into());
        VariableEdit { value, reference: Some(reference), secret, description: None }
    }

    #[test]
    fn one_answer_names_every_fault_of_the_variables() {
        let given = |all: Vec<(&str, Option<VariableEdit>)>| {
            all.into_iter().map(|(name, edit)| (name.to_owned(), edit)).collect()
        };
        let mut deep = json!(1);
        for _ in 0..65 {
            deep = json!([deep]);
        }
        let long = VariableEdit { description: Some("x".repeat(201)), ..VariableEdit::default() };
        let (mut edits, mut faults) = (VariableEdits::default(), FieldErrors::default());
        let terraform = given(vec![
            ("1a", Some(edit(json!("x"), None))),
            ("deep", Some(edit(deep, None))),
            ("gone", None),
            ("large", Some(edit(json!("x".repeat(64 * 1024)), None))),
            ("none", Some(edit(json!(null), None))),
            ("pin", Some(edit(json!("12345"), Some(true)))),
            ("note", Some(long)),
            ("good", Some(edit(json!("123456"), Some(true)))),
            ("map", Some(edit(json!({ "a": 1 }), Some(true)))),
            ("kept", Some(refers(Some(json!("123456")), Some(false), " db"))),
            ("stored", Some(refers(None, Some(true), "db#password"))),
        ]);
        let environment = given(vec![
            ("TF_VAR_x", Some(edit(json!("x"), None))),
            ("NUMBER", Some(edit(json!(1), None))),
            ("NUL", Some(edit(json!("a\0b"), None))),
            ("CANYON_API_URL", None),
        ]);
        edits.read(VariableKind::Terraform, terraform, &mut faults);
        edits.read(VariableKind::Environment, environment, &mut faults);
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(faults.join("\n"), @r#"
        `terraform["1a"]` is not a name: use 1 to 200 letters, digits and underscores (Terraform variables also hyphens), starting with a letter or an underscore
        `terraform["deep"].value` is nested more than 64 levels deep
        `terraform["kept"]` has a `value` and a `reference`: give one of them
        `terraform["kept"].secret` cannot be `false`: what a store keeps is a secret
        `terraform["kept"].reference.ref` has 1 to 2048 bytes, without control characters or spaces around it
        `terraform["large"].value` has more than 64 KiB
        `terraform["none"].value` is `null`: remove the variable instead, with `null` in place of its object
        `terraform["note"].description` has at most 200 characters, and no control characters
        `terraform["pin"].value` is too short for a secret: it has at least 6 bytes, because a shorter text is not masked in logs
        `environment["CANYON_API_URL"]` cannot be set: the runner sets it itself, or it would change how the runner calls OpenTofu
        `environment["NUL"].value` has a NUL character, which no environment variable can have
        `environment["NUMBER"].value` is not a text: the value of an environment variable is one
        `environment["TF_VAR_x"]` names a Terraform variable: set that variable instead, without `TF_VAR_`
        "#);
    }
}
