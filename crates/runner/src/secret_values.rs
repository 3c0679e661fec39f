//! Decides which values of a job are secrets, so that the runner masks them in everything that leaves the job.

use canyon_domain::job::Job;
use canyon_domain::json::Json;
use canyon_domain::secret_name::is_secret_name;
use canyon_domain::secret_variables::SecretVariables;
use canyon_domain::variables::secret_json::SecretJson;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Variables that container runtimes and Kubernetes set for every container. If the job takes over a whole Secret, the
/// names of its keys are not known, but they are not these.
const OF_THE_PLATFORM: [&str; 9] =
    ["PATH", "HOME", "HOSTNAME", "LANG", "PWD", "SHLVL", "TERM", "SSL_CERT_DIR", "SSL_CERT_FILE"];
const OF_KUBERNETES: &str = "KUBERNETES_";

/// The values in `variables` that the runner's definition takes from a secret store, or whose names suggest a secret.
/// If such a stored value is a JSON object, as is common in secret stores, also its members whose names suggest a
/// secret.
pub fn of(variables: &[(OsString, OsString)], secret: &SecretVariables) -> Vec<String> {
    let mut values = Vec::new();
    for (name, value) in variables {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
        let of_platform = || OF_THE_PLATFORM.contains(&name) || name.starts_with(OF_KUBERNETES);
        let is_stored = secret.names.contains(name) || secret.contains(name) && !of_platform();
        if is_stored || is_secret_name(name) {
            values.push(value.to_owned());
        }
        // The first parse refuses values that are nested too deep for the second.
        if is_stored
            && let Ok(Value::Object(_)) = serde_json::from_str(value)
            && let Ok(document) = serde_json::from_str(value)
        {
            members(document, false, &mut values);
        }
    }
    values
}

/// The values of the secrets that the organization keeps for the job, and of those that earlier runs may have left in the
/// state: each text, and in lists, objects and JSON texts each text and number.
pub fn of_kept(job: &Job) -> Vec<String> {
    let mut values = Vec::new();
    let kept = job.variables.iter().filter(|variable| variable.secret);
    let kept = kept.map(|variable| &variable.value).chain(&job.former_secrets);
    for value in kept.map(SecretJson::expose) {
        leaves(value, &mut values);
        match value {
            Json::String(text) => {
                if let Ok(document @ (Json::Object(_) | Json::Array(_))) = Json::parse(text) {
                    leaves(&document, &mut values);
                }
            }
            Json::Array(_) | Json::Object(_) => values.push(value.to_string()),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
    values
}

fn leaves(value: &Json, found: &mut Vec<String>) {
    match value {
        Json::String(text) => found.push(text.clone()),
        Json::Number(number) => found.push(number.as_str().trim_start_matches('-').to_owned()),
        Json::Array(items) => items.iter().for_each(|item| leaves(item, found)),
        Json::Object(fields) => fields.values().for_each(|item| leaves(item, found)),
        Json::Null | Json::Bool(_) => {}
    }
}

/// The strings and the digits of numbers in `value` under a name that suggests a secret. The digits are those of the
/// text: `Value` would keep fewer digits of a long number.
fn members(value: &RawValue, is_secret: bool, found: &mut Vec<String>) {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') => {
            let fields = serde_json::from_str::<BTreeMap<String, &RawValue>>(text);
            for (name, item) in fields.unwrap_or_default() {
                members(item, is_secret || is_secret_name(&name), found);
            }
        }
        Some(b'[') => {
            let items = serde_json::from_str::<Vec<&RawValue>>(text).unwrap_or_default();
            for item in items {
                members(item, is_secret, found);
            }
        }
        Some(b'"') if is_secret => found.extend(serde_json::from_str::<String>(text)),
        Some(b'-' | b'0'..=b'9') if is_secret => {
            found.push(text.trim_start_matches('-').to_owned());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::Mask;

    fn masked(secret: &SecretVariables) -> Vec<String> {
        let variables = [
            ("PATH", "/usr/bin"),
            ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
            ("REGION", "eu-west-1"),
            ("DATABASE", r#"{"username":"app","password":"hush","tls":{"private_key":["PEM"]}}"#),
            ("API_TOKEN", "by its name"),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token"),
        ];
        of(&variables.map(|(name, value)| (name.into(), value.into())), secret)
    }

    #[test]
    fn values_are_secret_by_the_definition_or_by_their_names() {
        let none = SecretVariables::default();
        assert_eq!(masked(&none), ["by its name"]);
        let names = SecretVariables { names: ["DATABASE".to_owned()].into(), ..none.clone() };
        let document = r#"{"username":"app","password":"hush","tls":{"private_key":["PEM"]}}"#;
        assert_eq!(masked(&names), [document, "hush", "PEM", "by its name"]);
        let whole = SecretVariables { prefixes: [String::new()].into(), ..none };
        let values = masked(&whole);
        assert_eq!(values[0], "eu-west-1", "it may be a key of the Secret: {values:?}");
        assert_eq!(values.len(), 6, "{values:?}");
    }

    #[test]
    fn a_number_under_a_secret_name_is_masked_as_it_is_written() {
        let document =
            r#"{"port":543210,"pin_token":-9087.650,"keys":[{"id":1234567890123456789012}]}"#;
        let secret =
            SecretVariables { names: ["DOCUMENT".to_owned()].into(), ..Default::default() };
        let values = of(&[("DOCUMENT".into(), document.into())], &secret);
        assert_eq!(values, [document, "1234567890123456789012", "9087.650"]);
        let mask = Mask::new(values.iter().map(String::as_str), &BTreeMap::new());
        assert_eq!(mask.text("port 543210, pin -9087.650"), "port 543210, pin -********");
    }
}
