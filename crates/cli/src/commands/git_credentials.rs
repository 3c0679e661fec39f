//! `canyon set git-credential`, `canyon unset git-credential` and `canyon list git-credentials`.

use crate::answer::json;
use crate::body::read_file_or_stdin;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::resource::{Kind, Resource};
use crate::retry::retry_contended;
use canyon_api::client::{Client, ClientError};
use canyon_api::git_credential::{
    CloudBody, GitCredentialBody, GitCredentials, GitCredentialsUpdateBody, GithubAppBody,
};
use canyon_domain::git_credentials::repository_prefix::{RepositoryPrefix, Transport};
use canyon_domain::secret_text::SecretText;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

pub(super) const SET_EXAMPLES: &str = "\
Examples:
  canyon set git-credential https://github.com/acme < token.txt
  canyon set git-credential --project shop https://gitlab.example.com/shop --token-file token.txt
  canyon set git-credential ssh://git.example.com --ssh-key id_ed25519 --known-hosts known_hosts
  canyon set git-credential https://github.com/acme --github-app 1234 --installation 5678 --private-key app.pem
  canyon set git-credential https://git-codecommit.eu-west-1.amazonaws.com --cloud-identity aws
  canyon set git-credential https://dev.azure.com/acme --cloud-identity azure";

const ADDRESS: &str = "The repositories: https://HOST[:PORT][/PATH] or ssh://HOST[:PORT][/PATH]; the longest address that \
                       covers a repository counts";

const CLOUD_IDENTITY: &str = "The job reads with its own identity at this cloud, and nothing is kept: `aws` for CodeCommit, \
                              `azure` for Azure Repos";

