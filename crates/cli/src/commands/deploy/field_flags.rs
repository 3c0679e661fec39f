//! A refusal of a deployment in the words of the command line: the API names its fields, and the user gave flags.

use canyon_api::client::ClientError;
use serde_json::Value;

/// The fields, and what gives them.
const FLAGS: [(&str, &str); 18] = [
    ("project_id", "PROJECT"),
    ("env_id", "ENVIRONMENT"),
    ("rollback_to_deployment_id", "DEPLOYMENT"),
    ("plan_deployment_id", "DEPLOYMENT"),
    ("encrypted_outputs_recipient", "--outputs-recipient"),
    ("encrypted_logs_recipient", "--logs-recipient"),
    ("max_deletions", "--max-deletions"),
    ("module.source", "--module"),
    ("targets", "--target"),
    ("replace", "--replace"),
    ("parallelism", "--parallelism"),
    ("accept_state", "--accept-state"),
    ("plan_only", "--plan-only"),
    ("resource", "--resource"),
    ("role", "--role"),
    ("reason", "--reason"),
    ("approval", "--require-approval"),
    ("supersede", "--supersede-queued"),
];

/// A flag that was given several times: which of them, counted from 1. `index` is that of the field, such as `[0]`.
fn nth(flag: &str, index: &str) -> Option<String> {
    let index: usize = index.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?;
    Some(format!("{flag} (number {})", index + 1))
}

/// The same error, with flags in place of fields.
pub(super) fn renamed(mut error: ClientError) -> ClientError {
    if let ClientError::Refused { body, .. } = &mut error {
        let message = &mut body.message;
        let fields = body.details.get_mut("fields").and_then(Value::as_array_mut);
        for field in fields.into_iter().flatten() {
            let Some(path) = field["path"].as_str() else { continue };
            let named = FLAGS.iter().find_map(|(name, flag)| {
                let rest = path.strip_prefix(name)?;
                if rest.is_empty() { Some((*flag).to_owned()) } else { nth(flag, rest) }
            });
            if let Some(flag) = named {
                *message = message.replace(&format!("`{path}`"), &format!("`{flag}`"));
                field["path"] = flag.into();
            }
        }
    }
    error
}
