//! What `--module` names: a folder on this machine, a repository, a package in a registry, an uploaded archive, or text on
//! stdin.

use crate::archive;
use crate::body::read_stdin;
use crate::error::CliError;
use crate::output::Output;
use crate::outside_module::{self, OutsideModule};
use crate::retry::retry_call;
use bytes::Bytes;
use canyon_api::client::Client;
use canyon_domain::job::MAX_SOURCE_CODE;
use canyon_domain::module_source::ModuleSource;
use std::path::{Path, PathBuf};

/// A source that Canyon accepts, with the text if it is inline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) source: ModuleSource,
    pub(crate) source_code: Option<String>,
}

/// Makes `given` available to Canyon; packs a folder, and uploads it if Canyon does not have it.
pub(crate) async fn resolve(
    given: &str,
    client: &Client,
    output: Output,
) -> Result<Source, CliError> {
    if given == "-" {
        return inline(read_stdin()?);
    }
    if let Some(address) = address(given) {
        let source = parse(&address)?;
        return Ok(Source { source, source_code: None });
    }
    let (folder, subdirectory) = split(given);
    check(given, folder, subdirectory)?;
    if let Some(outside) = outside_module::of(Path::new(folder), subdirectory) {
        let OutsideModule { file, source, instead } = outside;
        output.notice(&format!(
            "warning: {file} has `{source}`, which is outside of `{folder}` and is not uploaded; to upload both: --module \
             {instead}"
        ));
    }
    let archive = archive::pack(Path::new(folder))
        .map_err(|error| CliError::usage(with_cause("--module", &error)))?;
    let suffix = subdirectory.map_or_else(String::new, |below| format!("//{below}"));
    let source = parse(&format!("sha256:{}{suffix}", archive.digest))?;
    let (digest, bytes) = (&archive.digest, Bytes::from(archive.bytes));
    let is_there = async || client.has_archive(digest).await;
    if !retry_call(output, "retrying", is_there).await? {
        let upload = async || client.put_archive(digest, bytes.clone()).await;
        retry_call(output, "uploading again", upload).await?;
    }
    Ok(Source { source, source_code: None })
}

/// The folder of the module, if it is one on this machine.
pub(crate) fn folder(given: &str) -> Option<PathBuf> {
    if given == "-" || address(given).is_some() {
        return None;
    }
    let (folder, subdirectory) = split(given);
    Some(Path::new(folder).join(subdirectory.unwrap_or_default()))
}

/// The address of a module that is not a folder. Terraform's short forms for git are written out
/// (<https://developer.hashicorp.com/terraform/language/modules/sources#github>): `user@host:path`,
/// `github.com/org/repo`. A folder of such a name begins with `./`, as for Terraform.
fn address(given: &str) -> Option<String> {
    if given.starts_with("sha256:") || given.starts_with("oci://") {
        return Some(given.to_owned());
    }
    let short = given.strip_prefix("git::").unwrap_or(given);
    if let Some((login, path)) = short.split_once(':')
        && let Some((user, host)) = login.split_once('@')
        && !user.is_empty()
        && !login.contains('/')
    {
        return Some(format!("git::ssh://{user}@{host}/{}", path.trim_start_matches('/')));
    }
    if short.starts_with("github.com/") {
        return Some(format!("git::https://{short}"));
    }
    given.starts_with("git::").then(|| given.to_owned())
}

fn inline(text: String) -> Result<Source, CliError> {
    if text.trim().is_empty() {
        return Err(CliError::usage("--module -: stdin is empty; it must be the text of main.tf"));
    }
    if text.len() > MAX_SOURCE_CODE {
        return Err(CliError::usage_with_hint(
            "--module -: the text has more than 128 KiB",
            "put it into a folder and give the folder: --module ./folder",
        ));
    }
    Ok(Source { source: ModuleSource::Inline, source_code: Some(text) })
}

