//! Fetches a module package of an OCI registry, with OpenTofu itself.
//!
//! OpenTofu reads the registry, with the credentials of its own configuration, as it does for a child module: the runner lets
//! `tofu get` install the package as the child of a module that has nothing else. Thereby it installs the package's child
//! modules, too, so it has the job's credentials for git; that starts no program of the module.

mod digest;

use super::{SourceError, fetch_program};
use crate::git_access::GitAccess;
use crate::{unreachable, url_credentials};
use canyon_domain::commit::Commit;
use canyon_domain::failure::shortened_to;
use canyon_domain::module_source::OciSource;
use digest::DigestReceiver;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;
use tokio::process::Command;

/// How long it may take. Packages of modules are small, so only a dead network takes that long.
const TIMEOUT: Duration = Duration::from_mins(10);
/// The most characters of OpenTofu's errors that are kept.
const LONGEST: usize = 700;
/// The child's name, which is also that of its folder.
const NAME: &str = "root";

/// Pairs of a text in the error and the hint for it.
const HINTS: [(&str, &str); 6] = [
    ("credential not found", CREDENTIALS),
    ("status code 401", CREDENTIALS),
    ("status code 403", CREDENTIALS),
    (": not found", "check the repository, and the tag or digest"),
    ("download not supported for scheme", "OpenTofu 1.10 or later reads OCI registries"),
    (
        "unexpected artifact type",
        "a module package has the artifact type `application/vnd.opentofu.modulepkg`",
    ),
];
const CREDENTIALS: &str = "check the registry's credentials in OpenTofu's configuration (`oci_credentials` of the file in \
                           `TF_CLI_CONFIG_FILE`) or in `~/.docker/config.json` of the job";

/// What it needs.
#[derive(Debug)]
pub struct Tools {
    /// `tofu`, or `terraform`.
    pub program: PathBuf,
    /// The environment of OpenTofu.
    pub environment: Vec<(OsString, OsString)>,
    /// A folder that does not exist yet.
    pub scratch: PathBuf,
}

/// Fetches the package into the empty folder `folder`. Returns the digest of its manifest, if OpenTofu says it.
///
/// # Errors
///
/// [`SourceError`] with the error of OpenTofu.
pub async fn fetch(
    source: &OciSource,
    folder: &Path,
    tools: &Tools,
    access: &GitAccess,
) -> Result<Option<Commit>, SourceError> {
    if tools.program.file_name().is_some_and(|name| name == "terraform") {
        return Err(SourceError::Refused(
            "Terraform reads no OCI registries: use a runner whose jobs have OpenTofu 1.10 or later, or another source"
                .to_owned(),
        ));
    }
    let (scratch, data) = (&tools.scratch, tools.scratch.join("data"));
    fs::create_dir(scratch).map_err(SourceError::disk("make a folder"))?;
    let caller = json!({ "module": { NAME: { "source": source.to_string() } } });
    fs::write(scratch.join("main.tf.json"), caller.to_string())
        .map_err(SourceError::disk("write a module"))?;
    let receiver = DigestReceiver::listen().await;
    let environment = environment(tools, &data, receiver.as_ref(), access);
    let getting = get(&tools.program, environment, scratch);
    let (output, found) = match receiver {
        Some(receiver) => receiver.during(getting).await,
        None => (getting.await, None),
    };
    let output = output?;
    if !output.status.success() {
        return Err(failure(source, &output, access));
    }
    // A folder is renamed to one that is empty.
    fs::rename(data.join("modules").join(NAME), folder)
        .map_err(SourceError::disk("move the module"))?;
    fs::remove_dir_all(scratch).map_err(SourceError::disk("remove a folder"))?;
    let named = source.digest().and_then(|digest| digest.as_str().parse().ok());
    Ok(named.or(found))
}

fn environment(
    tools: &Tools,
    data: &Path,
    receiver: Option<&DigestReceiver>,
    access: &GitAccess,
) -> Vec<(OsString, OsString)> {
    let mut variables = tools.environment.clone();
    variables.retain(|(name, _)| !digest::is_of_traces(name));
    variables.push(("TF_DATA_DIR".into(), data.into()));
    if let Some(receiver) = receiver {
        variables.extend(receiver.variables());
    }
    if !access.is_empty() {
        variables.extend(access.variables_in(&tools.scratch, &variables));
    }
    variables
}

