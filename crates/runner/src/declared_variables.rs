//! The variables that a module declares.
//!
//! The runner passes a kept variable only to a module that declares it: OpenTofu warns about every other one, and an
//! organization's variables are for many modules.

use crate::hcl_blocks;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

/// The names that the files of the folder `module` declare. `None` if a file cannot be read: OpenTofu then says why.
pub fn of(module: &Path) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut files: Vec<_> = fs::read_dir(module).ok()?.collect::<io::Result<_>>().ok()?;
    // A pipe would block.
    files.retain(|file| file.path().is_file());
    for file in files {
        let name = file.file_name().to_string_lossy().into_owned();
        let is = |suffixes: [&str; 2]| suffixes.iter().any(|suffix| name.ends_with(suffix));
        if is([".tf", ".tofu"]) {
            let text = fs::read_to_string(file.path()).ok()?;
            names.extend(hcl_blocks::headers(&text).into_iter().filter_map(declared_by_header));
        } else if is([".tf.json", ".tofu.json"]) {
            let text = fs::read(file.path()).ok()?;
            declared_by_json(&serde_json::from_slice(&text).ok()?, &mut names);
        }
    }
    Some(names)
}

/// The name in `variable "name" {`. HCL allows an identifier instead of a quoted label.
fn declared_by_header(words: Vec<String>) -> Option<String> {
    match <[String; 2]>::try_from(words) {
        Ok([kind, name]) if kind == "variable" => Some(name),
        Ok(_) | Err(_) => None,
    }
}

/// The names in `{"variable": {"name": {…}}}`, where each object may be a list of such objects
/// (<https://opentofu.org/docs/language/syntax/json/>).
fn declared_by_json(document: &Value, names: &mut BTreeSet<String>) {
    let each = |value: &Value| match value {
        Value::Array(items) => items.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            vec![value.clone()]
        }
    };
    for part in each(document) {
        for variables in each(&part["variable"]) {
            names.extend(variables.as_object().into_iter().flat_map(|all| all.keys().cloned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Option<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        of(folder.path()).map(|names| names.into_iter().collect())
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
