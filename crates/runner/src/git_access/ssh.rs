//! `canyon-runner git-ssh FILE ...`: git calls it in place of ssh, to read a repository with the key that is kept for it.
//!
//! One host may need several keys: GitHub allows a deploy key for one repository only. ssh chooses keys by host, so this
//! program chooses by host and path, and executes ssh with that key alone.

use canyon_domain::git_credentials::repository_prefix::{RepositoryPrefix, Transport};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The first argument of the command.
pub const ARGUMENT: &str = "git-ssh";
/// What ssh does without a key of Canyon, too. Trust on first use would give no protection: a job connects only once.
pub const OPTIONS: [&str; 3] =
    ["-oBatchMode=yes", "-oStrictHostKeyChecking=yes", "-oConnectTimeout=20"];

/// A key, and the repositories that it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshKey {
    /// The repositories.
    pub repositories: RepositoryPrefix,
    /// The file of the private key.
    pub key: PathBuf,
    /// The file of the host's keys.
    pub known_hosts: PathBuf,
}

/// The text of the file that the command reads: `keys` with the most specific address first.
///
/// # Errors
///
/// When a path is not UTF-8.
pub fn to_text(keys: &[SshKey]) -> io::Result<String> {
    serde_json::to_string(keys).map_err(io::Error::other)
}

/// The value of `GIT_SSH_COMMAND`, which a shell reads.
pub fn command(settings: &Path) -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    let quoted = |path: &Path| format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"));
    format!("{} {ARGUMENT} {}", quoted(&program), quoted(settings))
}

/// Executes ssh with the key for the repository in `arguments`, after the file of [`to_text`]. It returns only if that
/// fails.
pub fn execute(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let settings = arguments.next().unwrap_or_default();
    let arguments: Vec<_> = arguments.collect();
    let keys = std::fs::read_to_string(&settings)
        .and_then(|text| serde_json::from_str::<Vec<SshKey>>(&text).map_err(io::Error::other));
    let error = match keys {
        Ok(keys) => {
            let mut ssh = Command::new("ssh");
            ssh.args(options(&keys, &arguments)).args(OPTIONS).args(&arguments).exec()
        }
        Err(error) => error,
    };
    #[expect(clippy::print_stderr, reason = "git passes on what ssh writes there")]
    {
        eprintln!("canyon-runner: cannot start ssh with the job's key: {error}");
    }
    ExitCode::FAILURE
}

/// The options for the key that is for the repository of a call by git.
fn options(keys: &[SshKey], arguments: &[String]) -> Vec<String> {
    let found = repository(arguments).and_then(|(host, port, path)| {
        keys.iter().find(|key| key.repositories.covers(Transport::Ssh, host, port, &path))
    });
    let Some(SshKey { key, known_hosts, .. }) = found else { return Vec::new() };
    [
        // Neither the settings nor the keys of the job's own user.
        "-F/dev/null".to_owned(),
        "-oIdentitiesOnly=yes".to_owned(),
        "-oIdentityAgent=none".to_owned(),
        "-oGlobalKnownHostsFile=/dev/null".to_owned(),
        format!("-oUserKnownHostsFile=\"{}\"", known_hosts.display()),
        format!("-oIdentityFile=\"{}\"", key.display()),
    ]
    .into()
}

/// Host, port and path in the arguments that git gives: `[-o OPTION] [-4|-6] [-p PORT] [USER@]HOST COMMAND`
/// (git-config(1), `ssh.variant`).
fn repository(arguments: &[String]) -> Option<(&str, u16, String)> {
    let mut port = Transport::Ssh.default_port();
    let mut rest = arguments.iter().map(String::as_str);
    let host = loop {
        match rest.next()? {
            "-p" => port = rest.next()?.parse().ok()?,
            "-o" => _ = rest.next()?,
            option if option.starts_with('-') => {}
            host => break host,
        }
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let (_, path) = rest.next()?.split_once(' ')?;
    Some((host, port, unquoted(path)))
}

/// The text that git has quoted for a shell: in `'`, with `'\''` and `'\!'` for these two characters.
fn unquoted(text: &str) -> String {
    text.replace(r"'\''", "\u{0}").replace(r"'\!'", "!").replace('\'', "").replace('\u{0}', "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_chosen_by_the_host_the_port_and_the_path() {
        let key = |address: &str, name: &str| SshKey {
            repositories: address.parse().unwrap(),
            key: name.into(),
            known_hosts: "hosts".into(),
        };
        let keys = [
            key("ssh://h/acme/net", "net"),
            key("ssh://h/acme", "acme"),
            key("ssh://h:2222", "port"),
        ];
        let chosen = |arguments: &[&str]| {
            let arguments: Vec<_> = arguments.iter().map(|text| (*text).to_owned()).collect();
            let options = options(&keys, &arguments);
            options.last().and_then(|last| last.split('"').nth(1)).map(str::to_owned)
        };
        for (arguments, expected) in [
            (vec!["git@h", "git-upload-pack '/acme/net.git'"], Some("net")),
            (vec!["git@h", "git-upload-pack 'acme/net.git'"], Some("net")),
            (vec!["-o", "SendEnv=GIT_PROTOCOL", "h", "git-upload-pack '/acme/x'"], Some("acme")),
            (vec!["-4", "-p", "2222", "git@h", "git-upload-pack '/acme/net'"], Some("port")),
            (vec!["git@h", "git-upload-pack '/other/net'"], None),
            (vec!["git@h.example", "git-upload-pack '/acme/net'"], None),
            (vec!["git@h", r"git-upload-pack '/acme/it'\''s'"], Some("acme")),
            (vec!["-p"], None),
            (vec![], None),
        ] {
            assert_eq!(chosen(&arguments).as_deref(), expected, "{arguments:?}");
        }
    }

    #[test]
    fn a_shell_reads_the_command_as_it_is_meant() {
        let command = command(Path::new("/a b/it's"));
        assert!(command.ends_with(r" git-ssh '/a b/it'\''s'"), "{command}");
    }
}
