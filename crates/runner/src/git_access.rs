//! The job's credentials for git repositories, as git and ssh take them.
//!
//! They exist while the module and its child modules are fetched, and not when a program of the module runs. In a module's
//! folder git must not look for a repository: the settings of one that the module brings could name programs and proxies.
//!
//! * **HTTPS.** git reads settings from its environment (`GIT_CONFIG_COUNT`, git-config(1)). `http.<address>.extraHeader`
//!   applies to the repositories below the address, by whole segments of the path. The header is in no argument.
//! * **SSH.** git starts this program in place of ssh ([`ssh`]), which finds the key for the repository and executes ssh.
//!   ssh reads keys from files only: they are in the job's folder until the child modules are fetched.
//! * **The job's own identity.** Azure's token is such a header. For AWS, git starts this program as a credential helper,
//!   which signs for each repository ([`code_commit`]); its keys are in a file beside those of ssh.

mod cloud_identity;
pub mod code_commit;
mod github_app;
pub mod ssh;

use crate::session::ApiConnection;
use crate::sign_in::SignedIn;
use crate::workspace::Workspace;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_domain::git_credentials::JobGitCredential;
use canyon_domain::git_credentials::cloud::Cloud;
use canyon_domain::git_credentials::repository_prefix::{RepositoryPrefix, Transport};
use canyon_domain::git_credentials::secret::GitSecret;
use canyon_domain::job::Job;
use canyon_domain::variable_scope::VariableScope;
use canyon_domain::variables::job::JobVariable;
use cloud_identity::Identities;
use code_commit::{Address, Keys};
use secrecy::{ExposeSecret, SecretString};
use ssh::SshKey;
use std::cmp::Reverse;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use url::Url;

/// A credential that is ready for git.
#[derive(Debug)]
struct Ready {
    repositories: RepositoryPrefix,
    from: VariableScope,
    /// As whom the job reads, if it does so by its own identity.
    identity: Option<String>,
    proof: Proof,
}

#[derive(Debug)]
enum Proof {
    /// The value of the header `Authorization`.
    Header(SecretString),
    /// A private key and the keys of its host.
    Key { private: SecretString, known_hosts: String },
    /// A signature for each repository, for this region.
    Signature { region: String },
    /// None could be got.
    Missing(NoToken),
}

/// The credentials of a job.
#[derive(Debug, Default)]
pub struct GitAccess {
    /// The most specific address first.
    all: Vec<Ready>,
    /// What must not be printed.
    secrets: Vec<SecretString>,
    /// The job's keys at AWS, if it signs.
    aws: Option<Keys>,
    /// The folder of the keys.
    folder: PathBuf,
    /// The environment variables that the organization and the runner's definition set for the job.
    job_environment: Vec<(OsString, OsString)>,
    /// The flag that names the job's project in a command, after a space.
    pub(crate) project_flag: String,
}

/// Signs of a server that does not know the caller, or shows it no such repository.
const NOT_PERMITTED: [&str; 8] = [
    "Permission denied (",
    "could not read Username",
    "Authentication failed",
    "could not be found",
    "epository not found",
    "error: 403",
    // Azure Repos: `TF401019: The Git repository ... does not exist or you do not have permissions`.
    "TF401019",
    "Host key verification failed",
];

/// Why a token could not be got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoToken {
    /// The reason.
    pub reason: String,
    /// The server did not answer: it may the next time.
    pub unreachable: bool,
}

/// Which credential covers a repository.
#[derive(Clone, Copy, Debug)]
pub struct Covering<'a> {
    /// The address that it is for.
    pub repositories: &'a RepositoryPrefix,
    /// The scope in which it is kept.
    pub from: &'a VariableScope,
    /// As whom the job reads, if it does so by its own identity.
    pub identity: Option<&'a str>,
    /// Why there is no proof, if there is none.
    pub missing: Option<&'a NoToken>,
}

impl GitAccess {
    /// Prepares the credentials of a job. For an installation of a GitHub App it gets a token, and at clouds it signs in.
    pub async fn prepare(job: &Job, workspace: &Workspace, api: &ApiConnection) -> Self {
        let of_definition =
            job.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let kept = job.variables.iter().filter_map(JobVariable::environment);
        let job_environment =
            of_definition.chain(kept).map(|(name, value)| (name.into(), value.into())).collect();
        let (folder, project_flag) = (workspace.git(), format!(" --project {}", job.project_id));
        let mut access = Self { folder, job_environment, project_flag, ..Self::default() };
        let mut identities = Identities::new(job, api);
        for JobGitCredential { repositories, secret, from } in &job.git_credentials {
            let found = access.proof(repositories, secret, &mut identities).await;
            let (proof, identity) = found.unwrap_or_else(|missing| (Proof::Missing(missing), None));
            let (repositories, from) = (repositories.clone(), from.clone());
            access.all.push(Ready { repositories, from, identity, proof });
        }
        // git ignores a setting after one that it found for a longer address.
        access.all.sort_by_key(|one| Reverse(one.repositories.depth()));
        access
    }

