//! The body of a `create` or `update`: first the files, then the single values.

use crate::assignment::Assignment;
use crate::error::CliError;
use canyon_domain::yaml;
use serde_json::{Map, Value};
use std::io::{self, Read};
use std::path::Path;

/// More than the largest body that the server accepts.
const MAX_BYTES: u64 = 4 << 20;

/// The flags that give a body.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct BodyArguments {
    /// Set one value: `path=value`. The path may be nested: `runner_configuration.job.subnets[0]=...`
    ///
    /// `update` changes only that value, and keeps the rest of what is stored.
    ///
    /// Below `runner_configuration`, `state_storage_configuration`, `store_configuration`, `deletion_protection`, `job`, `agents`
    /// and `spec`, and for `disabled`, `run_untagged_jobs`, `migrate`, `enabled`, `every_seconds` and `reconcile`, `true`, `3` and `null`
    /// are typed values unless quoted, and `[..]` and `{..}` are lists and objects; everywhere else a value is text.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Take values from YAML: `@file`, `-` for stdin, or the YAML itself
    #[arg(long, value_name = "@FILE|-|YAML", allow_hyphen_values = true)]
    set_yaml: Vec<String>,
}

impl BodyArguments {
    /// The body. A later file or value overrides an earlier one; objects are merged, lists replaced.
    pub(crate) fn body(&self) -> Result<Map<String, Value>, CliError> {
        assigned(self.documents()?, &self.assignments()?)
    }

    /// The merged documents of `--set-yaml`.
    pub(crate) fn documents(&self) -> Result<Map<String, Value>, CliError> {
        let mut body = Value::Object(Map::new());
        for given in &self.set_yaml {
            let value = document(given)?;
            if !value.is_object() && !value.is_null() {
                return Err(CliError::usage_with_hint(
                    "--set-yaml: the document is not an object",
                    "it must consist of `name: value` lines; a file's name needs an `@` before it",
                ));
            }
            merge(&mut body, value);
        }
        match body {
            Value::Object(members) => Ok(members),
            _ => Ok(Map::new()),
        }
    }

    /// The assignments of `--set`.
    pub(crate) fn assignments(&self) -> Result<Vec<Assignment>, CliError> {
        self.set.iter().map(|given| Ok(Assignment::parse(given)?)).collect()
    }
}

/// `body` after `assignments`.
pub(crate) fn assigned(
    body: Map<String, Value>,
    assignments: &[Assignment],
) -> Result<Map<String, Value>, CliError> {
    let mut body = Value::Object(body);
    for assignment in assignments {
        assignment.apply(&mut body)?;
    }
    match body {
        Value::Object(members) => Ok(members),
        _ => Err(CliError::usage("--set: the path of a body begins with a name")),
    }
}

fn document(given: &str) -> Result<Value, CliError> {
    let (text, origin) = match (given, given.strip_prefix('@')) {
        ("-", _) | (_, Some("-")) => (read_stdin()?, "stdin"),
        (_, Some(file)) => (read_file(Path::new(file))?, file),
        (yaml, None) => (yaml.to_owned(), "--set-yaml"),
    };
    Ok(yaml::parse(&text, origin)?)
}

/// The whole of stdin.
pub(crate) fn read_stdin() -> Result<String, CliError> {
    read(io::stdin().lock()).map_err(|source| CliError::file("read", Path::new("stdin"), source))
}

/// The text of a file, or of stdin for `-`.
pub(crate) fn read_file_or_stdin(path: &Path) -> Result<String, CliError> {
    if path != Path::new("-") {
        return read_file(path);
    }
    read(io::stdin()).map_err(|source| CliError::file("read", Path::new("stdin"), source))
}

/// The whole of a file.
pub(crate) fn read_file(path: &Path) -> Result<String, CliError> {
    std::fs::File::open(path).and_then(read).map_err(|source| CliError::file("read", path, source))
}

fn read(source: impl Read) -> io::Result<String> {
    let mut text = String::new();
    let length = source.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if length as u64 > MAX_BYTES {
        return Err(io::Error::other("it has more than 4 MiB"));
    }
    Ok(text)
}

fn merge(target: &mut Value, source: Value) {
    match (target, source) {
        (Value::Object(target), Value::Object(source)) => {
            for (name, value) in source {
                merge(target.entry(name).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (target, source) => *target = source,
    }
}