#[derive(Debug, clap::Args)]
pub(super) struct Set {
    /// For the jobs of this project, or of the projects of this group; else for all of the organization
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// File with the token or password, `-` for stdin. Without it and the options below, canyon asks for the token
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ssh_key", "github_app", "cloud_identity"])]
    token_file: Option<PathBuf>,
    /// User name for the token [default: x-access-token, which GitHub requires and GitLab accepts]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ssh_key", "github_app", "cloud_identity"])]
    username: Option<String>,
    /// File with a private key without a passphrase, in the format of OpenSSH
    #[arg(long, value_name = "FILE", requires = "known_hosts", conflicts_with_all = ["github_app", "cloud_identity"])]
    ssh_key: Option<PathBuf>,
    /// File with the keys of the host, as `ssh-keyscan HOST` prints them; compare them with those that the host publishes
    #[arg(long, value_name = "FILE", requires = "ssh_key")]
    known_hosts: Option<PathBuf>,
    /// Id or client id of a GitHub App, of which each job gets a token that may only read and that expires in an hour
    #[arg(long, value_name = "ID", requires_all = ["installation", "private_key"], conflicts_with = "cloud_identity")]
    github_app: Option<String>,
    /// Id of the app's installation
    #[arg(long, value_name = "ID", requires = "github_app")]
    installation: Option<u64>,
    /// File with the app's private key
    #[arg(long, value_name = "FILE", requires = "github_app")]
    private_key: Option<PathBuf>,
    #[arg(long, value_name = "CLOUD", help = CLOUD_IDENTITY)]
    cloud_identity: Option<CloudName>,
    /// Purpose, for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    #[arg(value_name = "ADDRESS", help = ADDRESS)]
    address: String,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum CloudName {
    Aws,
    Azure,
}

#[derive(Debug, clap::Args)]
pub(super) struct Unset {
    /// Of this project or group; else of the organization
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// Their addresses
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Those that jobs of this project get: its own, those of its groups and those of the organization
    #[arg(long, value_name = "ID")]
    project: Option<String>,
}

pub(super) async fn set(given: Set, client: &Client, output: Output) -> Result<Exit, CliError> {
    let transport = if given.ssh_key.is_some() { Transport::Ssh } else { Transport::Https };
    let address = address(&given.address, Some(transport))?;
    let mut body = GitCredentialBody { description: given.description, ..Default::default() };
    if let (Some(key), Some(hosts)) = (&given.ssh_key, &given.known_hosts) {
        body.ssh_key = Some(read_file_or_stdin(key)?.into());
        body.known_hosts = Some(read_file_or_stdin(hosts)?);
    } else if let (Some(app_id), Some(installation_id), Some(key)) =
        (given.github_app, given.installation, &given.private_key)
    {
        let private_key = read_file_or_stdin(key)?.into();
        body.github_app = Some(GithubAppBody { app_id, installation_id, private_key });
    } else if let Some(cloud) = given.cloud_identity {
        body.cloud_identity = Some(match cloud {
            CloudName::Aws => CloudBody::Aws,
            CloudName::Azure => CloudBody::Azure,
        });
    } else if given.token_file.is_some() || given.username.is_some() || body.description.is_none() {
        body.token = Some(token(given.token_file.as_deref())?);
        body.username = given.username;
    }
    let edits = BTreeMap::from([(address.to_string(), Some(body))]);
    let body = GitCredentialsUpdateBody { credentials: edits };
    let project = given.project.as_deref();
    let update = async || client.update_git_credentials(project, &body).await;
    let mut changed = match retry_contended(update).await {
        Ok(changed) => changed,
        Err(error) => return Err(explain(project, client, error).await),
    };
    output.notice(&format!("set the git credential for {address} of {}", changed.scope));
    changed.credentials.retain(|other, _| *other == address.to_string());
    show(vec![changed], output)
}

pub(super) async fn unset(given: Unset, client: &Client, output: Output) -> Result<Exit, CliError> {
    let project = given.project.as_deref();
    let known = match client.git_credentials(project).await {
        Ok(known) => known,
        Err(error) => return Err(explain(project, client, error).await),
    };
    let mut credentials = BTreeMap::new();
    for text in &given.addresses {
        let address = address(text, None)?.to_string();
        if !known.credentials.contains_key(&address) {
            let scope = project.map_or_else(String::new, |project| format!(" --project {project}"));
            return Err(CliError::usage_with_hint(
                format!("{} has no git credential for {address}", known.scope),
                format!("list them: canyon list git-credentials{scope}"),
            ));
        }
        credentials.insert(address, None);
    }
    let names = credentials.keys().cloned().collect::<Vec<_>>().join(", ");
    let body = GitCredentialsUpdateBody { credentials };
    let update = async || client.update_git_credentials(project, &body).await;
    retry_contended(update).await?;
    output.notice(&format!("removed the git credential for {names} of {}", known.scope));
    Ok(Exit::Ok)
}

/// Lists the credentials of the organization; or those that jobs of a project get, each with its scope.
pub(crate) async fn list(given: &List, client: &Client, output: Output) -> Result<Exit, CliError> {
    let mut found = match client.git_credentials(None).await {
        // Who has a role in the project alone sees what the project has.
        Err(error) if given.project.is_some() && error.status() == Some(403) => Vec::new(),
        of_organization => vec![of_organization?],
    };
    if let Some(project) = &given.project {
        let ends = project.match_indices('/').map(|(at, _)| at).chain([project.len()]);
        for end in ends {
            match client.git_credentials(Some(&project[..end])).await {
                Err(error) if end < project.len() && matches!(error.status(), Some(403 | 404)) => {}
                Ok(of_project) => found.push(of_project),
                Err(error) => return Err(explain(Some(project), client, error).await),
            }
        }
    }
    show(found, output)
}

/// Adds the most similar project to a 404.
async fn explain(project: Option<&str>, client: &Client, error: ClientError) -> CliError {
    match project {
        Some(id) => Resource::new(Kind::Project, id.to_owned()).explain(client, error).await,
        None => error.into(),
    }
}

fn show(found: Vec<GitCredentials>, output: Output) -> Result<Exit, CliError> {
    let mut rows = Vec::new();
    for GitCredentials { scope, credentials } in found {
        for (address, credential) in credentials {
            let mut row = json(&credential)?;
            let app = credential.app_id.map(|app| format!("app {app}"));
            let is = credential.username.or(credential.fingerprint).or(app);
            let is = is.or(credential.cloud_identity);
            row["scope"] = json!(scope);
            row["repositories"] = json!(address);
            if output.format == Format::Table {
                row["is"] = json!(is);
            }
            rows.push(row);
        }
    }
    output.list(rows, &["repositories", "scope", "type", "is", "description", "updated_at"])?;
    Ok(Exit::Ok)
}

/// The address of repositories, in full or in a short form of git: `HOST/PATH` and `git@HOST:PATH`.
fn address(text: &str, transport: Option<Transport>) -> Result<RepositoryPrefix, CliError> {
    let full = if text.contains("://") {
        text.to_owned()
    } else if let Some((host, path)) =
        text.strip_prefix("git@").and_then(|rest| rest.split_once(':'))
    {
        format!("ssh://{host}/{path}")
    } else {
        let transport = transport.unwrap_or(Transport::Https);
        format!("{}://{text}", transport.scheme())
    };
    full.parse().map_err(|error| CliError::usage(format!("ADDRESS {error}")))
}

fn token(file: Option<&Path>) -> Result<SecretText, CliError> {
    let text = match file {
        Some(file) => read_file_or_stdin(file)?,
        None if io::stdin().is_terminal() => rpassword::prompt_password("token: ")
            .map_err(|source| CliError::file("read", Path::new("stdin"), source))?,
        None => read_file_or_stdin(Path::new("-"))?,
    };
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(CliError::usage_with_hint(
            "the token is empty",
            "give it on stdin, or give --token-file, --ssh-key, --github-app or --cloud-identity",
        ));
    }
    Ok(text.to_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_of_git_are_written_out() {
        for (text, transport, expected) in [
            ("github.com/acme", Transport::Https, "https://github.com/acme"),
            ("git.example.com:2222", Transport::Ssh, "ssh://git.example.com:2222"),
            ("git@github.com:acme/net.git", Transport::Ssh, "ssh://github.com/acme/net"),
            ("https://github.com/", Transport::Ssh, "https://github.com"),
        ] {
            assert_eq!(address(text, Some(transport)).unwrap().to_string(), expected);
        }
        let error = address("https://user:hunter2@h", None).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
