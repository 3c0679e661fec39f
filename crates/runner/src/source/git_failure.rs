//! The failure of a git command, with the error output of git and ssh.

use super::SourceError;
use crate::git_access::{Covering, GitAccess, is_of_access};
use crate::{unreachable, url_credentials};
use canyon_domain::failure::shortened_to;

/// The most characters of the error output that are kept.
const LONGEST: usize = 700;

/// The beginnings of lines that do not name the cause.
const NOISE: [&str; 4] = [
    "Please make sure you have the correct access rights",
    "and the repository exists.",
    "Cloning into",
    "@@@@@",
];

/// Pairs of a text in the error output and the hint for it.
const HINTS: [(&str, &str); 6] = [
    ("SSL CA cert", "the job cannot read the file that `GIT_SSL_CAINFO` or `SSL_CERT_FILE` names"),
    (
        "ertificate",
        "the job does not trust the host's certificate: if it is of your own authority, name a file with that authority, in the \
         job, by `canyon set variable --kind environment GIT_SSL_CAINFO=PATH`",
    ),
    ("redirect", "redirects are not followed, give the address that it leads to"),
    ("ould not resolve host", "check the host's name, and that the job can resolve it"),
    ("refused", "check the address, and that the job can reach it"),
    ("imed out", "check that the job can reach the host"),
];

/// The sign of a host that ssh does not know, or that has another key.
const UNKNOWN_HOST: &str = "Host key verification failed";

/// What ssh says before if it has no key of the host at all.
const NO_KEY: &str = "host key is known for";

/// The failure of `git command`, which wrote `stderr`, at the repository `address`, with the credentials `access`.
///
/// The cause of a failed ssh fetch is in ssh's own lines, before git's `fatal:` line. That line only says that
/// the remote repository could not be read.
pub(super) fn of(command: &str, stderr: &str, address: &str, access: &GitAccess) -> SourceError {
    let credential = access.covering(address);
    let lines = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !NOISE.iter().any(|noise| line.starts_with(noise)));
    let text = url_credentials::hidden(&lines.collect::<Vec<_>>().join("; "));
    let text = if text.is_empty() { "it printed no error" } else { text.as_str() };
    let hint =
        HINTS.iter().find(|(sign, _)| text.contains(sign)).map(|(_, hint)| (*hint).to_owned());
    let gives_none = credential.and_then(|credential| credential.missing);
    let unreachable =
        gives_none.is_some_and(|missing| missing.unreachable) || unreachable::is_reported_in(text);
    let hint = about_credential(text, address, credential, &access.project_flag).or(hint);
    let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
    let message = format!("`git {command}` failed: {}{hint}", shortened_to(text, LONGEST));
    if unreachable { SourceError::Unreachable(message) } else { SourceError::Refused(message) }
}

/// What to do about the credential, if the failure is one of access.
fn about_credential(
    text: &str,
    address: &str,
    credential: Option<Covering<'_>>,
    project_flag: &str,
) -> Option<String> {
    let is_unknown_host = text.contains(UNKNOWN_HOST);
    if !is_of_access(text) {
        return None;
    }
    let Some(Covering { repositories, from, identity, missing }) = credential else {
        let address = url_credentials::hidden(address);
        let address = address.replacen("ssh://git@", "ssh://", 1);
        let proof = if address.starts_with("ssh://") {
            " --ssh-key FILE --known-hosts FILE"
        } else {
            " --token-file FILE"
        };
        return Some(format!(
            "no git credential is kept for it: set one with `canyon set git-credential{project_flag} {address}{proof}`, or for \
             a shorter address"
        ));
    };
    let which = format!("the git credential for `{repositories}` of {from}");
    Some(match missing {
        Some(missing) => format!("{which} gives no token: {}", missing.reason),
        None if text.contains(NO_KEY) => format!(
            "{which} has no key of this host: set it again with `--known-hosts`, a file with the keys that the host publishes"
        ),
        None if is_unknown_host => {
            format!(
                "{which} has other host keys: compare them with those that the host publishes, and set it again"
            )
        }
        None => match identity {
            Some(identity) => format!(
                "{which} was used, as {identity}: check that the repository exists, and that this identity may read it"
            ),
            None => format!("{which} was used: check that it is valid and may read the repository"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_ssh_and_git_are_kept_with_a_hint() {
        let read = "fatal: Could not read from remote repository.\n\nPlease make sure you have the \
                    correct access rights\nand the repository exists.\n";
        let cases = [
            format!("ssh: Could not resolve hostname git.invalid: Name or service not known\r\n{read}"),
            format!("ssh: connect to host 127.0.0.1 port 1: Connection refused\r\n{read}"),
            format!("ssh: connect to host 10.0.0.1 port 22: Connection timed out\r\n{read}"),
            format!("kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 127.0.0.1 port 22\r\n{read}"),
            format!("No ED25519 host key is known for git.example.com and you have requested strict checking.\r\nHost key verification failed.\r\n{read}"),
            format!("@@@@@@@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@@@@@@@@@\nHost key verification failed.\r\n{read}"),
            format!("git@git.example.com: Permission denied (publickey).\r\n{read}"),
            format!("remote: The project you were looking for could not be found.\n{read}"),
            "fatal: unable to access 'https://user:hunter2@git.invalid/x.git/': Could not resolve host: git.invalid\n".to_owned(),
            "fatal: unable to access 'https://h/x.git/': The requested URL returned error: 503\n".to_owned(),
            "remote: Invalid username or password.\nfatal: Authentication failed for 'https://ghp_token@h/x.git/'\n".to_owned(),
            "fatal: could not read Username for 'https://h': terminal prompts disabled\n".to_owned(),
            String::new(),
        ];
        let mut access = GitAccess::default();
        access.project_flag = " --project shop".to_owned();
        let errors = cases.map(|stderr| {
            match of("fetch", &stderr, "ssh://git@git.example.com/net/vpc.git", &access) {
                SourceError::Unreachable(message) => format!("unreachable: {message}"),
                SourceError::Refused(message) => format!("refused: {message}"),
                other => panic!("{other:?}"),
            }
        });
        insta::assert_snapshot!(errors.join("\n"));
    }
}
