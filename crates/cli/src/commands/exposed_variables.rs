//! Warnings about plain values that may be secrets.

use crate::output::Output;
use canyon_domain::json::Json;
use canyon_domain::secret_name::is_secret_name;
use canyon_domain::secret_text::MIN_SECRET_BYTES;
use serde_json::Value;

/// Warns about variables of `job.environment` whose names are those of secrets: every reader of the runner sees them.
pub(super) fn warn(runner: &Value, output: Output) {
    let id = runner["id"].as_str().unwrap_or("RUNNER");
    let environment = runner["runner_configuration"]["job"]["environment"].as_object();
    let names = environment.into_iter().flatten().map(|(name, _)| name.as_str());
    let exposed: Vec<_> = names.filter(|name| is_secret_name(name)).collect();
    let Some(first) = exposed.first() else { return };
    output.notice(&format!(
        "warning: every reader of runner `{id}` sees `{}` of `job.environment`; if that is a secret, move it: \
         canyon set variable --runner {id} --kind environment --secret {first}",
        exposed.join("`, `"),
    ));
}

/// Warns about plain inputs of a deployment that may be secrets.
pub(super) fn warn_of_inputs<'i>(
    inputs: impl IntoIterator<Item = (&'i String, &'i Json)>,
    output: Output,
) {
    let exposed = exposed(inputs);
    let Some(first) = exposed.first() else { return };
    output.notice(&format!(
        "warning: the value of `{}` is not kept as a secret, and Canyon may show it; if that is a secret, give it by \
         `--secret-var {first}`, which asks for the value or reads it from stdin, or by `--secret-var-file {first}=FILE`",
        exposed.join("`, `"),
    ));
}

/// The names of the values that may be secrets.
pub(super) fn exposed<'i>(
    values: impl IntoIterator<Item = (&'i String, &'i Json)>,
) -> Vec<&'i str> {
    let exposed = values.into_iter().filter(|(name, value)| {
        // A text with a reference, and one that is too short for a secret, are none.
        let is_text = matches!(value, Json::String(text) if text.len() >= MIN_SECRET_BYTES && !text.contains("${"));
        is_text && names_a_value(name)
    });
    exposed.map(|(name, _)| name.as_str()).collect()
}

/// Endings of names of what is said about a secret: where it is, or how it must be.
const ABOUT_A_SECRET: [&str; 9] =
    ["_id", "_name", "_arn", "_url", "_uri", "_length", "_ttl", "_version", "_type"];

/// Whether a variable of this name has a secret itself as its value. Of keys, many are public.
fn names_a_value(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let without_key = name.replace("key", "");
    let is_secret_key =
        ["api", "access", "private", "secret", "signing", "encryption"].iter().any(|what| {
            name.ends_with(&format!("{what}_key")) || name.ends_with(&format!("{what}key"))
        });
    is_secret_name(&name)
        && (is_secret_name(&without_key) || is_secret_key)
        && !name.contains("public")
        && !ABOUT_A_SECRET.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_text_is_warned_of_if_its_name_is_that_of_a_secret() {
        let warned = |name: &str, value: Json| !exposed([(&name.to_owned(), &value)]).is_empty();
        for name in ["db_password", "api_token", "API_KEY", "client_secret", "tls_private_key"] {
            assert!(warned(name, "correct-horse".into()), "{name}");
        }
        for name in
            ["region", "kms_key_id", "partition_key", "ssh_public_key", "secret_arn", "token_ttl"]
        {
            assert!(!warned(name, "correct-horse".into()), "{name}");
        }
        for value in ["true".into(), "${context.project.id}".into(), Json::Bool(true)] {
            assert!(!warned("use_password", value), "a value");
        }
    }
}