async fn get(
    program: &Path,
    environment: Vec<(OsString, OsString)>,
    folder: &Path,
) -> Result<Output, SourceError> {
    let mut command = Command::new(program);
    command.args(["get", "-no-color", "-json"]).current_dir(folder).env_clear().envs(environment);
    fetch_program::run(command, "OpenTofu", "tofu get", "registry", TIMEOUT).await
}

fn failure(source: &OciSource, output: &Output, access: &GitAccess) -> SourceError {
    let text = errors(&String::from_utf8_lossy(&output.stdout));
    let text = text.unwrap_or_else(|| {
        let printed = [&output.stdout[..], &output.stderr].concat();
        String::from_utf8_lossy(&printed).split_whitespace().collect::<Vec<_>>().join(" ")
    });
    let text = url_credentials::hidden(&text);
    let hint = HINTS.iter().find(|(sign, _)| text.contains(sign)).map(|(_, hint)| *hint);
    // One of its child modules may be in a git repository.
    let of_git = access.hint(&text).filter(|_| text.contains("git"));
    let hint = of_git.as_deref().or(hint).map_or_else(String::new, |hint| format!("; {hint}"));
    let message =
        format!("`tofu get` cannot fetch `{source}`: {}{hint}", shortened_to(&text, LONGEST));
    if unreachable::is_reported_in(&text) {
        SourceError::Unreachable(message)
    } else {
        SourceError::Refused(message)
    }
}

/// The errors in the lines of JSON that OpenTofu prints.
fn errors(lines: &str) -> Option<String> {
    let of_line = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let diagnostic = &line["diagnostic"];
        let detail = diagnostic["detail"].as_str().filter(|text| !text.is_empty());
        let text = detail.or_else(|| diagnostic["summary"].as_str())?;
        (diagnostic["severity"] == "error").then(|| reason(text).to_owned())
    };
    let all: Vec<_> = lines.lines().filter_map(of_line).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The reason in an error about the package itself: what is before it names the runner's own file.
fn reason(detail: &str) -> &str {
    let is_own = detail.starts_with(&format!("Could not download module \"{NAME}\" ("));
    let after =
        detail.split_once("error downloading '").and_then(|(_, rest)| rest.split_once("': "));
    after.filter(|_| is_own).map_or(detail, |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use canyon_domain::module_source::ModuleSource;

    #[tokio::test]
    async fn terraform_is_not_asked_for_what_it_cannot_read() {
        let folder = tempfile::tempdir().unwrap();
        let source = "oci://h/a".parse().unwrap();
        let ModuleSource::Oci(source) = source else { panic!("{source}") };
        let (program, scratch) = ("/usr/bin/terraform".into(), folder.path().join("scratch"));
        let tools = Tools { program, environment: Vec::new(), scratch };
        let found = fetch(&source, folder.path(), &tools, &GitAccess::default()).await;
        let error = found.unwrap_err().to_string();
        assert!(error.starts_with("Terraform reads no OCI registries"), "{error}");
    }

    #[test]
    fn the_error_is_that_of_the_registry_without_the_runners_own_file() {
        let line = |summary: &str, detail: &str| {
            json!({ "diagnostic": { "severity": "error", "summary": summary, "detail": detail } })
                .to_string()
        };
        let own = "Could not download module \"root\" (main.tf.json:1) source code from \"oci://h/a?tag=1\": error downloading \
                   'oci://h/a?tag=1': resolving tag: h/a:1: not found";
        let of_child = "Could not download module \"vpc\" (main.tf:3) source code from \"git::https://h/x\": error downloading \
                        'https://h/x': exit status 128";
        let lines = [
            "{\"@level\":\"info\"}".to_owned(),
            line("Failed to download module", own),
            "no json".to_owned(),
            line("Failed to download module", of_child),
            line("Without a detail", ""),
        ];
        let expected = format!("resolving tag: h/a:1: not found; {of_child}; Without a detail");
        assert_eq!(errors(&lines.join("\n")), Some(expected));
        assert_eq!(errors("{\"@level\":\"info\"}\n"), None);
    }
}