    /// The proof for `secret`; and as whom, if it is the job's own identity.
    async fn proof(
        &mut self,
        repositories: &RepositoryPrefix,
        secret: &GitSecret,
        identities: &mut Identities<'_>,
    ) -> Result<(Proof, Option<String>), NoToken> {
        let proof = match secret {
            GitSecret::Token { username, token } => self.basic(username, token.expose()),
            GitSecret::SshKey { private_key, known_hosts } => {
                self.secrets.push(private_key.expose().to_owned().into());
                let private = private_key.expose().to_owned().into();
                Proof::Key { private, known_hosts: known_hosts.clone() }
            }
            GitSecret::GithubApp { app_id, installation_id, private_key } => {
                self.secrets.push(private_key.expose().to_owned().into());
                let key = private_key.expose();
                let token = github_app::token(repositories, app_id, *installation_id, key).await?;
                self.basic("x-access-token", token.expose_secret())
            }
            GitSecret::CloudIdentity { cloud: Cloud::Aws } => {
                let (SignedIn { proof: keys, identity }, region) =
                    identities.aws(repositories).await?;
                self.secrets.extend(keys.secrets().map(|secret| secret.to_owned().into()));
                self.aws = Some(keys);
                return Ok((Proof::Signature { region }, Some(identity)));
            }
            GitSecret::CloudIdentity { cloud: Cloud::Azure } => {
                let SignedIn { proof: token, identity } = identities.azure().await?;
                let header = format!("Authorization: Bearer {}", token.expose_secret());
                self.secrets.push(token);
                return Ok((Proof::Header(header.into()), Some(identity)));
            }
        };
        Ok((proof, None))
    }

    fn basic(&mut self, username: &str, token: &str) -> Proof {
        let pair = STANDARD.encode(format!("{username}:{token}"));
        self.secrets.extend([token.to_owned().into(), pair.clone().into()]);
        Proof::Header(format!("Authorization: Basic {pair}").into())
    }

    /// Whether the job has no credentials.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The environment variables that the organization and the runner's definition set for the job, the nearest last.
    pub fn job_environment(&self) -> &[(OsString, OsString)] {
        &self.job_environment
    }

    /// What to do if `failure`, of the fetch of child modules, is one of access.
    pub fn hint(&self, failure: &str) -> Option<String> {
        if !is_of_access(failure) {
            return None;
        }
        let kept: Vec<_> = self.all.iter().map(Ready::description).collect();
        Some(if kept.is_empty() {
            let flag = &self.project_flag;
            format!(
                "no git credential is kept for the job: set one with `canyon set git-credential{flag} ADDRESS`"
            )
        } else {
            format!(
                "the job has git credentials for {}: check that one covers the repository, is valid and may read it",
                kept.join(", ")
            )
        })
    }

