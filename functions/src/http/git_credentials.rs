//! Credentials for git repositories, of the organization and of projects.

use super::body::Body;
use super::caller::{Admin, Ids, Member, Viewer};
use super::error::ApiError;
use super::refusals::{OfRead, OfWrite};
use super::routing::{Routes, routes};
use crate::App;
use axum::Json;
use axum::extract::State;
use canyon_api::git_credential::{
    CloudBody, GitCredential, GitCredentialBody, GitCredentials, GitCredentialsUpdateBody,
};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::git_credentials;
use canyon_domain::git_credentials::cloud::Cloud;
use canyon_domain::git_credentials::edit::{self, GitCredentialEdit, GithubApp};
use canyon_domain::git_credentials::secret::GitSecretKind;
use canyon_domain::ids::ProjectId;
use canyon_domain::principal::Principal;
use canyon_domain::variable_scope::VariableScope;

pub(super) fn routes() -> Routes<App> {
    routes![of_organization, update_of_organization, of_project, update_of_project]
}

/// Read the git credentials of the organization, which its jobs use for modules and their child modules. No answer has
/// a secret.
#[utoipa::path(get, path = "/orgs/{orgId}/git-credentials", tag = "Git credentials",
    operation_id = "getOrganizationGitCredentials",
    responses((status = 200, description = "The credentials.", body = GitCredentials), OfRead))]
async fn of_organization(
    State(app): State<App>,
    caller: Viewer,
) -> Result<Json<GitCredentials>, ApiError> {
    read(&app, &caller, VariableScope::Organization).await
}

/// Change git credentials of the organization. Jobs that have begun keep the credentials that they got.
#[utoipa::path(patch, path = "/orgs/{orgId}/git-credentials", tag = "Git credentials",
    operation_id = "updateOrganizationGitCredentials",
    request_body = GitCredentialsUpdateBody,
    responses((status = 200, description = "Changed.", body = GitCredentials), OfWrite))]
async fn update_of_organization(
    State(app): State<App>,
    caller: Admin,
    body: Body<GitCredentialsUpdateBody>,
) -> Result<Json<GitCredentials>, ApiError> {
    update(&app, &caller, VariableScope::Organization, body.value).await
}

/// Read the git credentials of a project, or of a group of projects.
#[utoipa::path(get, path = "/orgs/{orgId}/projects/{projectId}/git-credentials",
    tag = "Git credentials", operation_id = "getProjectGitCredentials",
    responses((status = 200, description = "The credentials.", body = GitCredentials), OfRead))]
async fn of_project(
    State(app): State<App>,
    caller: Member,
    Ids((_, project)): Ids<(String, ProjectId)>,
) -> Result<Json<GitCredentials>, ApiError> {
    read(&app, &caller, VariableScope::Project(project)).await
}

/// Change git credentials of a project, or of a group of projects. Jobs that have begun keep the credentials that they
/// got.
#[utoipa::path(patch, path = "/orgs/{orgId}/projects/{projectId}/git-credentials",
    tag = "Git credentials", operation_id = "updateProjectGitCredentials",
    request_body = GitCredentialsUpdateBody,
    responses((status = 200, description = "Changed.", body = GitCredentials), OfWrite))]
async fn update_of_project(
    State(app): State<App>,
    caller: Member,
    Ids((_, project)): Ids<(String, ProjectId)>,
    body: Body<GitCredentialsUpdateBody>,
) -> Result<Json<GitCredentials>, ApiError> {
    update(&app, &caller, VariableScope::Project(project), body.value).await
}

async fn read(
    app: &App,
    caller: &Principal,
    scope: VariableScope,
) -> Result<Json<GitCredentials>, ApiError> {
    let found = app.git_credentials(caller, &scope).await?;
    Ok(Json(render(&scope, found)))
}

async fn update(
    app: &App,
    caller: &Principal,
    scope: VariableScope,
    body: GitCredentialsUpdateBody,
) -> Result<Json<GitCredentials>, ApiError> {
    let mut faults = FieldErrors::default();
    if body.credentials.is_empty() {
        faults.add("credentials", "changes nothing: give a credential, or `null` to remove one");
    }
    let given = body.credentials.into_iter();
    let given = given.map(|(address, body)| (address, body.map(edit_of))).collect();
    // Jobs on this machine may read from a git server on it, too.
    let edits = edit::read(given, app.serves_local_runners, &mut faults);
    faults.into_result(())?;
    let changed = app.update_git_credentials(caller, &scope, &edits).await?;
    Ok(Json(render(&scope, changed)))
}

fn edit_of(body: GitCredentialBody) -> GitCredentialEdit {
    let GitCredentialBody {
        token,
        username,
        ssh_key,
        known_hosts,
        github_app,
        cloud_identity,
        description,
    } = body;
    let github_app = github_app.map(|app| GithubApp {
        app_id: app.app_id,
        installation_id: app.installation_id,
        private_key: app.private_key,
    });
    let cloud_identity = cloud_identity.map(|cloud| match cloud {
        CloudBody::Aws => Cloud::Aws,
        CloudBody::Azure => Cloud::Azure,
    });
    GitCredentialEdit {
        token,
        username,
        ssh_key,
        known_hosts,
        github_app,
        cloud_identity,
        description,
    }
}

fn render(scope: &VariableScope, found: git_credentials::GitCredentials) -> GitCredentials {
    let shown =
        found.into_iter().map(|(address, credential)| (address.to_string(), show(credential)));
    GitCredentials { scope: scope.to_string(), credentials: shown.collect() }
}

fn show(credential: git_credentials::GitCredential) -> GitCredential {
    let mut shown = GitCredential {
        kind: credential.kind.name().to_owned(),
        username: None,
        fingerprint: None,
        known_hosts: None,
        app_id: None,
        installation_id: None,
        cloud_identity: None,
        description: credential.description,
        updated_at: credential.updated_at,
        updated_by: credential.updated_by.0,
    };
    match credential.kind {
        GitSecretKind::Token { username } => shown.username = Some(username),
        GitSecretKind::SshKey { fingerprint, known_hosts } => {
            (shown.fingerprint, shown.known_hosts) = (Some(fingerprint), Some(known_hosts));
        }
        GitSecretKind::GithubApp { app_id, installation_id } => {
            (shown.app_id, shown.installation_id) = (Some(app_id), Some(installation_id));
        }
        GitSecretKind::CloudIdentity { cloud } => {
            shown.cloud_identity = Some(cloud.name().to_owned());
        }
    }
    shown
}
