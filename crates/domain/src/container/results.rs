//! What a container's program leaves: its outputs, its error, and its exit code.
//!
//! The program writes files, and the log is never read for data: users take a log for a safe place, and others' programs
//! write there too. A file that is too large is refused with its size, and never cut.

use crate::json::Json;
use std::collections::BTreeMap;

/// Maximum length of each file with outputs, in bytes.
pub const MAX_OUTPUTS: usize = 256 * 1024;
/// Maximum length of the part of `ERROR_FILE` that is shown, in bytes.
pub const MAX_ERROR: usize = 16 * 1024;
/// Maximum number of outputs in both files together.
const MAX_NAMES: usize = 256;
/// Maximum length of an output's name.
const MAX_NAME: usize = 128;

/// Outputs by name.
pub type Outputs = BTreeMap<String, Json>;

/// The outputs of a program that succeeded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Of `OUTPUTS_FILE`: anyone who may read the deployment sees them.
    pub outputs: Outputs,
    /// Of `SECRET_OUTPUTS_FILE`.
    pub secret_outputs: Outputs,
}

/// A file of outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputsFile {
    /// `OUTPUTS_FILE`.
    Open,
    /// `SECRET_OUTPUTS_FILE`, whose content no message repeats.
    Secret,
}

impl OutputsFile {
    /// The variable with its path.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Open => "OUTPUTS_FILE",
            Self::Secret => "SECRET_OUTPUTS_FILE",
        }
    }
}

/// Why outputs are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedOutputs {
    /// A file or its names exceed a limit.
    #[error("{0}")]
    TooLarge(String),
    /// A file is not what it must be.
    #[error("{0}")]
    Invalid(String),
}

impl RefusedOutputs {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge(_) => "OUTPUTS_TOO_LARGE",
            Self::Invalid(_) => "OUTPUTS_INVALID",
        }
    }
}

impl Results {
    /// Parses the files; an absent one has no outputs.
    ///
    /// # Errors
    /// The first file that is too large, no JSON object, or has a name that cannot be used.
    pub fn parse(open: Option<&[u8]>, secret: Option<&[u8]>) -> Result<Self, RefusedOutputs> {
        let read = |file, bytes: Option<&[u8]>| {
            bytes.map_or(Ok(Outputs::new()), |bytes| parse(file, bytes))
        };
        let outputs = read(OutputsFile::Open, open)?;
        let secret_outputs = read(OutputsFile::Secret, secret)?;
        if let Some(name) = outputs.keys().find(|name| secret_outputs.contains_key(*name)) {
            return Err(RefusedOutputs::Invalid(format!(
                "OUTPUTS_FILE and SECRET_OUTPUTS_FILE both have the output `{name}`"
            )));
        }
        let count = outputs.len() + secret_outputs.len();
        if count > MAX_NAMES {
            return Err(RefusedOutputs::TooLarge(format!(
                "OUTPUTS_FILE and SECRET_OUTPUTS_FILE have {count} outputs, {MAX_NAMES} are allowed"
            )));
        }
        Ok(Self { outputs, secret_outputs })
    }
}

/// Refuses a file of outputs by its size, before it is read.
///
/// # Errors
/// [`RefusedOutputs::TooLarge`] with the size and the limit.
pub fn check_size(file: OutputsFile, length: u64) -> Result<(), RefusedOutputs> {
    if length <= MAX_OUTPUTS as u64 {
        return Ok(());
    }
    let name = file.variable();
    Err(RefusedOutputs::TooLarge(format!(
        "{name} has {} bytes, {} are allowed",
        grouped(length),
        grouped(MAX_OUTPUTS as u64)
    )))
}

fn parse(file: OutputsFile, bytes: &[u8]) -> Result<Outputs, RefusedOutputs> {
    check_size(file, bytes.len() as u64)?;
    let name = file.variable();
    let invalid = |reason: String| RefusedOutputs::Invalid(format!("{name}: {reason}"));
    let value: Json = serde_json::from_slice(bytes).map_err(|error| {
        // The words of the parser may repeat a part of the file.
        invalid(format!("no JSON at line {} column {}", error.line(), error.column()))
    })?;
    let Json::Object(members) = value else {
        return Err(invalid(format!("expected an object, got {}", kind(&value))));
    };
    match members.keys().position(|output| !is_name(output)) {
        Some(at) => Err(invalid(format!(
            "the name of output {} cannot be used: names have at most {MAX_NAME} letters, digits, `_`, `.` and `-`, and start \
             with a letter or `_`",
            at + 1
        ))),
        None => Ok(members),
    }
}

fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME
        && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

/// `312441` as `312,441`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// The text of `ERROR_FILE` that is shown: its end, whole lines of valid UTF-8.
pub fn error_text(bytes: &[u8]) -> String {
    let tail = &bytes[bytes.len().saturating_sub(MAX_ERROR)..];
    let text = String::from_utf8_lossy(tail);
    let text = text.trim();
    match text.split_once('\n') {
        Some((_, whole_lines)) if tail.len() < bytes.len() => whole_lines.trim().to_owned(),
        Some(_) | None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn refused(open: &[u8], secret: &[u8]) -> (&'static str, String) {
        let refused = Results::parse(Some(open), Some(secret)).unwrap_err();
        (refused.code(), refused.to_string())
    }

    #[test]
    fn values_keep_their_types_and_absent_files_are_no_outputs() {
        let open = br#"{"n": 18446744073709551617, "list": ["a"]}"#;
        let found = Results::parse(Some(open), None).unwrap();
        assert_eq!(found.outputs["n"].to_string(), "18446744073709551617", "with every digit");
        assert_eq!(found.outputs["list"], json!(["a"]).into());
        assert_eq!(Results::parse(None, None), Ok(Results::default()));
    }

    #[test]
    fn outputs_of_exactly_the_limit_are_read_and_one_byte_more_is_refused_with_the_size() {
        let with = |length: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(length - 8));
        assert!(Results::parse(Some(with(MAX_OUTPUTS).as_bytes()), None).is_ok());
        let (code, message) = refused(with(MAX_OUTPUTS + 1).as_bytes(), b"{}");
        assert_eq!(code, "OUTPUTS_TOO_LARGE");
        assert_eq!(message, "OUTPUTS_FILE has 262,145 bytes, 262,144 are allowed");
    }

    #[test]
    fn what_is_no_object_with_names_is_refused_and_no_message_repeats_a_secret() {
        for (open, secret, expected) in [
            (&b"[1]"[..], &b"{}"[..], "OUTPUTS_FILE: expected an object, got a list"),
            (b"{}", b"hunter2", "SECRET_OUTPUTS_FILE: no JSON at line 1 column 1"),
            (b"\xff", b"{}", "OUTPUTS_FILE: no JSON at line 1 column 1"),
            (b"", b"{}", "OUTPUTS_FILE: no JSON at line 1 column 0"),
            (
                br#"{"a": 1}"#,
                br#"{"a": 2}"#,
                "OUTPUTS_FILE and SECRET_OUTPUTS_FILE both have the output `a`",
            ),
        ] {
            assert_eq!(refused(open, secret), ("OUTPUTS_INVALID", expected.to_owned()));
        }
        let (_, message) = refused(b"{}", br#"{"hunter2!": 1}"#);
        assert!(!message.contains("hunter2"), "{message}");
        let many: Outputs = (0..257).map(|n| (format!("o{n}"), json!(n).into())).collect();
        let (code, message) = refused(&serde_json::to_vec(&many).unwrap(), b"{}");
        assert_eq!(code, "OUTPUTS_TOO_LARGE", "{message}");
    }

    #[test]
    fn the_end_of_a_long_error_is_shown_in_whole_lines() {
        assert_eq!(error_text(b"  no such bucket\n"), "no such bucket");
        let long = format!("{}\nlast line\n", "x".repeat(MAX_ERROR));
        assert_eq!(error_text(long.as_bytes()), "last line");
        assert_eq!(error_text(b"caf\xc3"), "caf\u{fffd}");
    }

    proptest! {
        #[test]
        fn whatever_a_program_writes_gives_outputs_or_a_reason(open in any::<Vec<u8>>(), secret in any::<Vec<u8>>()) {
            if let Err(refused) = Results::parse(Some(&open), Some(&secret)) {
                prop_assert!(!refused.to_string().is_empty());
            }
        }
    }
}
