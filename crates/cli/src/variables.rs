//! The module's variables: `--var-file` in order, then `--var`, read as Terraform reads them.

use crate::assignment::structured;
use crate::body::read_file;
use crate::declared_types::{self, Reading};
use crate::error::CliError;
use crate::hcl;
use canyon_domain::job::Inputs;
use canyon_domain::json::{InvalidJson, Json};
use canyon_domain::yaml;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// All values by name for the module in `folder`, if it is on this machine; a later value overrides an earlier one.
pub(crate) fn values(
    files: &[PathBuf],
    given: &[String],
    folder: Option<&Path>,
) -> Result<Inputs, CliError> {
    let declared = folder.map(declared_types::of).unwrap_or_default();
    let mut values = Inputs::new();
    for file in files {
        values.extend(read(file)?);
    }
    for assignment in given {
        let (name, text) = assignment
            .split_once('=')
            .ok_or_else(|| CliError::usage("--var: write it as name=value"))?;
        let value = value(name, text, &declared)
            .map_err(|reason| CliError::usage(format!("--var `{name}`: {reason}")))?;
        values.insert(name.to_owned(), value);
    }
    Ok(values)
}

/// A text for a variable of a simple type stays as it is; OpenTofu converts it. If the type is not known, the form
/// decides.
fn value(name: &str, text: &str, declared: &BTreeMap<String, Reading>) -> Result<Json, String> {
    match declared.get(name) {
        Some(Reading::Literal) => Ok(text.into()),
        // A text that YAML alone reads, such as `[a, b]`, has always been accepted.
        Some(Reading::Hcl) => hcl::value(text).or_else(|fault| match by_form(text) {
            Ok(value @ (Json::Array(_) | Json::Object(_))) => Ok(value),
            Ok(_) | Err(_) => Err(fault.to_string()),
        }),
        None => by_form(text),
    }
}

/// A text that begins with `[`, `{` or a quote is a list, an object or a quoted text, in HCL or YAML; any other is text.
pub(crate) fn by_form(text: &str) -> Result<Json, String> {
    if !text.starts_with(['[', '{', '"', '\'']) {
        return Ok(text.into());
    }
    hcl::value(text).or_else(|_| structured(text))
}

fn read(file: &Path) -> Result<Inputs, CliError> {
    let shown = file.display();
    let value = match file.extension().and_then(|extension| extension.to_str()) {
        Some("json") => json(&read_file(file)?)
            .map_err(|reason| CliError::usage(format!("--var-file `{shown}`{reason}")))?,
        Some("yaml" | "yml") => yaml::parse(&read_file(file)?, &shown.to_string())?,
        Some("tfvars") => {
            let values = hcl::values(&read_file(file)?);
            return values
                .map_err(|reason| CliError::usage(format!("--var-file `{shown}`: {reason}")));
        }
        _ => {
            return Err(CliError::usage(format!(
                "--var-file `{shown}`: its name ends in .tfvars, .tfvars.json, .json, .yaml or .yml"
            )));
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
        let values = values(&[json, yaml], &given, None).unwrap();
        let expected = json!({"a": 1, "b": 2, "c": "3", "d": [1, "x"], "e": "a=b"});
        assert_eq!(Json::Object(values), expected.into());
    }

    #[test]
    fn a_variable_is_read_by_the_type_that_the_module_declares() {
        let folder = tempfile::tempdir().unwrap();
        let module = "variable \"text\" { type = string }\nvariable \"free\" {}\nvariable \"map\" { type = map(string) }\n\
                      variable \"any\" { type = any }\n";
        std::fs::write(folder.path().join("main.tf"), module).unwrap();
        let file = folder.path().join("a.tfvars");
        std::fs::write(&file, "text = \"of the file\"\nmap = { x = \"1\" }\nany = 5\n").unwrap();
        let of = |given: &[&str]| {
            let given: Vec<_> = given.iter().map(|&text| text.to_owned()).collect();
            values(std::slice::from_ref(&file), &given, Some(folder.path()))
        };
        let found =
            of(&["text=\"[a]\"", "free={a=1}", "map={a=\"1\"}", "any=[1, 2]", "other={a=\"1\"}"]);
        let expected = json!({
            "text": "\"[a]\"", "free": "{a=1}", "map": { "a": "1" }, "any": [1, 2], "other": { "a": "1" },
        });
        assert_eq!(Json::Object(found.unwrap()), expected.into());
        assert_eq!(
            Json::Object(of(&["map={a: b}"]).unwrap()).to_string(),
            r#"{"any":5,"map":{"a":"b"},"text":"of the file"}"#
        );
        let refused = of(&["map=s3cret"]).unwrap_err().to_string();
        assert!(refused.contains("--var `map`") && !refused.contains("s3cret"), "{refused}");
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
        let values = values(&[json, yaml], &given, None).unwrap();
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
            let error = values(&[], &[given.to_owned()], None).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
        assert!(values(&["none.tfvars".into()], &[], None).is_err());
        assert!(values(&["values.ini".into()], &[], None).is_err());
    }
}
