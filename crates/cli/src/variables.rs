//! The module's variables: `--var-file` in order, then `--var`.

use crate::assignment::structured;
use crate::body::read_file;
use crate::error::CliError;
use crate::yaml;
use canyon_domain::job::Inputs;
use canyon_domain::json::{InvalidJson, Json};
use serde::de::IgnoredAny;
use std::path::{Path, PathBuf};

/// All values by name; a later value overrides an earlier one.
///
/// A `--var` is text, which OpenTofu converts to the declared type of the variable. A value that begins
/// with `[`, `{` or a quote is a list, an object or a quoted text.
pub(crate) fn values(files: &[PathBuf], given: &[String]) -> Result<Inputs, CliError> {
    let mut values = Inputs::new();
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

fn read(file: &Path) -> Result<Inputs, CliError> {
    let shown = file.display();
    let value = match file.extension().and_then(|extension| extension.to_str()) {
        Some("json") => json(&read_file(file)?)
            .map_err(|reason| CliError::usage(format!("--var-file `{shown}`{reason}")))?,
        Some("yaml" | "yml") => yaml::parse(&read_file(file)?, &shown.to_string())?,
        _ => {
            return Err(CliError::usage_with_hint(
                format!("--var-file `{shown}`: only .json and .yaml files can be read"),
                "write the values as JSON, into a file that ends in .tfvars.json",
            ));
        }
    };
    match value {
        Json::Object(values) => Ok(values),
        _ => Err(CliError::usage(format!(
            "--var-file `{shown}`: it must contain `name: value` pairs"
        ))),
    }
}

fn json(text: &str) -> Result<Json, String> {
    Json::parse(text).map_err(|error| match error {
        InvalidJson::Depth => format!(": {error}"),
        InvalidJson::Syntax => match serde_json::from_str::<IgnoredAny>(text) {
            Err(at) => format!(", line {}, column {}: {error}", at.line(), at.column()),
            Ok(_) => format!(": {error}"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_variable_overrides_a_file_and_stays_text() {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("a.tfvars.json");
        let yaml = folder.path().join("b.yaml");
        std::fs::write(&json, r#"{"a": 1, "b": 1, "c": 1}"#).unwrap();
        std::fs::write(&yaml, "b: 2\nc: 2\n").unwrap();
        let given = ["c=3".to_owned(), "d=[1, x]".to_owned(), "e=a=b".to_owned()];
        let values = values(&[json, yaml], &given).unwrap();
        let expected = json!({"a": 1, "b": 2, "c": "3", "d": [1, "x"], "e": "a=b"});
        assert_eq!(Json::Object(values), expected.into());
    }

    #[test]
    fn every_digit_of_a_number_is_kept() {
        const FRACTION: &str = "0.1000000000000000055511151231257827021181583404541015625";
        let folder = tempfile::tempdir().unwrap();
        let (json, yaml) = (folder.path().join("a.tfvars.json"), folder.path().join("b.yaml"));
        let numbers = format!("[9007199254740993, 18446744073709551617, 1e400, {FRACTION}]");
        std::fs::write(&json, format!("{{\"a\": {numbers}}}")).unwrap();
        std::fs::write(&yaml, format!("b: {numbers}\nc: [+7, .5, -1., 007.5, 0x10]\n")).unwrap();
        let given = [format!("d={numbers}"), "e=18446744073709551617".to_owned()];
        let values = values(&[json, yaml], &given).unwrap();
        let written = numbers.replace(", ", ",");
        for name in ["a", "b", "d"] {
            assert_eq!(values[name].to_string(), written, "{name}");
        }
        assert_eq!(values["c"].to_string(), "[7,0.5,-1.0,7.5,16]");
        assert_eq!(values["e"], "18446744073709551617".into());
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
