//! The flags of a container job: what runs, for which resource, with which inputs and files.

use crate::body::read_file_or_stdin;
use crate::error::CliError;
use crate::variables::by_form;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use canyon_domain::yaml;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The most bytes of a local file: the API accepts 1 MiB of files.
const MAX_FILE: u64 = 1024 * 1024;

/// A container job, and the resource that it is for.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ContainerFlags {
    /// Run a container job in place of a module: a YAML or JSON file with `image` and `command`, or `-` for stdin
    #[arg(long, value_name = "FILE", conflicts_with = "module", allow_hyphen_values = true)]
    container: Option<PathBuf>,
    #[command(flatten)]
    resource: ResourceFlag,
    /// Set an input of the container job: `name=value`, where lists and maps are written in YAML or HCL
    #[arg(long, value_name = "NAME=VALUE", requires = "container")]
    input: Vec<String>,
    /// Set an input of the resource, whose definition says what runs: `name=value`, where lists and maps are written in YAML or HCL
    #[arg(long, value_name = "NAME=VALUE", requires = "resource", conflicts_with = "container")]
    param: Vec<String>,
    /// Give the container job a local file: `path=@file`, where the path lies in its shared directory
    #[arg(long, value_name = "PATH=@FILE", requires = "container")]
    file: Vec<String>,
}

/// The resource of a container job.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ResourceFlag {
    /// The resource that a container job creates, updates or destroys: `TYPE`, `TYPE#ID` or `TYPE.CLASS#ID`
    #[arg(long, value_name = "RESOURCE")]
    pub(crate) resource: Option<String>,
}

/// A container job and its resource, as a request has them.
#[derive(Debug, Default)]
pub(crate) struct ContainerOfRequest {
    pub(crate) container: Option<Value>,
    pub(crate) resource: Option<String>,
    pub(crate) params: Option<Map<String, Value>>,
}

impl ContainerFlags {
    /// Whether they name a container job or a resource.
    pub(crate) fn is_given(&self) -> bool {
        self.container.is_some() || self.resource.resource.is_some()
    }

    /// The resource, if one is named.
    pub(crate) fn resource(&self) -> Option<&str> {
        self.resource.resource.as_deref()
    }

    /// Reads the job and its files.
    pub(crate) fn resolve(&self) -> Result<ContainerOfRequest, CliError> {
        let resource = self.resource.resource.clone();
        let Some(path) = &self.container else {
            return Ok(ContainerOfRequest { container: None, resource, params: self.params()? });
        };
        let shown = path.display().to_string();
        let read: Value = yaml::parse(&read_file_or_stdin(path)?, &shown)?;
        let Value::Object(mut job) = read else {
            return Err(CliError::usage_with_hint(
                format!("--container `{shown}`: the document is not an object"),
                "it has at least `image: IMAGE` and `command: [PROGRAM]`",
            ));
        };
        for given in &self.input {
            let (name, value) = named_value("--input", given)?;
            insert(&mut job, "inputs", name, value)?;
        }
        for given in &self.file {
            let (name, file) = parts("--file", given, "path=@file")?;
            let file = file.strip_prefix('@').ok_or_else(|| {
                CliError::usage(format!("--file `{name}`: put an `@` before the local file"))
            })?;
            insert(&mut job, "files", name, content(Path::new(file))?)?;
        }
        Ok(ContainerOfRequest { container: Some(Value::Object(job)), resource, params: None })
    }

    /// The inputs of the resource, if any are given.
    fn params(&self) -> Result<Option<Map<String, Value>>, CliError> {
        let read = |given: &String| {
            let (name, value) = named_value("--param", given)?;
            Ok((name.to_owned(), value))
        };
        let all = self.param.iter().map(read).collect::<Result<Map<_, _>, CliError>>()?;
        Ok((!all.is_empty()).then_some(all))
    }
}

/// The parts of `NAME=VALUE`.
fn named_value<'a>(flag: &str, given: &'a str) -> Result<(&'a str, Value), CliError> {
    let (name, value) = parts(flag, given, "name=value")?;
    let wrong = |reason: String| CliError::usage(format!("{flag} `{name}`: {reason}"));
    let value = by_form(value).map_err(wrong)?;
    let value =
        serde_json::from_str(&value.to_string()).map_err(|error| wrong(error.to_string()))?;
    Ok((name, value))
}

fn parts<'a>(flag: &str, given: &'a str, form: &str) -> Result<(&'a str, &'a str), CliError> {
    given.split_once('=').ok_or_else(|| CliError::usage(format!("{flag}: write it as {form}")))
}

/// Sets a member of the object `field` of the job.
fn insert(
    job: &mut Map<String, Value>,
    field: &str,
    name: &str,
    value: Value,
) -> Result<(), CliError> {
    let of = job.entry(field).or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(members) = of else {
        return Err(CliError::usage(format!("`{field}` of the container job is not an object")));
    };
    members.insert(name.to_owned(), value);
    Ok(())
}

/// A local file as the API takes it: with its permissions, and in base64 if it is no text.
fn content(path: &Path) -> Result<Value, CliError> {
    let failed = |source| CliError::file("read", path, source);
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if metadata.len() > MAX_FILE {
        let shown = path.display();
        return Err(CliError::usage(format!("--file: `{shown}` has more than 1 MiB")));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    let mode = if is_executable(&metadata) { "0755" } else { "0644" };
    Ok(match String::from_utf8(bytes) {
        Ok(text) => json!({ "content": text, "mode": mode }),
        Err(error) => {
            let content = BASE64_STANDARD.encode(error.as_bytes());
            json!({ "content": content, "encoding": "base64", "mode": mode })
        }
    })
}

#[cfg(unix)]
fn is_executable(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &std::fs::Metadata) -> bool {
    false
}
