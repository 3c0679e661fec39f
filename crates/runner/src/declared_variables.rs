//! The variables that a module declares.
//!
//! The runner passes a kept variable only to a module that declares it: OpenTofu warns about every other one, and an
//! organization's variables are for many modules.

use crate::hcl_blocks::{self, Block};
use crate::module_files::{self, Syntax};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A declared variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeclaredVariable {
    /// Its declaration mentions `sensitive` or `ephemeral`. A declaration that sets them to `false` counts too: the reader
    /// evaluates no expression, and a value that is taken for a secret is only not shown.
    pub is_secret: bool,
}

/// Variables by name.
pub type DeclaredVariables = BTreeMap<String, DeclaredVariable>;

/// The variables that the files of the folder `module` declare. `None` if a file cannot be read: OpenTofu then says why.
pub fn of(module: &Path) -> Option<DeclaredVariables> {
    let mut found = DeclaredVariables::new();
    for file in module_files::of(module)? {
        match file.syntax {
            Syntax::Hcl => {
                for (name, is_secret) in
                    hcl_blocks::blocks(&file.text).into_iter().filter_map(declared)
                {
                    add(&mut found, name, is_secret);
                }
            }
            Syntax::Json => declared_by_json(&serde_json::from_str(&file.text).ok()?, &mut found),
        }
    }
    Some(found)
}

/// An override file may declare a variable again, and make it secret.
fn add(found: &mut DeclaredVariables, name: String, is_secret: bool) {
    found.entry(name).or_default().is_secret |= is_secret;
}

/// Whether a declaration may make a value secret.
fn mentions_secrecy(declaration: &str) -> bool {
    ["sensitive", "ephemeral"].iter().any(|word| declaration.contains(word))
}

/// The name in `variable "name" {`, and whether its value is secret. HCL allows an identifier instead of a quoted label.
fn declared(block: Block<'_>) -> Option<(String, bool)> {
    match <[String; 2]>::try_from(block.header) {
        Ok([kind, name]) if kind == "variable" => Some((name, mentions_secrecy(block.body))),
        Ok(_) | Err(_) => None,
    }
}

/// The names in `{"variable": {"name": {…}}}`, where each object may be a list of such objects
/// (<https://opentofu.org/docs/language/syntax/json/>).
fn declared_by_json(document: &Value, found: &mut DeclaredVariables) {
    let each = |value: &Value| match value {
        Value::Array(items) => items.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            vec![value.clone()]
        }
    };
    for part in each(document) {
        for variables in each(&part["variable"]) {
            for (name, declaration) in variables.as_object().into_iter().flatten() {
                add(found, name.clone(), mentions_secrecy(&declaration.to_string()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn found(files: &[(&str, &str)]) -> Option<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        of(folder.path()).map(|found| found.into_keys().collect())
    }

    #[test]
    fn a_variable_is_secret_if_one_of_its_declarations_may_say_so() {
        let files = [
            (
                "main.tf",
                "variable \"a\" {\n  sensitive = true\n}\nvariable \"b\" {}\nlocals { sensitive = 1 }",
            ),
            (
                "more.tf.json",
                r#"{"variable": {"c": {"ephemeral": true}, "d": {"type": "string"}}}"#,
            ),
            ("one.tf", "variable \"e\" {\n  type = string\n}"),
            ("one_override.tf", "variable \"e\" {\n  sensitive = true\n}"),
        ];
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let found = of(folder.path()).unwrap();
        let secret = found.iter().filter(|(_, variable)| variable.is_secret);
        assert_eq!(secret.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "c", "e"]);
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn a_variable_is_declared_in_each_syntax() {
        let hcl = "variable \"a\" {}\n  variable \"b-2\"{\n}\nvariable c { default = 1 }\n\tvariable\t\"d\"  {\n}\r\n\
                   # variable \"no\" {\nvariables \"no\" {}\nvariable_no {}\nx = variable\nvariable \"\" {}\n";
        let files = [
            ("main.tf", hcl),
            ("more.tofu", "variable \"e\" {}"),
            ("json.tf.json", r#"{"variable": {"f": {}, "g": {}}, "output": {"no": {}}}"#),
            ("list.tofu.json", r#"[{"variable": [{"h": {}}, {"i": {}}]}, {}]"#),
            ("notes.txt", "variable \"no\" {}"),
        ];
        let expected = ["a", "b-2", "c", "d", "e", "f", "g", "h", "i"];
        assert_eq!(found(&files).unwrap(), expected);
    }

    #[test]
    fn a_file_that_cannot_be_read_leaves_the_names_unknown() {
        assert_eq!(found(&[("main.tf", "variable \"a\" {}"), ("x.tf.json", "{")]), None);
    }
}
