//! How large and how deep a definition may be.
//!
//! A change replaces parts of a definition, so several changes make it larger than any one request.

use crate::field_error::{FieldErrors, join, shown};
use serde_json::Value;

/// The most bytes of a definition, as JSON without secrets. One item of the table holds it beside its sealed secret; the item
/// of a job that an agent launches holds the definition with a profile's settings in it, and may hold the Job made of it.
pub const MAX_DEFINITION: usize = 128 * 1024;

/// Notes a fault if `definition` is too large: at the smallest part that more than half of it is in.
pub(super) fn check(definition: &Value, errors: &mut FieldErrors) {
    let all = bytes(definition);
    if all <= MAX_DEFINITION {
        return;
    }
    let (path, part) = bulk(definition, all / 2);
    let own = bytes(part);
    errors.add(
        path,
        format!(
            "is too large: it has {own} bytes, and with what is there already the definition has {all} bytes of JSON, where at \
             most {MAX_DEFINITION} are allowed"
        ),
    );
}

fn bytes(value: &Value) -> usize {
    value.to_string().len()
}

/// The innermost part of `value` that has more than `least` bytes, with its path.
fn bulk(value: &Value, least: usize) -> (String, &Value) {
    let is_large = |part: &Value| bytes(part) > least;
    let inner = match value {
        Value::Object(members) => members
            .iter()
            .find(|(_, member)| is_large(member))
            .map(|(name, member)| (shown(name), member)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find(|(_, item)| is_large(item))
            .map(|(index, item)| (format!("[{index}]"), item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    let Some((name, part)) = inner else { return (String::new(), value) };
    let (path, part) = bulk(part, least);
    (join(&name, &path), part)
}

/// Whether objects and lists in `value` nest deeper than `limit`.
pub(crate) fn nests_deeper_than(limit: usize, value: &Value) -> bool {
    let deeper = |inner| limit == 0 || nests_deeper_than(limit - 1, inner);
    match value {
        Value::Array(items) => limit == 0 || items.iter().any(deeper),
        Value::Object(map) => limit == 0 || map.values().any(deeper),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
