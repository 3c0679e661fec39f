//! Changes of credentials, as a caller requests them.

use super::cloud::Cloud;
use super::repository_prefix::{RepositoryPrefix, Transport};
use super::secret::{GitSecret, GitSecretKind};
use crate::field_error::FieldErrors;
use crate::secret_text::MIN_SECRET_BYTES;
use crate::secret_text::SecretText;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ssh_key::{HashAlg, PrivateKey};
use std::collections::BTreeMap;

/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 200;
/// The longest token or key, in bytes.
const MAX_SECRET_BYTES: usize = 16 * 1024;
/// The longest list of the host's keys, in bytes.
const MAX_KNOWN_HOSTS_BYTES: usize = 8 * 1024;
/// The user name for a token that comes without one. GitHub requires this one of an app's token, and servers that look at
/// the token alone accept any.
const DEFAULT_USERNAME: &str = "x-access-token";
/// How to write a private key without its passphrase.
const NO_PASSPHRASE: &str = "write a copy without one: `ssh-keygen -p -N \"\" -f COPY`";

/// A change of one credential. What is absent keeps its value; a new secret replaces the one before, of any kind.
#[derive(Clone, Debug, Default)]
pub struct GitCredentialEdit {
    /// A user name and a token.
    pub token: Option<SecretText>,
    /// The user name of the token.
    pub username: Option<String>,
    /// A private key for SSH.
    pub ssh_key: Option<SecretText>,
    /// The keys of its host.
    pub known_hosts: Option<String>,
    /// An installation of a GitHub App.
    pub github_app: Option<GithubApp>,
    /// The cloud at which the job's own identity may read.
    pub cloud_identity: Option<Cloud>,
    /// Its purpose.
    pub description: Option<String>,
}

/// An installation of a GitHub App.
#[derive(Clone, Debug)]
pub struct GithubApp {
    /// The id of the app, or its client id.
    pub app_id: String,
    /// The id of the installation.
    pub installation_id: u64,
    /// The app's private key in PEM.
    pub private_key: SecretText,
}

/// A change whose values are valid.
#[derive(Clone, Debug)]
pub struct CheckedEdit {
    /// The new secret, with what callers may see of it.
    pub secret: Option<(GitSecret, GitSecretKind)>,
    /// The new description; empty to remove it.
    pub description: Option<String>,
}

/// The changes by address: `None` removes the credential.
pub type GitCredentialEdits = BTreeMap<RepositoryPrefix, Option<CheckedEdit>>;

/// Parses and checks the changes of a request, and notes the faults. With `private_hosts`, addresses of private networks
/// are accepted.
pub fn read(
    given: BTreeMap<String, Option<GitCredentialEdit>>,
    private_hosts: bool,
    faults: &mut FieldErrors,
) -> GitCredentialEdits {
    let mut edits = GitCredentialEdits::new();
    for (text, edit) in given {
        let path = path_of(&text);
        let repositories: RepositoryPrefix = match text.parse() {
            Ok(repositories) => repositories,
            Err(error) => {
                faults.add(path, error.to_string());
                continue;
            }
        };
        if edit.is_some() && !private_hosts && repositories.is_private_address() {
            faults.add(
                path.as_str(),
                "is an address of a private network: use the host's name, which jobs resolve in their own network",
            );
        }
        let edit = edit.map(|edit| edit.check(&repositories, private_hosts, &path, faults));
        if edits.insert(repositories, edit).is_some() {
            faults.add(path, "is given twice, in two spellings");
        }
    }
    edits
}

/// The path of a credential's change in the body, for messages.
pub fn path_of(address: &str) -> String {
    // A password in the address must not be repeated.
    let shown: String = address.chars().take(80).collect();
    let shown = if shown.contains('@') { "..." } else { &shown };
    format!("credentials[{shown:?}]")
}

