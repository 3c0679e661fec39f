//! `canyon-runner git-code-commit FILE get`: git calls it as a credential helper for repositories of AWS `CodeCommit`.
//!
//! A password is a signature for one repository, valid for some minutes, so it cannot be made before git names the
//! repository. The algorithm is that of `aws codecommit credential-helper` (awscli, `customizations/codecommit.py`): the
//! canonical request is a `GIT` of the repository's path with the host as its only header, without the port and without the
//! hash of a body, and the time that is signed has no `Z`. The signature of each call is made anew.

use aws_credential_types::Credentials;
use aws_sigv4::sign::v4::{calculate_signature, generate_signing_key};
use canyon_domain::git_credentials::repository_prefix::{RepositoryPrefix, Transport};
use canyon_domain::secret_text::SecretText;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;
use url::Url;

/// The first argument of the command.
pub const ARGUMENT: &str = "git-code-commit";
const SERVICE: &str = "codecommit";
/// More than git writes, which is some lines with an address.
const MAX_INPUT: u64 = 64 * 1024;

/// The job's keys at AWS.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Keys {
    id: String,
    secret: SecretText,
    /// The token of a role's session.
    session_token: Option<SecretText>,
}

impl Keys {
    /// What must not be printed.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        [Some(&self.secret), self.session_token.as_ref()]
            .into_iter()
            .flatten()
            .map(SecretText::expose)
    }
}

impl From<&Credentials> for Keys {
    fn from(given: &Credentials) -> Self {
        Self {
            id: given.access_key_id().to_owned(),
            secret: given.secret_access_key().to_owned().into(),
            session_token: given.session_token().map(|token| token.to_owned().into()),
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What the helper needs, in a file that only the runner's user can read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) keys: Keys,
    /// All addresses for which the job has a credential, the most specific first.
    pub(super) addresses: Vec<Address>,
}

/// The repositories of one credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Address {
    pub(super) repositories: RepositoryPrefix,
    /// The region to sign for; `None` if the credential is of another kind.
    pub(super) region: Option<String>,
}

/// The value of `credential.helper`, which a shell reads.
pub(super) fn command(settings: &Path) -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    let quoted = |path: &Path| format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"));
    format!("!{} {ARGUMENT} {}", quoted(&program), quoted(settings))
}