    /// What must not be printed.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(ExposeSecret::expose_secret)
    }

    /// Why tokens are missing, for the log.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.all.iter().filter_map(|one| match &one.proof {
            Proof::Missing(missing) => Some(format!(
                "the git credential for `{}` of {} gives no token: {}",
                one.repositories, one.from, missing.reason
            )),
            Proof::Header(_) | Proof::Key { .. } | Proof::Signature { .. } => None,
        })
    }

    /// The credential that covers the repository at `address`.
    pub fn covering(&self, address: &str) -> Option<Covering<'_>> {
        let url = Url::parse(address).ok()?;
        let transport = match url.scheme() {
            "https" => Transport::Https,
            "ssh" => Transport::Ssh,
            _ => return None,
        };
        let port = url.port().unwrap_or_else(|| transport.default_port());
        let host = url.host_str()?.trim_matches(['[', ']']);
        let covers = |one: &&Ready| one.repositories.covers(transport, host, port, url.path());
        self.all.iter().find(covers).map(|Ready { repositories, from, identity, proof }| Covering {
            repositories,
            from,
            identity: identity.as_deref(),
            missing: match proof {
                Proof::Missing(missing) => Some(missing),
                Proof::Header(_) | Proof::Key { .. } | Proof::Signature { .. } => None,
            },
        })
    }

    /// Writes the keys. Call it before git or OpenTofu starts.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn write_keys(&self) -> io::Result<()> {
        if let Some(keys) = &self.aws {
            self.make_folder()?;
            let addresses = self.all.iter().map(Ready::address).collect();
            let settings = code_commit::Settings { keys: keys.clone(), addresses };
            write(&self.code_commit_settings(), &serde_json::to_string(&settings)?)?;
        }
        let mut keys = Vec::new();
        for one in &self.all {
            let Proof::Key { private, known_hosts } = &one.proof else { continue };
            let number = keys.len();
            if number == 0 {
                self.make_folder()?;
            }
            let key = self.folder.join(format!("key-{number}"));
            let hosts = self.folder.join(format!("known_hosts-{number}"));
            // ssh refuses a key whose last line has no end.
            write(&key, &format!("{}\n", private.expose_secret().trim_end()))?;
            write(&hosts, known_hosts)?;
            keys.push(SshKey { repositories: one.repositories.clone(), key, known_hosts: hosts });
        }
        if keys.is_empty() { Ok(()) } else { write(&self.ssh_settings(), &ssh::to_text(&keys)?) }
    }

    /// The variables by which git finds the credentials in the folder `module` of a module, in addition to `others`.
    pub fn variables_in(
        &self,
        module: &Path,
        others: &[(OsString, OsString)],
    ) -> Vec<(OsString, OsString)> {
        let mut variables = self.variables(others);
        // git looks into this folder nevertheless: the settings have `safe.bareRepository`, and `source` removes `.git`.
        let ceiling = module.parent().unwrap_or(module);
        variables.push(("GIT_CEILING_DIRECTORIES".into(), ceiling.into()));
        variables
    }

    /// The variables by which git finds the credentials, in addition to `others`.
    pub fn variables(&self, others: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let mut settings = Vec::new();
        for one in &self.all {
            let header = match &one.proof {
                Proof::Header(header) => header.expose_secret(),
                // Also not that of a credential with a shorter address.
                Proof::Signature { .. } => "",
                Proof::Key { .. } | Proof::Missing(_) => continue,
            };
            for address in spellings(&one.repositories) {
                settings.push((format!("http.{address}.extraHeader"), header.to_owned()));
                // git would send the header to where the server redirects, too.
                settings.push((format!("http.{address}.followRedirects"), "false".to_owned()));
            }
        }
        for one in &self.all {
            let Proof::Signature { .. } = &one.proof else { continue };
            for address in spellings(&one.repositories) {
                let mut set = |name: &str, value: String| {
                    settings.push((format!("credential.{address}.{name}"), value));
                };
                // Without those that others have set.
                set("helper", String::new());
                set("helper", code_commit::command(&self.code_commit_settings()));
                set("useHttpPath", "true".to_owned());
            }
        }
        let mut variables = Vec::new();
        if !self.all.is_empty() {
            settings.push(("safe.bareRepository".to_owned(), "explicit".to_owned()));
            let count = others.iter().rev().find(|(name, _)| name == "GIT_CONFIG_COUNT");
            let first =
                count.and_then(|(_, count)| count.to_str()?.parse().ok()).unwrap_or(0_usize);
            for (index, (name, value)) in (first..).zip(settings) {
                variables.push((format!("GIT_CONFIG_KEY_{index}").into(), name.into()));
                variables.push((format!("GIT_CONFIG_VALUE_{index}").into(), value.into()));
            }
            let count = first + variables.len() / 2;
            variables.push(("GIT_CONFIG_COUNT".into(), count.to_string().into()));
        }
        if self.all.iter().any(|one| matches!(one.proof, Proof::Key { .. })) {
            let command = ssh::command(&self.ssh_settings());
            variables.push(("GIT_SSH_COMMAND".into(), command.into()));
            // Without it git would first try which options the program understands.
            variables.push(("GIT_SSH_VARIANT".into(), "ssh".into()));
        }
        variables
    }

    /// Removes the keys. Call it before a program of the module starts.
    pub fn remove_keys(&self) {
        // If it cannot be removed, the job's folder goes with the job.
        fs::remove_dir_all(&self.folder).ok();
    }

    fn ssh_settings(&self) -> PathBuf {
        self.folder.join("ssh.json")
    }

    fn code_commit_settings(&self) -> PathBuf {
        self.folder.join("code_commit.json")
    }

    fn make_folder(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)
    }
}

impl Ready {
    /// What it is for and as whom, or why it is of no use.
    fn description(&self) -> String {
        let Self { repositories, identity, proof, .. } = self;
        match (proof, identity) {
            (Proof::Missing(missing), _) => {
                format!("`{repositories}` (which gives no token: {})", missing.reason)
            }
            (_, Some(identity)) => format!("`{repositories}` (as {identity})"),
            (_, None) => format!("`{repositories}`"),
        }
    }

    fn address(&self) -> Address {
        let region = match &self.proof {
            Proof::Signature { region } => Some(region.clone()),
            Proof::Header(_) | Proof::Key { .. } | Proof::Missing(_) => None,
        };
        Address { repositories: self.repositories.clone(), region }
    }
}

/// Whether git or ssh failed because the server does not know the caller, or ssh does not know the server.
pub fn is_of_access(failure: &str) -> bool {
    // How git itself says that a server answers 404.
    let is_gone = failure.contains("repository '") && failure.contains("' not found");
    is_gone || NOT_PERMITTED.iter().any(|sign| failure.contains(sign))
}

/// The spellings of an address that cover the same repositories: git takes `net` and `net.git` for two.
fn spellings(repositories: &RepositoryPrefix) -> Vec<String> {
    let address = repositories.to_string();
    let other = (repositories.depth() > 0).then(|| format!("{address}.git"));
    std::iter::once(address).chain(other).collect()
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    // ssh refuses a key that others may read.
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file?.write_all(text.as_bytes())
}
