//! The failure of a git command, with the error output of git and ssh.

use super::SourceError;
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
const HINTS: [(&str, &str); 8] = [
    ("Host key verification failed", "put the host's key into ~/.ssh/known_hosts of the job"),
    ("Permission denied (", "give the job an ssh key that may read the repository"),
    ("could not read Username", "the job has no credential for it"),
    ("Authentication failed", "the job has no credential for it"),
    ("redirect", "redirects are not followed, give the address that it leads to"),
    ("ould not resolve host", "check the host's name, and that the job can resolve it"),
    ("refused", "check the address, and that the job can reach it"),
    ("imed out", "check that the job can reach the host"),
];

/// The failure of `git command`, which wrote `stderr`.
///
/// The cause of a failed ssh fetch is in ssh's own lines, before git's `fatal:` line. That line only says that
/// the remote repository could not be read.
pub(super) fn of(command: &str, stderr: &str) -> SourceError {
    let lines = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !NOISE.iter().any(|noise| line.starts_with(noise)));
    let text = url_credentials::hidden(&lines.collect::<Vec<_>>().join("; "));
    let text = if text.is_empty() { "it printed no error" } else { text.as_str() };
    let hint = HINTS.iter().find(|(sign, _)| text.contains(sign));
    let hint = hint.map_or_else(String::new, |(_, hint)| format!("; {hint}"));
    let message = format!("`git {command}` failed: {}{hint}", shortened_to(text, LONGEST));
    if unreachable::is_reported_in(text) {
        SourceError::Unreachable(message)
    } else {
        SourceError::Refused(message)
    }
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
        let errors = cases.map(|stderr| match of("fetch", &stderr) {
            SourceError::Unreachable(message) => format!("unreachable: {message}"),
            SourceError::Refused(message) => format!("refused: {message}"),
            other => panic!("{other:?}"),
        });
        insta::assert_snapshot!(errors.join("\n"));
    }
}
