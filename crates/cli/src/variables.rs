//! The module's variables: `--var-file` in order, then `--var`.

use crate::assignment::structured;
use crate::body::read_file;
use crate::error::CliError;
use crate::yaml;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// All values by name; a later one outranks an earlier one.
///
/// A `--var` is text, which OpenTofu turns into the number or truth value that the variable is
/// declared to be. One that begins with `[`, `{` or a quote is a list, an object or a quotation.
pub(crate) fn values(files: &[PathBuf], given: &[String]) -> Result<Map<String, Value>, CliError> {
    let mut values = Map::new();
    for file in files {
        values.extend(read(file)?);
    }
    for assignment in given {
        let (name, text) = assignment
            .split_once('=')
            .ok_or_else(|| CliError::usage("--var: write it as name=value"))?;
        let value = structured(text)
            .map_err(|reason| CliError::usage(format!("--var `{name}`: {reason}")))?;
        values.insert(name.to_owned(), value);
    }
    Ok(values)
}

fn read(file: &Path) -> Result<Map<String, Value>, CliError> {
    let shown = file.display();
    let value = match file.extension().and_then(|extension| extension.to_str()) {
        Some("json") => serde_json::from_str(&read_file(file)?).map_err(|error| {
            CliError::usage(format!(
                "--var-file `{shown}`, line {}, column {}: not JSON",
                error.line(),
                error.column()
            ))
        })?,
        Some("yaml" | "yml") => yaml::parse(&read_file(file)?, &shown.to_string())?,
        _ => {
            return Err(CliError::usage_with_hint(
                format!("--var-file `{shown}`: only .json and .yaml files can be read"),
                "write the values as JSON, into a file that ends in .tfvars.json",
            ));
        }
    };
    match value {
        Value::Object(values) => Ok(values),
        _ => {
            Err(CliError::usage(format!("--var-file `{shown}`: it must hold `name: value` pairs")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_variable_outranks_a_file_and_stays_text() {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("a.tfvars.json");
        let yaml = folder.path().join("b.yaml");
        std::fs::write(&json, r#"{"a": 1, "b": 1, "c": 1}"#).unwrap();
        std::fs::write(&yaml, "b: 2\nc: 2\n").unwrap();
        let given = ["c=3".to_owned(), "d=[1, x]".to_owned(), "e=a=b".to_owned()];
        let values = values(&[json, yaml], &given).unwrap();
        let expected = json!({"a": 1, "b": 2, "c": "3", "d": [1, "x"], "e": "a=b"});
        assert_eq!(Value::Object(values), expected);
    }

    #[test]
    fn a_faulty_variable_is_refused_without_its_value() {
        for given in ["s3cret", "a=[s3cret", "a={s3cret: &x 1}"] {
            let error = values(&[], &[given.to_owned()]).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
        assert!(values(&["terraform.tfvars".into()], &[]).is_err());
    }
}
