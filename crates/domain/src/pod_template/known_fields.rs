//! Reading a merged template into the Kubernetes types without losing a field on the way.

use crate::field_error::{FieldErrors, join, shown};
use crate::to_json::to_json;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// The most values of a wrong type that a template is read without. Each costs a reading of the whole template.
const MAX_UNREAD: usize = 20;

/// What could be read of a template.
pub(super) struct Read {
    /// The template without [`Self::unread`].
    pub(super) template: PodTemplateSpec,
    /// Values of a wrong type, and fields that the type does not have.
    pub(super) doubts: FieldErrors,
    /// The paths of the values of a wrong type.
    pub(super) unread: Vec<String>,
}

/// `template` as the Kubernetes type, as far as it can be read. Fields that the type does not have are found by a comparison:
/// the result is written out again. A value of a wrong type is left out, so that it hides nothing else from the validation. In a
/// list, what comes after such a value is counted without it.
///
/// # Errors
/// More than 20 values have a wrong type: what else is in the template is not known.
pub(super) fn read(template: &Value) -> Result<Read, FieldErrors> {
    let mut template = template.clone();
    quantities_as_text(&mut template);
    let (mut doubts, mut unread) = (FieldErrors::default(), Vec::new());
    loop {
        let error = match serde_path_to_error::deserialize::<_, PodTemplateSpec>(&template) {
            Ok(read) => {
                let written = to_json(&read);
                note_lost(&template, &written, "", &mut doubts);
                return Ok(Read { template: read, doubts, unread });
            }
            Err(error) => error,
        };
        let path = match error.path().to_string() {
            path if path == "." => String::new(),
            path => path,
        };
        let is_left_out = leave_out(&mut template, error.path());
        let reason = reason(&error.into_inner().to_string());
        if unread.len() == MAX_UNREAD || !is_left_out {
            let mut faults = doubts.into_faults();
            faults.add(path, reason);
            let rest =
                format!("has more than {MAX_UNREAD} values of a wrong type; correct these first");
            faults.add("", rest);
            return Err(faults);
        }
        doubts.warn(&path, reason);
        unread.push(path);
    }
}

/// Removes the value at `path`; `false` if there is none, or if it is the whole template.
fn leave_out(template: &mut Value, path: &Path) -> bool {
    let segments: Vec<_> = path.iter().collect();
    let Some((last, parents)) = segments.split_last() else { return false };
    let mut at = template;
    for segment in parents {
        let next = match segment {
            Segment::Map { key } => at.get_mut(key),
            Segment::Seq { index } => at.get_mut(*index),
            Segment::Enum { .. } | Segment::Unknown => None,
        };
        let Some(next) = next else { return false };
        at = next;
    }
    match (last, at) {
        (Segment::Map { key }, Value::Object(members)) => members.remove(key).is_some(),
        (Segment::Seq { index }, Value::Array(items)) if *index < items.len() => {
            items.remove(*index);
            true
        }
        _ => false,
    }
}

/// What serde says, without the value that it found: `invalid type: string "x", expected a boolean`
/// becomes `must be a boolean`.
fn reason(said: &str) -> String {
    match said.rsplit_once(", expected ") {
        Some((_, expected)) => format!("must be {expected}"),
        None if said.starts_with("missing field") => format!("has a {said}"),
        None => "is not what Kubernetes takes here".to_owned(),
    }
}

fn note_lost(given: &Value, kept: &Value, path: &str, errors: &mut FieldErrors) {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
                let at = join(path, &shown(name));
                match kept.get(name) {
                    Some(kept) => note_lost(value, kept, &at, errors),
                    None => errors.warn(at, "is not a field that Kubernetes has here"),
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

/// Kubernetes takes `cpu: 2` for `cpu: "2"`; the type takes only text.
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