/// Answers git. Its arguments are the file of the settings, and what git wants to do. Only `get` has an answer.
pub fn answer(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let (settings, operation) = (arguments.next().unwrap_or_default(), arguments.next());
    if operation.as_deref() != Some("get") {
        return ExitCode::SUCCESS;
    }
    let asked = || -> io::Result<_> {
        let settings: Settings =
            serde_json::from_str(&std::fs::read_to_string(&settings)?).map_err(io::Error::other)?;
        let mut asked = String::new();
        io::stdin().take(MAX_INPUT).read_to_string(&mut asked)?;
        Ok((settings, asked))
    };
    match asked() {
        Ok((settings, asked)) => {
            if let Some((username, password)) = settings.proof(&asked, Timestamp::now()) {
                #[expect(clippy::print_stdout, reason = "git reads the answer of a helper there")]
                {
                    println!("username={username}\npassword={password}");
                }
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "git passes on what a helper writes there")]
            {
                eprintln!("canyon-runner: cannot sign for CodeCommit: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

impl Settings {
    /// User name and password for what git asks, in lines of `name=value` (git-credential(1)).
    fn proof(&self, asked: &str, now: Timestamp) -> Option<(String, String)> {
        let value = |wanted: &str| {
            let mut pairs = asked.lines().filter_map(|line| line.split_once('='));
            pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
        };
        let (host, path) = (value("host")?, value("path")?);
        if value("protocol")? != Transport::Https.scheme() {
            return None;
        }
        let url = Url::parse(&format!("https://{host}/")).ok()?;
        let port = url.port().unwrap_or_else(|| Transport::Https.default_port());
        let host = url.host_str()?;
        let bare_host = host.trim_matches(['[', ']']);
        let covers =
            |one: &&Address| one.repositories.covers(Transport::Https, bare_host, port, path);
        let region = self.addresses.iter().find(covers)?.region.as_deref()?;
        let Keys { id, secret, session_token } = &self.keys;
        let username = match session_token {
            Some(token) => format!("{id}%{}", token.expose()),
            None => id.clone(),
        };
        let path = format!("/{}", path.trim_start_matches('/'));
        Some((username, password(secret.expose(), region, host, &path, now)))
    }
}

fn password(secret: &str, region: &str, host: &str, path: &str, now: Timestamp) -> String {
    let stamp = now.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%S").to_string();
    let (day, _) = stamp.split_at(8);
    let request = format!("GIT\n{path}\n\nhost:{host}\n\nhost\n");
    let digest = hex::encode(Sha256::digest(request));
    let text =
        format!("AWS4-HMAC-SHA256\n{stamp}\n{day}/{region}/{SERVICE}/aws4_request\n{digest}");
    let key = generate_signing_key(secret, SystemTime::from(now), region, SERVICE);
    format!("{stamp}Z{}", calculate_signature(key, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

    fn settings(session_token: Option<&str>) -> Settings {
        let address = |repositories: &str, region: Option<&str>| Address {
            repositories: repositories.parse().unwrap(),
            region: region.map(str::to_owned),
        };
        let host = "https://git-codecommit.eu-west-1.amazonaws.com";
        Settings {
            keys: Keys {
                id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
                secret: SECRET.to_owned().into(),
                session_token: session_token.map(|token| token.to_owned().into()),
            },
            addresses: vec![
                address(&format!("{host}/v1/repos/by-token"), None),
                address(host, Some("eu-west-1")),
                address("https://127.0.0.1:8443/v1/repos", Some("eu-west-1")),
            ],
        }
    }

    fn asked(host: &str, path: &str) -> String {
        format!("protocol=https\nhost={host}\npath={path}\nwwwauth[]=Basic realm=\"x\"\n")
    }

    #[test]
    fn the_password_is_that_of_aws_s_own_helper() {
        // Printed by `aws codecommit credential-helper get` of AWS's command line at this time.
        let now: Timestamp = "2026-11-26T09:03:56.25Z".parse().unwrap();
        let asked = asked("git-codecommit.eu-west-1.amazonaws.com", "v1/repos/network");
        let (username, password) = settings(None).proof(&asked, now).unwrap();
        assert_eq!(username, "AKIAIOSFODNN7EXAMPLE");
        assert_eq!(
            password,
            "20261126T090356Z902ff08267abc51143d1504b4f3018f050a434c26fbdb4c29908ec5fd4305293"
        );
        let (username, same) = settings(Some("of-a-session")).proof(&asked, now).unwrap();
        assert_eq!(username, "AKIAIOSFODNN7EXAMPLE%of-a-session");
        assert_eq!(same, password);
    }

    #[test]
    fn each_repository_has_its_own_password_and_the_port_is_not_signed() {
        let now = Timestamp::UNIX_EPOCH;
        let proof = |host: &str, path: &str| settings(None).proof(&asked(host, path), now);
        let one = proof("127.0.0.1:8443", "v1/repos/a").unwrap();
        assert_ne!(one, proof("127.0.0.1:8443", "v1/repos/b").unwrap());
        assert_eq!(one.1, password(SECRET, "eu-west-1", "127.0.0.1", "/v1/repos/a", now));
    }

    #[test]
    fn nothing_is_signed_for_other_repositories() {
        for (host, path) in [
            ("git-codecommit.eu-west-1.amazonaws.com.evil.example", "v1/repos/a"),
            ("git-codecommit.eu-west-1.amazonaws.com:8443", "v1/repos/a"),
            ("git-codecommit.eu-west-1.amazonaws.com", "v1/repos/by-token"),
            ("git-codecommit.eu-west-1.amazonaws.com", "v1/repos/../a"),
            ("127.0.0.1:8443", "v2/repos/a"),
            ("127.0.0.1", "v1/repos/a"),
            ("", "v1/repos/a"),
        ] {
            let proof = settings(None).proof(&asked(host, path), Timestamp::UNIX_EPOCH);
            assert_eq!(proof, None, "{host} {path}");
        }
        let http = asked("127.0.0.1:8443", "v1/repos/a").replace("https", "http");
        assert_eq!(settings(None).proof(&http, Timestamp::UNIX_EPOCH), None);
        let without_path = "protocol=https\nhost=127.0.0.1:8443\n";
        assert_eq!(settings(None).proof(without_path, Timestamp::UNIX_EPOCH), None);
    }
}
