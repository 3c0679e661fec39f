//! The files of a container job.

use super::ContainerJob;
use crate::runner::fields::Fields;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum number of files.
const MAX_FILES: usize = 64;
/// Maximum length of all contents together, in bytes.
const MAX_CONTENTS: usize = 1024 * 1024;
/// Maximum length of a path, in bytes.
const MAX_PATH: usize = 1024;
/// The permissions of a file whose job names none.
const MODE: u32 = 0o644;
/// The permissions of a secret file.
const SECRET_MODE: u32 = 0o600;

/// A file that the program finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFile {
    /// Its content.
    pub content: Vec<u8>,
    /// Its permissions, such as `0o644`.
    pub mode: u32,
}

/// How the text of a file stands for its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// It is the content.
    #[default]
    Utf8,
    /// It is the content in base64.
    Base64,
}

/// Reads the files of `job` by their paths below its shared directory, and notes every fault. A file is a text, or an object
/// with `content`, `encoding` and `mode`. A secret file has its value as content, once that is known.
pub(super) fn read(job: &ContainerJob, fields: &mut Fields) -> BTreeMap<String, JobFile> {
    let (given, secret) = (job.files.iter().flatten(), job.secret_files.iter().flatten());
    let count = given.clone().count();
    if count > MAX_FILES {
        fields.fault("files", format!("has {count} files; {MAX_FILES} are allowed"));
        return BTreeMap::new();
    }
    let given = given.map(|(path, value)| ("files", path, file(value)));
    let secret = secret.map(|(path, secret)| {
        let content = secret.value().unwrap_or_default().as_bytes().to_vec();
        ("secret_files", path, Ok(JobFile { content, mode: SECRET_MODE }))
    });
    let (mut files, directory) = (BTreeMap::new(), job.shared_directory());
    for (property, path, file) in given.chain(secret) {
        let shown: String = path.chars().take(80).collect();
        let field = format!("{property}[{shown:?}]");
        let file = file.map_err(|reason| fields.fault(&field, reason));
        match below(path, directory) {
            None => fields.fault(&field, format!("must lie in the shared directory {directory}")),
            Some(path) if files.contains_key(&path) => {
                fields.fault(&field, format!("is the same file as another one: `{path}`"));
            }
            Some(path) => {
                if let Ok(file) = file {
                    files.insert(path, file);
                }
            }
        }
    }
    let length: usize = files.values().map(|file| file.content.len()).sum();
    if length > MAX_CONTENTS {
        fields.fault("files", format!("have {length} bytes; {MAX_CONTENTS} are allowed"));
    }
    files
}

/// The path below `directory`, of a path that is relative to it, or absolute and in it. `None` if it leads elsewhere.
fn below(path: &str, directory: &str) -> Option<String> {
    if path.contains('\0') || path.len() > MAX_PATH {
        return None;
    }
    let relative = match path.strip_prefix('/') {
        Some(_) => path.strip_prefix(directory)?.strip_prefix('/')?,
        None => path,
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    // A folder is no file.
    let is_file = !parts.is_empty() && !relative.ends_with('/');
    is_file.then(|| parts.join("/"))
}

/// The path of a file below a folder. `None` if it leads elsewhere.
pub(crate) fn relative_path(path: &str) -> Option<String> {
    below(path, "").filter(|_| !path.starts_with('/'))
}

fn file(value: &Value) -> Result<JobFile, String> {
    let members = match value {
        Value::String(text) => {
            return Ok(JobFile { content: text.clone().into_bytes(), mode: MODE });
        }
        Value::Object(members) => members,
        _ => return Err("must be text, or an object with `content`".to_owned()),
    };
    let unknown =
        members.keys().find(|name| !matches!(name.as_str(), "content" | "encoding" | "mode"));
    if unknown.is_some() {
        return Err("has another field than `content`, `encoding` and `mode`".to_owned());
    }
    let Some(Value::String(text)) = members.get("content") else {
        return Err("needs the text `content`".to_owned());
    };
    let encoding = match members.get("encoding").map(|value| value.as_str()) {
        None | Some(Some("utf8")) => Encoding::Utf8,
        Some(Some("base64")) => Encoding::Base64,
        Some(_) => return Err("`encoding` must be `utf8` or `base64`".to_owned()),
    };
    let content = match encoding {
        Encoding::Utf8 => text.clone().into_bytes(),
        Encoding::Base64 => BASE64_STANDARD
            .decode(text)
            .map_err(|error| format!("`content` is not valid base64: {error}"))?,
    };
    let mode = match members.get("mode") {
        None => MODE,
        Some(mode) => mode.as_str().and_then(octal).ok_or_else(|| {
            "`mode` must be the permissions as text with three or four octal digits, such as \"0644\"".to_owned()
        })?,
    };
    Ok(JobFile { content, mode })
}

/// Permissions without the bits that make a program run as its owner.
fn octal(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('0').unwrap_or(text);
    let is_mode = digits.len() == 3 && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    is_mode.then(|| u32::from_str_radix(digits, 8).ok())?
}
