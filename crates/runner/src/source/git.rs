//! Fetches a module with the real `git`.
//!
//! git treats the repository as data: no hook, filter, helper or transport of the repository's choice runs. Submodules
//! are fetched, as OpenTofu does for child modules, over HTTPS and SSH only. The address and the ref were checked when the
//! deployment was accepted ([`canyon_domain::module_source`]). They are passed after `--end-of-options` nevertheless: as
//! options they have led to code execution elsewhere (Tekton CVE-2026-40938, go-getter CVE-2024-3817).

use super::git_program::GitProgram;
use super::{SourceError, fetch_program, git_failure};
use crate::git_access::GitAccess;
use crate::{environment, settings::Settings};
use canyon_domain::commit::Commit;
use canyon_domain::module_source::GitSource;
use std::path::Path;
use std::process::Output;
use std::time::Duration;
use tokio::process::Command;

/// How long one command may take. Repositories of modules are small, so only a dead network takes that long.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(5);

struct Git<'a> {
    program: &'a GitProgram,
    settings: &'a Settings,
    access: &'a GitAccess,
    address: &'a str,
    scheme: &'a str,
    folder: &'a Path,
}

/// Fetches `source` with `program` into the folder `folder`, without history. Returns the commit.
///
/// # Errors
///
/// [`SourceError`] with the error output of git.
pub async fn fetch(
    program: &GitProgram,
    source: &GitSource,
    folder: &Path,
    settings: &Settings,
    access: &GitAccess,
) -> Result<Commit, SourceError> {
    let scheme = source.url.split_once("://").map_or("https", |(scheme, _)| scheme);
    let git = Git { program, settings, access, address: &source.url, scheme, folder };
    // Without templates there are no sample hooks either.
    git.must(&["init", "--quiet", "--template="]).await?;
    let commit = match &source.reference {
        None => git.fetch(source, &["HEAD"], true).await.map(|()| "FETCH_HEAD".to_owned())?,
        Some(name) => git.fetch_reference(source, name).await?,
    };
    git.must(&["checkout", "--quiet", "--detach", "--force", "--no-recurse-submodules", &commit])
        .await?;
    let commit = git.head().await?;
    if !folder.join(".gitmodules").is_file() {
        return Ok(commit);
    }
    // Relative addresses of submodules start at that of the repository.
    git.must(&["config", "remote.origin.url", &source.url]).await?;
    // What the script `git submodule` calls (git 2.39).
    let command = if program.has_scripts { "submodule" } else { "submodule--helper" };
    git.must(&[command, "update", "--quiet", "--init", "--recursive", "--checkout"]).await?;
    Ok(commit)
}

impl Git<'_> {
    /// Fetches only the named branch, tag or full commit id. An abbreviated id needs the whole repository, because only
    /// its history shows which commit the id means.
    async fn fetch_reference(&self, source: &GitSource, name: &str) -> Result<String, SourceError> {
        let Err(error) = self.fetch(source, &[name], true).await else {
            return Ok("FETCH_HEAD".to_owned());
        };
        let is_hexadecimal = name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let SourceError::Refused(reason) = &error else { return Err(error) };
        if !is_hexadecimal || !(4..=64).contains(&name.len()) {
            return Err(if reason.contains("couldn't find remote ref") {
                missing(name)
            } else {
                error
            });
        }
        let everything = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"];
        self.fetch(source, &everything, false).await?;
        let commit = format!("{name}^{{commit}}");
        let found =
            self.run(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]).await?;
        let commit = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        if found.status.success() && !commit.is_empty() { Ok(commit) } else { Err(missing(name)) }
    }

    /// The commit that is checked out.
    async fn head(&self) -> Result<Commit, SourceError> {
        let found = self.run(&["rev-parse", "--verify", "--end-of-options", "HEAD"]).await?;
        let text = String::from_utf8_lossy(&found.stdout);
        let unreadable =
            |error| SourceError::Unusable(format!("`git rev-parse` answers no commit: {error}"));
        text.trim().parse().map_err(unreadable)
    }

    async fn fetch(
        &self,
        source: &GitSource,
        refs: &[&str],
        shallow: bool,
    ) -> Result<(), SourceError> {
        let mut arguments = vec!["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"];
        arguments.extend(["--no-auto-maintenance", "--no-write-commit-graph"]);
        if shallow {
            arguments.push("--depth=1");
        }
        arguments.extend(["--end-of-options", &source.url]);
        arguments.extend(refs);
        self.must(&arguments).await
    }

    async fn must(&self, arguments: &[&str]) -> Result<(), SourceError> {
        let output = self.run(arguments).await?;
        if output.status.success() {
            return Ok(());
        }
        let command = arguments.first().copied().unwrap_or_default();
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(git_failure::of(command, &stderr, self.address, self.access))
    }

    async fn run(&self, arguments: &[&str]) -> Result<Output, SourceError> {
        let settings = [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "core.symlinks=true",
            "http.followRedirects=false",
            // Another user may own the folder. The repository in it is this program's own.
            "safe.directory=*",
            "submodule.recurse=false",
            "advice.detachedHead=false",
            "gc.auto=0",
        ];
        let environment = environment::of_git(self.settings, self.scheme, self.access);
        let mut command = Command::new(&self.program.path);
        command
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .args(arguments)
            .current_dir(self.folder)
            .env_clear()
            .envs(self.program.environment(environment));
        let call = format!("git {}", arguments.first().copied().unwrap_or_default());
        fetch_program::run(command, "git", &call, "repository", COMMAND_TIMEOUT).await
    }
}

fn missing(name: &str) -> SourceError {
    SourceError::Refused(format!("the repository has no branch, tag or commit `{name}`"))
}