impl GitCredentialEdit {
    fn check(
        self,
        repositories: &RepositoryPrefix,
        private_hosts: bool,
        path: &str,
        faults: &mut FieldErrors,
    ) -> CheckedEdit {
        let Self { token, username, ssh_key, known_hosts, github_app, cloud_identity, description } =
            self;
        let mut fault = |field: &str, reason: String| faults.add(format!("{path}{field}"), reason);
        if description.as_deref().is_some_and(|text| {
            text.chars().count() > MAX_DESCRIPTION || text.contains(char::is_control)
        }) {
            let reason =
                format!("has at most {MAX_DESCRIPTION} characters, and no control characters");
            fault(".description", reason);
        }
        let given =
            [token.is_some(), ssh_key.is_some(), github_app.is_some(), cloud_identity.is_some()];
        if given.iter().filter(|given| **given).count() > 1 {
            let all = "`token`, `ssh_key`, `github_app` and `cloud_identity`";
            fault("", format!("has more than one of {all}"));
        }
        if username.is_some() && token.is_none() {
            fault(".username", "comes with a `token` only".to_owned());
        }
        if known_hosts.is_some() && ssh_key.is_none() {
            fault(".known_hosts", "comes with an `ssh_key` only".to_owned());
        }
        let is_https = repositories.transport() == Transport::Https;
        for (is_given, field, fits) in [
            (given[0], ".token", is_https),
            (given[1], ".ssh_key", !is_https),
            (given[2], ".github_app", is_https),
            (given[3], ".cloud_identity", is_https),
        ] {
            if is_given && !fits {
                let scheme = if is_https { "ssh" } else { "https" };
                fault(field, format!("is for addresses that begin with `{scheme}://`"));
            }
        }
        if let Some(cloud) = cloud_identity
            && is_https
            && let Some(obstacle) = cloud.obstacle(repositories, private_hosts)
        {
            fault(".cloud_identity", obstacle.to_owned());
        }
        let secret = if let Some(token) = token {
            Some(checked_token(token, username, &mut fault))
        } else if let Some(key) = ssh_key {
            checked_key(&key, known_hosts, &mut fault)
        } else if let Some(cloud) = cloud_identity {
            let secret = GitSecret::CloudIdentity { cloud };
            Some((secret, GitSecretKind::CloudIdentity { cloud }))
        } else {
            github_app.map(|app| checked_app(app, &mut fault))
        };
        CheckedEdit { secret, description }
    }
}

type Checked = (GitSecret, GitSecretKind);

fn checked_token(
    token: SecretText,
    username: Option<String>,
    fault: &mut impl FnMut(&str, String),
) -> Checked {
    let username = username.unwrap_or_else(|| DEFAULT_USERNAME.to_owned());
    if username.is_empty() || username.len() > 200 || username.contains([':', '\n', '\r', '\0']) {
        fault(".username", "has 1 to 200 bytes, and no colon and no line end".to_owned());
    }
    if let Some(reason) = text_fault(token.expose()) {
        fault(".token", reason);
    }
    if token.expose().contains(char::is_control) {
        fault(".token", "has a control character: remove the line end".to_owned());
    }
    let kind = GitSecretKind::Token { username: username.clone() };
    (GitSecret::Token { username, token }, kind)
}

fn checked_key(
    key: &SecretText,
    known_hosts: Option<String>,
    fault: &mut impl FnMut(&str, String),
) -> Option<Checked> {
    // ssh refuses a key with line ends of Windows.
    let key = SecretText::from(key.expose().replace("\r\n", "\n"));
    let known_hosts = known_hosts.unwrap_or_default();
    if known_hosts.trim().is_empty() {
        fault(
            ".known_hosts",
            "is required: the lines of `ssh-keyscan HOST`, compared with the keys that the host publishes".to_owned(),
        );
    } else if known_hosts.len() > MAX_KNOWN_HOSTS_BYTES {
        fault(".known_hosts", format!("has more than {} KiB", MAX_KNOWN_HOSTS_BYTES / 1024));
    } else if let Some(line) = wrong_line(&known_hosts) {
        let reason = format!("has a line that is none of a `known_hosts` file: line {line}");
        fault(".known_hosts", reason);
    }
    match fingerprint(key.expose()) {
        Ok(fingerprint) => {
            let kind = GitSecretKind::SshKey { fingerprint, known_hosts: known_hosts.clone() };
            Some((GitSecret::SshKey { private_key: key, known_hosts }, kind))
        }
        Err(reason) => {
            fault(".ssh_key", reason);
            None
        }
    }
}

