//! Reads a merged template into the Kubernetes types without losing a field.

use crate::field_error::{FieldErrors, join, shown};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

/// `template` as the Kubernetes type, and the fields that it lost: the type drops unknown fields, so the
/// result is serialized again and compared.
///
/// # Errors
/// The first field with a wrong type; nothing after it can be read.
pub(super) fn read(template: &Value) -> Result<(PodTemplateSpec, FieldErrors), FieldErrors> {
    let mut template = template.clone();
    quantities_as_text(&mut template);
    let mut errors = FieldErrors::default();
    let read: Result<PodTemplateSpec, _> = serde_path_to_error::deserialize(&template);
    match read {
        Ok(read) => {
            let written = serde_json::to_value(&read).unwrap_or_default();
            note_lost(&template, &written, "", &mut errors);
            Ok((read, errors))
        }
        Err(error) => {
            let path = error.path().to_string();
            let path = if path == "." { String::new() } else { path };
            errors.add(path, reason(&error.into_inner().to_string()));
            Err(errors)
        }
    }
}

/// The message of serde without the value: `invalid type: string "x", expected a boolean` becomes `must be a
/// boolean`.
fn reason(message: &str) -> String {
    match message.rsplit_once(", expected ") {
        Some((_, expected)) => format!("must be {expected}"),
        None if message.starts_with("missing field") => format!("has a {message}"),
        None => "is not what Kubernetes accepts here".to_owned(),
    }
}

fn note_lost(given: &Value, kept: &Value, path: &str, errors: &mut FieldErrors) {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
                let at = join(path, &shown(name));
                match kept.get(name) {
                    Some(kept) => note_lost(value, kept, &at, errors),
                    None => errors.add(at, "is not a field that Kubernetes has here"),
                }
            }
        }
        (Value::Array(given), Value::Array(kept)) => {
            for (n, (given, kept)) in given.iter().zip(kept).enumerate() {
                note_lost(given, kept, &format!("{path}[{n}]"), errors);
            }
        }
        _ => {}
    }
}

/// Kubernetes accepts `cpu: 2` for `cpu: "2"`; the type accepts only text.
fn quantities_as_text(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                match (name.as_str(), inner) {
                    ("limits" | "requests", Value::Object(amounts)) => {
                        amounts.values_mut().for_each(number_as_text);
                    }
                    ("sizeLimit" | "divisor", amount) => number_as_text(amount),
                    (_, inner) => quantities_as_text(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(quantities_as_text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn number_as_text(value: &mut Value) {
    if let Value::Number(number) = value {
        *value = Value::String(number.to_string());
    }
}
