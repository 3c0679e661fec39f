//! What `canyon login` stores: `$XDG_CONFIG_HOME/canyon/config.yaml`, readable by its owner only.

use crate::error::CliError;
use crate::{suggestion, yaml};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The stored settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigFile {
    pub(crate) url: Option<String>,
    pub(crate) org: Option<String>,
    pub(crate) token: Option<SecretString>,
}

/// The file's path; `None` on a machine without a home folder.
pub(crate) fn path(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let folder = variable("XDG_CONFIG_HOME").filter(|folder| Path::new(folder).is_absolute());
    let folder = folder.map(PathBuf::from);
    let folder = folder.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".config")));
    folder.map(|folder| folder.join("canyon/config.yaml"))
}

impl ConfigFile {
    /// Reads the file; a missing file has no settings.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(CliError::file("read", path, error)),
        };
        let value: Value = yaml::parse(&text, &path.display().to_string())?;
        check(&value, path)?;
        let member = |name: &str| value.get(name).and_then(|text| text.as_str()).map(str::to_owned);
        Ok(Self { url: member("url"), org: member("org"), token: member("token").map(Into::into) })
    }

    /// Writes the file atomically.
    pub(crate) fn write(&self, path: &Path) -> Result<(), CliError> {
        let token = self.token.as_ref().map(ExposeSecret::expose_secret);
        let value = json!({"url": self.url, "org": self.org, "token": token});
        let text = yaml::write(&value).map_err(io::Error::other)?;
        replace(path, text.as_bytes()).map_err(|source| CliError::file("write", path, source))
    }
}

/// The settings of the file.
const KEYS: [&str; 3] = ["url", "org", "token"];

/// Names every fault at once. A misspelt key would otherwise be ignored, and another server or organization used. No
/// fault shows a value: it may be a token.
fn check(value: &Value, path: &Path) -> Result<(), CliError> {
    let faults: Vec<String> = match value {
        Value::Null => Vec::new(),
        Value::Object(members) => {
            members.iter().filter_map(|(key, value)| fault(key, value)).collect()
        }
        _ => vec!["it is not an object with the keys `url`, `org` and `token`".to_owned()],
    };
    if faults.is_empty() {
        return Ok(());
    }
    Err(CliError::usage_with_hint(
        format!("the settings in `{}` are invalid: {}", path.display(), faults.join("; ")),
        "correct the file; or delete it, and run `canyon login`",
    ))
}

fn fault(key: &str, value: &Value) -> Option<String> {
    let key_text = key.escape_debug();
    if KEYS.contains(&key) {
        let is_text = value.is_string() || value.is_null();
        return (!is_text).then(|| format!("`{key_text}` is not a text: put it in quotes"));
    }
    Some(match suggestion::closest(key, KEYS).as_slice() {
        [] => format!("`{key_text}` is not a setting (the settings are `url`, `org` and `token`)"),
        [nearest, ..] => format!("`{key_text}` is not a setting; did you mean `{nearest}`?"),
    })
}

/// Writes a new file with its final mode from the first byte on, and renames it over the old one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let draft = path.with_extension(format!("yaml.{}", std::process::id()));
    let written =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).and_then(
            |mut file| {
                file.write_all(bytes)?;
                file.sync_all()?;
                fs::rename(&draft, path)
            },
        );
    if written.is_err() {
        // The caller gets the first error; the draft holds a token and should not stay.
        let _ = fs::remove_file(&draft);
    }
    written
}