fn checked_app(app: GithubApp, fault: &mut impl FnMut(&str, String)) -> Checked {
    let GithubApp { app_id, installation_id, private_key } = app;
    let is_id = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    if app_id.is_empty() || app_id.len() > 100 || !app_id.chars().all(is_id) {
        fault(".github_app.app_id", "is not the id or the client id of a GitHub App".to_owned());
    }
    if installation_id == 0 {
        fault(".github_app.installation_id", "is not the id of an installation".to_owned());
    }
    let key = private_key.expose();
    let is_pem = key.contains("-----BEGIN RSA PRIVATE KEY-----")
        || key.contains("-----BEGIN PRIVATE KEY-----");
    if !is_pem || key.contains("ENCRYPTED") || key.len() > MAX_SECRET_BYTES {
        let reason = "is not an RSA private key in PEM, as GitHub gives it";
        fault(".github_app.private_key", reason.to_owned());
    }
    let kind = GitSecretKind::GithubApp { app_id: app_id.clone(), installation_id };
    (GitSecret::GithubApp { app_id, installation_id, private_key }, kind)
}

fn text_fault(text: &str) -> Option<String> {
    if text.len() < MIN_SECRET_BYTES {
        return Some(format!(
            "is too short: a secret has at least {MIN_SECRET_BYTES} bytes, because a shorter text is not masked in logs"
        ));
    }
    (text.len() > MAX_SECRET_BYTES)
        .then(|| format!("has more than {} KiB", MAX_SECRET_BYTES / 1024))
}

/// The fingerprint of a private key, or why it cannot be used.
fn fingerprint(key: &str) -> Result<String, String> {
    if key.len() > MAX_SECRET_BYTES {
        return Err(format!("has more than {} KiB", MAX_SECRET_BYTES / 1024));
    }
    if key.contains("ENCRYPTED") {
        return Err(format!("has a passphrase, which no job could type: {NO_PASSPHRASE}"));
    }
    let form = "is not a private key in the format of OpenSSH (`-----BEGIN OPENSSH PRIVATE KEY-----`), whole and with its \
                line ends; `ssh-keygen -p -f COPY` writes a copy in it";
    let parsed = PrivateKey::from_openssh(key.trim()).map_err(|_| form.to_owned())?;
    if parsed.is_encrypted() {
        return Err(format!("has a passphrase, which no job could type: {NO_PASSPHRASE}"));
    }
    Ok(parsed.fingerprint(HashAlg::Sha256).to_string())
}

