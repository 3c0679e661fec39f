//! `${context.KEY}` in the values of a module's variables: what a run knows of itself.
//!
//! Only `${context.` is Canyon's. Every other `${…}` may be for the module or its programs, and stays as it is.

use crate::field_error::FieldErrors;
use crate::ids::{DeploymentId, EnvId, EnvTypeId, OrgId, ProjectId, RunnerId};
use crate::inputs::Inputs;
use crate::json::Json;

/// What begins a reference.
pub const OPENING: &str = "${context.";
/// What stands for the text [`OPENING`].
pub const ESCAPED_OPENING: &str = "$\\{context.";
const KEYS: [&str; 6] =
    ["org.id", "project.id", "env.id", "env_type.id", "deployment.id", "runner.id"];

/// The values of one run.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// The organization.
    pub org: OrgId,
    /// The project.
    pub project: ProjectId,
    /// The environment.
    pub env: EnvId,
    /// Its type.
    pub env_type: EnvTypeId,
    /// The deployment.
    pub deployment: DeploymentId,
    /// The runner.
    pub runner: RunnerId,
}

/// Whether a run may change the value: it has a reference, or stands for the text of one.
pub fn is_template(value: &Json) -> bool {
    match value {
        Json::String(text) => is_template_text(text),
        Json::Array(items) => items.iter().any(is_template),
        Json::Object(fields) => fields.values().any(is_template),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// The same for a text.
pub fn is_template_text(text: &str) -> bool {
    text.contains(OPENING) || text.contains(ESCAPED_OPENING)
}

/// Notes every text in the value at `path` with a reference that no run has a value for.
pub fn check(path: &str, value: &Json, faults: &mut FieldErrors) {
    match value {
        Json::String(text) => check_text(path, text, faults),
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check(&format!("{path}[{index}]"), item, faults);
            }
        }
        Json::Object(fields) => {
            for (name, field) in fields {
                let shown: String = name.chars().take(60).collect();
                check(&format!("{path}[{shown:?}]"), field, faults);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Notes the text at `path` if it has a reference that no run has a value for.
pub fn check_text(path: &str, text: &str, faults: &mut FieldErrors) {
    if let Some(reason) = fault_of(text) {
        faults.add(path, reason);
    }
}

fn fault_of(text: &str) -> Option<String> {
    let mut references = text.split(OPENING).skip(1);
    let is_known = |rest: &str| rest.split_once('}').is_some_and(|(key, _)| KEYS.contains(&key));
    let faulty = references.find(|rest| !is_known(rest))?;
    // Only a key is repeated: other text of a value may be a secret.
    let is_key = |key: &&str| {
        key.len() <= 40 && key.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    let key = faulty.split_once('}').map(|(key, _)| key).filter(is_key).unwrap_or("…");
    let known = KEYS.map(|key| format!("`{OPENING}{key}}}`"));
    Some(format!(
        "has a reference `{OPENING}{key}}}` that is not known; there are {}; write `{ESCAPED_OPENING}` for the text `{OPENING}`",
        known.join(", ")
    ))
}

impl RunContext {
    /// The values with those of this run. A reference that is not known stays: an earlier version accepted any text.
    pub fn expand_all(&self, inputs: &mut Inputs) {
        for value in inputs.values_mut().filter(|value| is_template(value)) {
            *value = self.expand(value);
        }
    }

    /// One value with those of this run, at every depth.
    pub fn expand(&self, value: &Json) -> Json {
        match value {
            Json::String(text) => Json::String(self.expand_text(text)),
            Json::Array(items) => Json::Array(items.iter().map(|item| self.expand(item)).collect()),
            Json::Object(fields) => {
                let fields = fields.iter().map(|(name, field)| (name.clone(), self.expand(field)));
                Json::Object(fields.collect())
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
        }
    }

    /// A text with the values of this run.
    pub fn expand_text(&self, mut rest: &str) -> String {
        let mut expanded = String::new();
        while let Some(at) = rest.find('$') {
            expanded.push_str(&rest[..at]);
            let found = &rest[at..];
            if let Some(after) = found.strip_prefix(ESCAPED_OPENING) {
                expanded.push_str(OPENING);
                rest = after;
            } else if let Some((key, after)) =
                found.strip_prefix(OPENING).and_then(|reference| reference.split_once('}'))
                && let Some(value) = self.value(key)
            {
                expanded.push_str(&value);
                rest = after;
            } else {
                expanded.push('$');
                rest = &found[1..];
            }
        }
        expanded.push_str(rest);
        expanded
    }

    fn value(&self, key: &str) -> Option<String> {
        match key {
            "org.id" => Some(self.org.to_string()),
            "project.id" => Some(self.project.to_string()),
            "env.id" => Some(self.env.to_string()),
            "env_type.id" => Some(self.env_type.to_string()),
            "deployment.id" => Some(self.deployment.to_string()),
            "runner.id" => Some(self.runner.to_string()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use uuid::Uuid;

    fn context() -> RunContext {
        RunContext {
            org: "acme".parse().unwrap(),
            project: "pay/shop".parse().unwrap(),
            env: "dev".parse().unwrap(),
            env_type: "test".parse().unwrap(),
            deployment: DeploymentId(Uuid::nil()),
            runner: "eu".parse().unwrap(),
        }
    }

    #[test]
    fn every_known_key_has_a_value() {
        for key in KEYS {
            assert!(context().value(key).is_some(), "{key}");
        }
    }

    #[test]
    fn only_references_to_the_context_are_replaced_in_texts_of_any_depth() {
        for (given, expected) in [
            (
                json!("${context.org.id}-${context.project.id}/${context.env.id}"),
                json!("acme-pay/shop/dev"),
            ),
            (
                json!({ "${context.env.id}": [1, { "a": "x${context.env_type.id}" }] }),
                json!({ "${context.env.id}": [1, { "a": "xtest" }] }),
            ),
            (json!("${context.runner.id}${context.runner.id}"), json!("eueu")),
            (json!("$\\{context.env.id}"), json!("${context.env.id}")),
            (json!("$\\{aws.region} ${aws.region} $"), json!("$\\{aws.region} ${aws.region} $")),
            (json!("$${context.env.id} ${ctx}"), json!("$dev ${ctx}")),
            (json!("${context.other} ${context.env"), json!("${context.other} ${context.env")),
            (json!("ü${context.env.id}ü"), json!("üdevü")),
            (json!([null, true, 1.50]), json!([null, true, 1.50])),
        ] {
            assert_eq!(context().expand(&given.clone().into()), expected.into(), "{given}");
        }
    }

    #[test]
    fn every_text_with_an_unknown_reference_is_named_with_the_known_ones() {
        let value = json!({
            "a": ["${context.env.id}", "${context.env.id}${context.hunter2}"], "b": "${context.env.id",
            "c": "$\\{context.any} ${var.x} ${context}",
        });
        let mut faults = FieldErrors::default();
        check("inputs[\"m\"]", &value.into(), &mut faults);
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(faults.join("\n"), @r#"
        `inputs["m"]["a"][1]` has a reference `${context.hunter2}` that is not known; there are `${context.org.id}`, `${context.project.id}`, `${context.env.id}`, `${context.env_type.id}`, `${context.deployment.id}`, `${context.runner.id}`; write `$\{context.` for the text `${context.`
        `inputs["m"]["b"]` has a reference `${context.…}` that is not known; there are `${context.org.id}`, `${context.project.id}`, `${context.env.id}`, `${context.env_type.id}`, `${context.deployment.id}`, `${context.runner.id}`; write `$\{context.` for the text `${context.`
        "#);
    }
}
