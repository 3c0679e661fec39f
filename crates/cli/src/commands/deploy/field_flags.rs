//! A refusal of a deployment in the words of the command line: the API names its fields, and the user gave flags.

use canyon_api::client::ClientError;
use serde_json::Value;

/// The fields, and what gives them.
const FLAGS: [(&str, &str); 11] = [
    ("project_id", "PROJECT"),
    ("env_id", "ENVIRONMENT"),
    ("rollback_to_deployment_id", "DEPLOYMENT"),
    ("encrypted_outputs_recipient", "--outputs-recipient"),
    ("encrypted_logs_recipient", "--logs-recipient"),
    ("max_deletions", "--max-deletions"),
    ("module.source", "--module"),
    ("targets", "--target"),
    ("replace", "--replace"),
    ("parallelism", "--parallelism"),
    ("accept_state", "--accept-state"),
];

/// The same error, with flags in place of fields.
pub(super) fn renamed(mut error: ClientError) -> ClientError {
    if let ClientError::Refused { body, .. } = &mut error {
        let message = &mut body.message;
        let fields = body.details.get_mut("fields").and_then(Value::as_array_mut);
        for field in fields.into_iter().flatten() {
            let Some(path) = field["path"].as_str() else { continue };
            let is_of = |name: &str| {
                path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
            };
            if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| is_of(name)) {
                *message = message.replace(&format!("`{path}`"), &format!("`{flag}`"));
                field["path"] = (*flag).into();
            }
        }
    }
    error
}