/// The number of the first line that is no line of a `known_hosts` file: `[@marker] hosts type key [comment]`.
fn wrong_line(text: &str) -> Option<usize> {
    let is_line = |line: &str| {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return true;
        }
        let fields = line.split_whitespace().skip_while(|field| field.starts_with('@'));
        match fields.collect::<Vec<_>>()[..] {
            [_, kind, key, ..] => {
                !kind.is_empty() && STANDARD.decode(key).is_ok_and(|key| key.len() > 8)
            }
            _ => false,
        }
    };
    text.lines().position(|line| !is_line(line)).map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `ssh-keygen -t ed25519` for this test.
    const KEY: &str = include_str!("testdata/ed25519");
    const KEY_WITH_PASSPHRASE: &str = include_str!("testdata/ed25519_with_passphrase");
    const HOSTS: &str =
        "h ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

    fn secret(text: &str) -> SecretText {
        text.to_owned().into()
    }

    fn faults_of(all: Vec<(&str, Option<GitCredentialEdit>)>, private_hosts: bool) -> String {
        let mut faults = FieldErrors::default();
        let given = all.into_iter().map(|(address, edit)| (address.to_owned(), edit)).collect();
        read(given, private_hosts, &mut faults);
        faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn one_answer_names_every_fault_and_no_secret() {
        let none = GitCredentialEdit::default;
        let token = |text: &str| GitCredentialEdit { token: Some(secret(text)), ..none() };
        let ssh = |key: &str, hosts: Option<&str>| GitCredentialEdit {
            ssh_key: Some(secret(key)),
            known_hosts: hosts.map(str::to_owned),
            ..none()
        };
        let identity = |cloud| GitCredentialEdit { cloud_identity: Some(cloud), ..none() };
        let app = GithubApp {
            app_id: String::new(),
            installation_id: 0,
            private_key: "hunter2".to_owned().into(),
        };
        let faults = faults_of(
            vec![
                ("https://user:hunter2@h", Some(token("hunter2hunter2"))),
                ("https://10.0.0.5/a", Some(token("hunter2hunter2"))),
                ("https://127.0.0.1/gone", None),
                ("https://a", Some(token("short"))),
                ("https://b", Some(token("hunter2\nhunter2"))),
                ("https://c", Some(ssh(KEY, Some(HOSTS)))),
                ("https://d", Some(GitCredentialEdit { github_app: Some(app), ..none() })),
                (
                    "https://e",
                    Some(GitCredentialEdit {
                        ssh_key: Some(secret(KEY)),
                        ..token("hunter2hunter2")
                    }),
                ),
                (
                    "https://f",
                    Some(GitCredentialEdit {
                        username: Some("a:b".to_owned()),
                        ..token("hunter2hunter2")
                    }),
                ),
                (
                    "https://g",
                    Some(GitCredentialEdit {
                        username: Some("u".to_owned()),
                        known_hosts: Some(HOSTS.to_owned()),
                        ..none()
                    }),
                ),
                ("https://H", Some(token("hunter2hunter2"))),
                ("https://h", Some(token("hunter2hunter2"))),
                ("ssh://a", Some(ssh("hunter2hunter2", None))),
                ("ssh://b", Some(ssh(KEY_WITH_PASSPHRASE, Some("h ssh-ed25519 no-key")))),
                ("ssh://c", Some(token("hunter2hunter2"))),
                ("ssh://d", Some(ssh(KEY, Some(HOSTS)))),
                ("https://i", Some(identity(Cloud::Aws))),
                ("https://git-codecommit.eu-west-1.amazonaws.com/a", Some(identity(Cloud::Aws))),
                ("https://127.0.0.1:1/v1", Some(identity(Cloud::Azure))),
                ("ssh://dev.azure.com", Some(identity(Cloud::Azure))),
                (
                    "https://dev.azure.com",
                    Some(GitCredentialEdit {
                        cloud_identity: Some(Cloud::Azure),
                        ..token("hunter2hunter2")
                    }),
                ),
            ],
            false,
        );
        assert!(!faults.contains("hunter2"), "{faults}");
        insta::assert_snapshot!(faults);
        let loopback = vec![("https://127.0.0.1:8443", Some(token("hunter2hunter2")))];
        assert_eq!(faults_of(loopback, true), "");
    }

    #[test]
    fn of_a_key_callers_see_the_fingerprint_that_ssh_keygen_prints() {
        let edit = GitCredentialEdit {
            ssh_key: Some(secret(KEY)),
            known_hosts: Some(HOSTS.to_owned()),
            ..GitCredentialEdit::default()
        };
        let mut faults = FieldErrors::default();
        let given = BTreeMap::from([("ssh://git@h/a".to_owned(), Some(edit))]);
        let edits = read(given, false, &mut faults);
        assert!(faults.is_empty());
        let edit = edits[&"ssh://h/a".parse().unwrap()].as_ref().unwrap();
        let (_, kind) = edit.secret.as_ref().unwrap();
        let GitSecretKind::SshKey { fingerprint, .. } = kind else { panic!("{kind:?}") };
        assert_eq!(fingerprint, include_str!("testdata/ed25519_fingerprint").trim());
    }
}
