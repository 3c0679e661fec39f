//! The contexts of this user: `$XDG_CONFIG_HOME/canyon/config.yaml`, readable by its owner only.
//!
//! A file of an earlier version has one server's `url`, `org` and `token` at its top. It is read as one context, and
//! the next write gives it the form of today.

use crate::config_fields::{Faults, Fields};
use crate::context::Context;
use crate::context_name::ContextName;
use crate::error::CliError;
use crate::process_variable::variable;
use crate::suggestion;
use crate::yaml_writer;
use canyon_domain::yaml;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The stored contexts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigFile {
    /// The context of commands that name none. In a file that was edited by hand it may not exist.
    pub(crate) current: Option<ContextName>,
    /// All contexts.
    pub(crate) contexts: BTreeMap<ContextName, Context>,
}

/// The file's path; `None` on a machine without a home folder.
fn path() -> Option<PathBuf> {
    let folder = variable("XDG_CONFIG_HOME").filter(|folder| Path::new(folder).is_absolute());
    let folder = folder.map(PathBuf::from);
    let folder = folder.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".config")));
    folder.map(|folder| folder.join("canyon/config.yaml"))
}

/// This user's file.
pub(crate) fn load() -> Result<ConfigFile, CliError> {
    path().map_or_else(|| Ok(ConfigFile::default()), |path| ConfigFile::read(&path))
}

/// The file's path, for commands that write it.
pub(crate) fn required_path() -> Result<PathBuf, CliError> {
    path().ok_or_else(|| {
        CliError::usage_with_hint(
            "the folder for settings is unknown",
            "set HOME or XDG_CONFIG_HOME",
        )
    })
}

impl ConfigFile {
    /// Reads the file; a missing file has no contexts.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(CliError::file("read", path, error)),
        };
        let value: Value = yaml::parse(&text, &path.display().to_string())?;
        let mut faults = Faults::default();
        let file = Self::from_value(&value, &mut faults);
        if faults.is_empty() {
            return Ok(file);
        }
        Err(CliError::usage_with_hint(
            format!("the settings in `{}` are invalid: {}", path.display(), faults.text()),
            "correct the file; or delete it, and run `canyon login`",
        ))
    }

    /// Reads the file, lets `change` change it, and writes it. Another process that changes it waits meanwhile, so that
    /// no change is lost. If `change` fails, the file stays as it is.
    pub(crate) fn change<T>(
        path: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        // The end of this function, or of the process, unlocks it.
        let _lock = lock(path).map_err(|source| CliError::file("lock", path, source))?;
        let mut file = Self::read(path)?;
        let result = change(&mut file)?;
        let text = yaml_writer::write(&file.to_value()).map_err(io::Error::other)?;
        replace(path, text.as_bytes()).map_err(|source| CliError::file("write", path, source))?;
        Ok(result)
    }

    /// Lets no other process renew a sign-in until the result is dropped; `None` if another one does so now.
    pub(crate) fn try_lock_renewals(path: &Path) -> Result<Option<File>, CliError> {
        let failed = |source| CliError::file("lock", path, source);
        let file = lock_file(path, "yaml.renewal.lock").map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            // Some network file systems have no locks.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Ok(Some(file))
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// The context `name`.
    ///
    /// # Errors
    ///
    /// [`CliError::Usage`] with the names that are most like it, or all names if none is.
    pub(crate) fn context(&self, name: &ContextName) -> Result<&Context, CliError> {
        self.contexts.get(name).ok_or_else(|| self.absent(name))
    }

    /// The error for a context that does not exist.
    pub(crate) fn absent(&self, name: &ContextName) -> CliError {
        let names = || self.contexts.keys().map(ContextName::as_str);
        let hint = match (suggestion::closest(name.as_str(), names()), names().count()) {
            (_, 0) => "create one with `canyon login`".to_owned(),
            (near, _) if !near.is_empty() => format!("did you mean {}?", quoted(near, " or ")),
            (_, 1) => format!("the only context is {}", quoted(names().collect(), ", ")),
            _ => format!("the contexts are {}", quoted(names().collect(), ", ")),
        };
        CliError::usage_with_hint(format!("the context `{name}` does not exist"), hint)
    }

    fn from_value(value: &Value, faults: &mut Faults) -> Self {
        const OLD: [&str; 3] = ["url", "org", "token"];
        const KEYS: [&str; 2] = ["current_context", "contexts"];
        let Some(top) = Fields::of_any_name(value, "", faults) else {
            return Self::default();
        };
        let is_old = |(name, _): &(&str, &Value)| OLD.contains(name);
        if top.members().any(|member| is_old(&member))
            && !top.members().any(|(name, _)| KEYS.contains(&name))
        {
            return Self::of_old_form(value, faults);
        }
        for (name, _) in top.members().filter(is_old) {
            faults
                .add(format!("`{name}` belongs to a context: write it as `contexts.NAME.{name}`"));
        }
        let known: Vec<&str> =
            KEYS.into_iter().chain(top.members().filter(is_old).map(|m| m.0)).collect();
        Fields::new(value, "", &known, faults);
        let current = top.text("current_context", faults);
        let contexts = top.member("contexts").unwrap_or(&Value::Null);
        Self {
            current: current.and_then(|name| named(&name, "current_context", faults)),
            contexts: contexts_of(contexts, faults),
        }
    }

    fn of_old_form(value: &Value, faults: &mut Faults) -> Self {
        let name = ContextName::of_old_file();
        let context = Context::read(value, "", faults);
        let contexts = BTreeMap::from([(name.clone(), context)]);
        Self { current: Some(name), contexts }
    }

    fn to_value(&self) -> Value {
        let contexts = self.contexts.iter();
        let contexts: serde_json::Map<String, Value> =
            contexts.map(|(name, context)| (name.to_string(), context.to_value())).collect();
        json!({
            "current_context": self.current.as_ref().map(ContextName::as_str),
            "contexts": contexts,
        })
    }
}

fn contexts_of(value: &Value, faults: &mut Faults) -> BTreeMap<ContextName, Context> {
    let Some(fields) = Fields::of_any_name(value, "contexts", faults) else {
        return BTreeMap::new();
    };
    let mut contexts = BTreeMap::new();
    for (name, value) in fields.members() {
        let path = fields.path_of(name);
        let context = Context::read(value, &path, faults);
        contexts.extend(named(name, &path, faults).map(|name| (name, context)));
    }
    contexts
}

fn named(name: &str, path: &str, faults: &mut Faults) -> Option<ContextName> {
    name.parse().map_err(|reason| faults.add(format!("`{path}`: {reason}"))).ok()
}

fn quoted(names: Vec<&str>, separator: &str) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    quoted.join(separator)
}

/// Waits until no other process changes the file at `path`.
fn lock(path: &Path) -> io::Result<File> {
    let file = lock_file(path, "yaml.lock")?;
    match file.lock() {
        // Some network file systems have no locks.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
        locked => locked.map(|()| file),
    }
}

/// The file with this extension whose lock stands for the one at `path`.
fn lock_file(path: &Path, extension: &str) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // Beside the file: a write replaces the file, and would leave the lock on the old one.
    let beside = path.with_extension(extension);
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(beside)
}

/// Writes a new file with its final mode from the first byte on, and renames it over the old one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
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

#[cfg(test)]
mod tests;
