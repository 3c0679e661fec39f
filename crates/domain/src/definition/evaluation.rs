//! Definitions without a job: their outputs are made of their inputs alone.

use super::placeholder;
use super::template::{self, Data};
use super::{Definition, Driver};
use crate::run_context::{ESCAPED_OPENING, OPENING};
use serde_json::{Map, Value};

/// Outputs by name.
pub type Outputs = Map<String, Value>;

/// What stands before the id of a runner in an `agent_url`.
pub(super) const AGENT_URL: &str = "agent://";

/// How many bytes the references of one resolution may stand for. A few small definitions that refer to each other many times
/// would otherwise make texts of any length.
pub(super) const MAX_RESOLVED: usize = 1024 * 1024;

/// Takes the length of `value` from what is `left`.
///
/// # Errors
///
/// That too little is left; it continues a sentence after the definition.
pub(super) fn spend(left: &mut usize, value: &Value) -> Result<(), String> {
    *left = left.checked_sub(length_of(value)).ok_or_else(|| {
        format!("what its references stand for has more than {} KiB together", MAX_RESOLVED / 1024)
    })?;
    Ok(())
}

/// About the length as JSON.
fn length_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| length_of(item) + 1).sum::<usize>() + 2,
        Value::Object(members) => {
            let member = |(name, member): (&String, &Value)| name.len() + length_of(member) + 4;
            members.iter().map(member).sum::<usize>() + 2
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

/// The outputs of a resource.
#[derive(Clone, Debug, Default)]
pub(super) struct Evaluated {
    pub(super) outputs: Outputs,
    pub(super) secrets: Outputs,
}

/// The outputs that the driver of a definition without a job makes of its inputs.
pub(super) fn outputs_of(
    definition: &Definition,
    (values, secrets): (Outputs, Outputs),
    left: &mut usize,
) -> Result<Evaluated, String> {
    Ok(match definition.driver {
        Driver::Template => {
            let data = Data { values: &values, secrets: &secrets, inputs: &Map::new() };
            let mut render = |name: &str| {
                template::render(name, data, left)
                    .map_err(|reason| format!("its template `{name}` {reason}"))
            };
            Evaluated { outputs: render("outputs")?, secrets: render("secrets")? }
        }
        Driver::Agent => {
            let id = values.get("id").and_then(Value::as_str).unwrap_or_default();
            let url = ("url".to_owned(), Value::String(format!("{AGENT_URL}{id}")));
            Evaluated { outputs: Map::from_iter([url]), ..Evaluated::default() }
        }
        Driver::Echo | Driver::Static => Evaluated { outputs: values, ..Evaluated::default() },
        Driver::Container
        | Driver::ContainerRunner
        | Driver::OpentofuRunner
        | Driver::TerraformRunner => Evaluated::default(),
    })
}

/// The value as a run takes it: what looks like a reference in it stands for itself.
pub(super) fn escaped(mut value: Value) -> Value {
    let escape = |_: &str, text: &mut Value| -> Result<(), std::convert::Infallible> {
        if let Value::String(plain) = text {
            *plain = plain.replace(OPENING, ESCAPED_OPENING);
        }
        Ok(())
    };
    let mut escape = escape;
    let Ok(()) = placeholder::each_text(&mut value, "", &mut escape);
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_stand_for_a_bounded_text() {
        let mut left = MAX_RESOLVED;
        let value = json!({ "a": vec!["x".repeat(1024); 100] });
        let spent = std::iter::from_fn(|| spend(&mut left, &value).ok()).count();
        assert_eq!(spent, 10);
        assert!(spend(&mut left, &value).unwrap_err().contains("more than 1024 KiB"));
    }
}
