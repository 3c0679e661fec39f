//! `${context.KEY}` in the texts of a container job: in its variables, its inputs and its files.

use super::ContainerJob;
use crate::field_error::FieldErrors;
use crate::run_context::{RunContext, check_text, is_template_text};
use serde_json::Value;

impl ContainerJob {
    /// Whether a run may change one of its texts.
    pub fn has_templates(&self) -> bool {
        let mut found = false;
        self.clone().each_text(&mut |_, text| found |= is_template_text(text));
        found
    }

    /// Notes every reference that no run has a value for.
    pub(super) fn check_templates(&self) -> FieldErrors {
        let mut faults = FieldErrors::default();
        self.clone().each_text(&mut |path, text| check_text(path, text, &mut faults));
        faults
    }

    /// Replaces the references by the values of a run.
    pub fn expand(&mut self, context: &RunContext) {
        self.each_text(&mut |_, text| *text = context.expand_text(text));
    }

    /// Calls `visit` with each text and its path.
    fn each_text(&mut self, visit: &mut dyn FnMut(&str, &mut String)) {
        for (name, value) in self.variables.iter_mut().flatten() {
            visit(&format!("variables.{name}"), value);
        }
        for (name, value) in self.inputs.iter_mut().flatten() {
            each_text_of(&format!("inputs.{name}"), value, visit);
        }
        for (path, file) in self.files.iter_mut().flatten() {
            let shown: String = path.chars().take(80).collect();
            let field = format!("files[{shown:?}]");
            let is_encoded = file.get("encoding").is_some_and(|encoding| encoding != "utf8");
            match file {
                Value::String(text) => visit(&field, text),
                Value::Object(members) if !is_encoded => {
                    if let Some(Value::String(text)) = members.get_mut("content") {
                        visit(&field, text);
                    }
                }
                _ => {}
            }
        }
    }
}

fn each_text_of(path: &str, value: &mut Value, visit: &mut dyn FnMut(&str, &mut String)) {
    match value {
        Value::String(text) => visit(path, text),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                each_text_of(&format!("{path}[{index}]"), item, visit);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                each_text_of(&format!("{path}.{name}"), member, visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use uuid::Uuid;

    #[test]
    fn references_are_replaced_in_every_text_and_unknown_ones_are_named_by_their_path() {
        let given = |key: &str| {
            let text = format!("${{context.{key}}}-$HOME");
            json!({
                "image": "a", "command": ["/x"], "variables": {"A": text}, "inputs": {"b": [{"c": text}]},
                "files": {"d": text, "e": {"content": text}, "f": {"content": "aGk=", "encoding": "base64"}},
            })
        };
        let mut job = ContainerJob::parse(given("env.id")).unwrap();
        assert!(job.has_templates());
        let context = RunContext {
            org: "acme".parse().unwrap(),
            project: "shop".parse().unwrap(),
            env: "dev".parse().unwrap(),
            env_type: "development".parse().unwrap(),
            deployment: crate::ids::DeploymentId(Uuid::nil()),
            runner: "laptop".parse().unwrap(),
        };
        job.expand(&context);
        assert!(!job.has_templates());
        assert_eq!(job.variables.as_ref().unwrap()["A"], "dev-$HOME");
        assert_eq!(job.inputs.as_ref().unwrap()["b"], json!([{"c": "dev-$HOME"}]));
        let files = job.files();
        assert_eq!(files["d"].content, b"dev-$HOME");
        assert_eq!(files["e"].content, b"dev-$HOME");
        let faults = ContainerJob::parse(given("nope")).unwrap_err();
        let paths: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, ["variables.A", "inputs.b[0].c", "files[\"d\"]", "files[\"e\"]"]);
    }
}