fn parse(text: &str) -> Result<ModuleSource, CliError> {
    text.parse().map_err(|reason| CliError::usage(format!("--module: {reason}")))
}

/// Splits `folder//sub`: the module is in `sub`, and may use the rest of `folder`.
fn split(given: &str) -> (&str, Option<&str>) {
    match given.split_once("//") {
        Some((folder, below)) if !folder.is_empty() => (folder, Some(below.trim_end_matches('/'))),
        _ => (given, None),
    }
}

fn check(given: &str, folder: &str, subdirectory: Option<&str>) -> Result<(), CliError> {
    let module = Path::new(folder).join(subdirectory.unwrap_or_default());
    if given.contains("://") {
        return Err(CliError::usage_with_hint(
            "--module: an address must name the method that fetches it",
            "put `git::` before the address of a git repository; one of an OCI registry begins with `oci://`",
        ));
    }
    if module.is_file() {
        return Err(CliError::usage_with_hint(
            format!("--module: `{given}` is a file"),
            "give its folder, or read one file from stdin with `--module - < main.tf`",
        ));
    }
    let entries = std::fs::read_dir(&module).map_err(|source| {
        let failed = CliError::file("read the module's folder", &module, source);
        if !is_like_an_address(given) {
            return failed;
        }
        CliError::usage_with_hint(
            failed.to_string(),
            format!("if it is the address of a git repository: --module git::https://{given}"),
        )
    })?;
    let code = |name: &str| {
        [".tf", ".tf.json", ".tofu", ".tofu.json"].iter().any(|end| name.ends_with(end))
    };
    let mut names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
    if !names.any(|name| name.to_str().is_some_and(code)) {
        return Err(CliError::usage_with_hint(
            format!("--module: `{given}` has no .tf file"),
            "give the folder that contains main.tf; `folder//sub` packs more than the module itself",
        ));
    }
    Ok(())
}

/// Whether it begins with a host with a dot or a port, as an address without its scheme does.
fn is_like_an_address(given: &str) -> bool {
    let Some((host, _)) = given.split_once('/') else { return false };
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let has_dot = !name.starts_with('.') && name.contains('.');
    !name.is_empty() && port.map_or(has_dot, is_port)
}

fn with_cause(what: &str, error: &dyn std::error::Error) -> String {
    let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
    format!("{what}: {error}{cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_forms_of_git_are_written_out() {
        for (given, expected) in [
            (
                "git@example.com:team/lib.git//vpc?ref=v1",
                "git::ssh://git@example.com/team/lib.git//vpc?ref=v1",
            ),
            ("root@example.com:/srv/lib.git", "git::ssh://root@example.com/srv/lib.git"),
            ("git::git@example.com:lib.git", "git::ssh://git@example.com/lib.git"),
            ("github.com/team/lib?ref=v1", "git::https://github.com/team/lib?ref=v1"),
            ("git::https://example.com/lib.git", "git::https://example.com/lib.git"),
            ("oci://example.com/lib//sub?tag=1", "oci://example.com/lib//sub?tag=1"),
        ] {
            assert_eq!(address(given).as_deref(), Some(expected));
            parse(expected).unwrap();
        }
        for given in [
            "./github.com/lib",
            "../lib",
            "lib//sub",
            "git@example.com",
            "./git@example.com:lib",
            "@example.com:lib",
            "https://example.com/lib.zip",
        ] {
            assert_eq!(address(given), None, "{given}");
        }
        for (given, expected) in [
            ("host:9443/acme/network.git", true),
            ("git.example.com/acme/network", true),
            ("./net", false),
            ("../net", false),
            ("modules/net", false),
            ("net", false),
        ] {
            assert_eq!(is_like_an_address(given), expected, "{given}");
        }
        assert_eq!(folder("../lib//sub"), Some(PathBuf::from("../lib/sub")));
        assert_eq!(folder("-"), None);
    }
}
