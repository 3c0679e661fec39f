//! Reads JSON of a caller into a type, for the bodies of HTTP requests and the details of events.

use crate::json_words::Fault;
use canyon_domain::field_error::FieldErrors;
use serde::de::DeserializeOwned;

/// The largest text, in bytes. Archives of modules have their own limit.
pub(crate) const MAX_BYTES: usize = 256 * 1024;
/// The most characters of a reason. serde's text repeats the value, which may be long.
const LONGEST_REASON: usize = 300;

/// Why a text cannot be read into a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JsonError {
    /// It is not JSON, or more than one value. The network may have cut it.
    Malformed(String),
    /// It is a list instead of an object.
    List,
    /// A field is faulty.
    Field(FieldFault),
}

/// A faulty field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldFault {
    /// Its path, such as `module.inputs`; `body` for the whole.
    pub(crate) path: String,
    /// What is wrong, for the sender: it may repeat the value.
    pub(crate) reason: String,
    /// What is wrong, for others: it never contains the value.
    pub(crate) reason_without_value: String,
}

impl JsonError {
    /// The faults for others than the sender, such as the log or the event bus. They contain no value.
    pub(crate) fn without_values(self) -> FieldErrors {
        let mut faults = FieldErrors::default();
        match self {
            Self::Field(fault) => faults.add(fault.path, fault.reason_without_value),
            Self::Malformed(_) | Self::List => faults.add("detail", "cannot be read"),
        }
        faults
    }
}

/// Reads `bytes` into `T`. `serde_json` refuses what nests deeper than 128, so a hostile text cannot exhaust the stack.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    // serde would also read a list into a struct, field by field.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(JsonError::List);
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_data() {
            return JsonError::Field(fault(&path, &inner.to_string()));
        }
        JsonError::Malformed(format!("the body is not JSON: {inner}"))
    })?;
    json.end()
        .map_err(|_| JsonError::Malformed("the body has data after its JSON value".to_owned()))?;
    Ok(value)
}

/// The fault in serde's message: its errors have no structured form. The tests below check the messages of the version
/// in use.
fn fault(parent: &str, words: &str) -> FieldFault {
    // The path locates the fault, so the position in the text adds nothing.
    let words = words.rsplit_once(" at line ").map_or(words, |(words, _)| words);
    let is_cut = words.chars().count() > LONGEST_REASON;
    let words: String = words.chars().take(LONGEST_REASON).collect();
    let reason = words.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"");
    let parent = parent.trim_matches('.');
    for (beginning, meaning) in
        [("missing field `", "is required"), ("unknown field `", "is not a known field")]
    {
        let Some((field, rest)) = reason.strip_prefix(beginning).and_then(|r| r.split_once('`'))
        else {
            continue;
        };
        // serde may say more about an unknown field, such as what is known.
        let reason = format!("{meaning}{rest}");
        return FieldFault {
            path: path_of(parent, field),
            reason_without_value: reason.clone(),
            reason,
        };
    }
    let path = if parent.is_empty() { "body" } else { parent };
    let path = path.to_owned();
    if !Fault::repeats_value(&reason) {
        return FieldFault { path, reason_without_value: reason.clone(), reason };
    }
    // A reason that was cut has lost the end of the value, so the text after the value cannot be found.
    if let Some(fault) = Fault::read(&reason).filter(|_| !is_cut) {
        let reason_without_value = fault.requirement();
        return FieldFault { path, reason: fault.with_value(), reason_without_value };
    }
    let reason = "has a value of another type or form".to_owned();
    FieldFault { path, reason_without_value: reason.clone(), reason }
}

/// The path of `field`: serde gives the path of its object, or for an unknown field sometimes its own.
fn path_of(parent: &str, field: &str) -> String {
    if parent.is_empty() {
        field.to_owned()
    } else if parent == field || parent.ends_with(&format!(".{field}")) {
        parent.to_owned()
    } else {
        format!("{parent}.{field}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[expect(dead_code, reason = "it is only read into")]
        inner: Inner,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[expect(dead_code, reason = "it is only read into")]
        mode: Mode,
        #[expect(dead_code, reason = "it is only read into")]
        inputs: Option<BTreeMap<String, u8>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        Deploy,
    }

    fn refused(text: &str) -> JsonError {
        read::<Body>(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_field_at_fault_has_its_path_and_a_reason_that_repeats_no_value() {
        let secret = "hunter2, expected hunter2";
        let long = format!("{}{secret}", "x".repeat(LONGEST_REASON));
        for (text, path, reason) in [
            ("{}".to_owned(), "inner", "is required"),
            (r#"{"inner": {}}"#.to_owned(), "inner.mode", "is required"),
            (
                r#"{"inner": {"mode": "deploy", "moed": 1}}"#.to_owned(),
                "inner.moed",
                "is not a known field, expected `mode` or `inputs`",
            ),
            (r#"{"other": 1}"#.to_owned(), "other", "is not a known field, expected `inner`"),
            (format!(r#"{{"inner": "{secret}"}}"#), "inner", "must be an object"),
            (format!(r#"{{"inner": {{"mode": "{secret}"}}}}"#), "inner.mode", "must be `deploy`"),
            (
                format!(r#"{{"inner": {{"mode": "deploy", "inputs": "{long}"}}}}"#),
                "inner.inputs",
                "has a value of another type or form",
            ),
            (
                r#"{"inner": {"mode": "deploy", "inputs": {"a": 256}}}"#.to_owned(),
                "inner.inputs.a",
                "must be a whole number from 0 to 255",
            ),
            ("7".to_owned(), "body", "must be an object"),
        ] {
            let JsonError::Field(fault) = refused(&text) else { panic!("{text}") };
            assert_eq!((&*fault.path, &*fault.reason_without_value), (path, reason), "{text}");
        }
    }

    #[test]
    fn a_body_that_is_no_single_object_is_distinguished_from_a_field_at_fault() {
        assert_eq!(refused(" [1]"), JsonError::List);
        for text in ["", "{", r#"{"inner": {"mode": "deploy"}} {}"#] {
            assert!(matches!(refused(text), JsonError::Malformed(_)), "{text}");
        }
    }
}
