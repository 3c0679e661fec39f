//! Deployments: create, watch, cancel.

use super::body::{Body, Params};
use super::caller::{Ids, Member};
use super::error::ApiError;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use super::{deployment_diffs, fields, paging, parameters, render};
use crate::App;
use crate::app::deploy::Idempotency;
use crate::app::deployment_request;
use axum::Json;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use canyon_api::deployment::{
    Deployment, DeploymentCreateBody, DeploymentDryRun, DeploymentQuery, IDEMPOTENCY_KEY, WaitQuery,
};
use canyon_api::error::ErrorBody;
use canyon_api::page::{Page, PageQuery};
use canyon_domain::deployment::{self, Status};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{DeploymentId, EnvId, ProjectId};
use canyon_domain::job::Bundle;
use canyon_domain::principal::CallerId;
use canyon_domain::resource_name::ResourceName;
use canyon_domain::run_kind::RunKind;
use canyon_store::deployment_lists::DeploymentFilter;
use canyon_store::deployment_search::DeploymentSearch;
use jiff::SignedDuration;
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// The longest wait of a request in seconds: API Gateway ends a request after 29 s.
pub(super) const MAX_WAIT: u32 = 25;

/// The longest request to deploy: a container job has files of 1 MiB, and base64 makes more of some.
const MAX_REQUEST: usize = 2 * 1024 * 1024;

pub(super) fn routes() -> Routes<App> {
    routes![list, create]
        .layer(DefaultBodyLimit::max(MAX_REQUEST))
        .merge(routes![get, wait, cancel])
}

/// Request a deployment.
#[utoipa::path(post, path = "/orgs/{orgId}/deployments", tag = "Deployment",
    operation_id = "createDeployment",
    params(
        ("Idempotency-Key" = Option<String>, Header, max_length = 255,
         description = "The same key with the same body finds the same deployment for 24 hours. Keys belong to the \
caller: the same key of another token, or of another holder of one service account, is another key."),
    ),
    request_body = DeploymentCreateBody,
    responses(
        (status = 200, description = "A dry run: the deployment would be accepted.", body = DeploymentDryRun),
        (status = 201, description = "The deployment is accepted, and will reach an end.", body = Deployment),
        OfWrite,
    ))]
async fn create(
    State(app): State<App>,
    caller: Member,
    headers: HeaderMap,
    body: Body<DeploymentCreateBody>,
) -> Result<Response, ApiError> {
    let idempotency = idempotency(caller.caller(), &headers, &body)?;
    let dry_run = body.value.is_dry_run;
    let order = deployment_request::parse(body.value)?;
    if dry_run {
        let (runner, diff) = app.check_deployment_request(&caller, &order).await?;
        let answer =
            DeploymentDryRun { runner_id: runner.into(), diff: deployment_diffs::render(diff) };
        return Ok((StatusCode::OK, Json(answer)).into_response());
    }
    let deployment = app.deploy(&caller, &order, idempotency.as_ref()).await?;
    let answer = render::deployment(&caller.org_id, &deployment, None);
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

fn idempotency(
    of: CallerId,
    headers: &HeaderMap,
    body: &Body<DeploymentCreateBody>,
) -> Result<Option<Idempotency>, ApiError> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = key.to_str().ok().map(str::trim).filter(|key| (1..=255).contains(&key.len()));
    let key = key.ok_or_else(|| {
        ApiError::field("Idempotency-Key", "it has 1 to 255 printable ASCII characters")
    })?;
    let body = hex::encode(Sha256::digest(&body.bytes));
    let life = SignedDuration::from_hours(24);
    Ok(Some(Idempotency { of, key: key.to_owned(), body, life }))
}

/// List deployments, newest first. If the caller may read only some of them, a page may have fewer entries than
/// requested, or none, although another page follows. So it may with filters, of which `status=failed`, `status=cancelled` and
/// those of deployments that have not ended cost the same however many deployments there are.
#[utoipa::path(get, path = "/orgs/{orgId}/deployments", tag = "Deployment",
    operation_id = "listDeployments",
    params(DeploymentQuery, PageQuery),
    responses(
        (status = 200, description = "A page of the list.", body = Page<Deployment>),
        OfList,
    ))]
async fn list(
    State(app): State<App>,
    caller: Member,
    Params(given): Params<Vec<(String, String)>>,
    Params(query): Params<DeploymentQuery>,
    Params(page): Params<PageQuery>,
) -> Result<Json<Page<Deployment>>, ApiError> {
    let mut faults = parameters::unknown::<DeploymentQuery>(&given);
    let asked = Asked::parse(&query, &mut faults);
    faults.into_result(())?;
    let name = format!("deployments?{}", asked.name(&query));
    let request = paging::request_of_visible(&app, caller.org, &page, &name).await?;
    let nothing = || Ok(Json(Page { items: Vec::new(), next_page_token: None }));
    if asked.project.as_ref().is_some_and(|project| !caller.sees_project(project)) {
        return nothing();
    }
    let is_of_checks = asked.kind == Some(RunKind::Drift);
    let scope = match (asked.project, asked.env) {
        (None, _) => DeploymentFilter::All,
        (Some(project), None) => DeploymentFilter::Project(project),
        (Some(project), Some(env)) => {
            match app.readable_environment(&caller, &project, &env).await? {
                Some(found) if is_of_checks => DeploymentFilter::Checks(found.uuid),
                Some(found) => DeploymentFilter::Environment(found.uuid),
                None => return nothing(),
            }
        }
    };
    let (status, kind, resource) = (asked.status, asked.kind, asked.resource);
    let (ended, since) = (query.ended, query.since);
    let search =
        DeploymentSearch { status, ended, kind, resource, since, ..DeploymentSearch::of(scope) };
    let found = app.readable_deployments(&caller, search, request).await?;
    let names = app.names(&caller, found.items.iter().map(|found| found.created_by)).await?;
    let rights = app.review_rights(&caller, &found.items).await?;
    let render = |of: deployment::Deployment| {
        let mut shown = render::summary(&caller.org_id, &of);
        shown.created_by_name = names.of(of.created_by);
        render::say_who_may_approve(&mut shown, rights.may_approve(&of));
        shown
    };
    paging::answer_visible(&app, caller.org, found, &name, render).await.map(Json)
}

/// The filters of a list, parsed.
struct Asked {
    project: Option<ProjectId>,
    env: Option<EnvId>,
    status: Option<Status>,
    kind: Option<RunKind>,
    resource: Option<ResourceName>,
}

impl Asked {
    fn parse(query: &DeploymentQuery, faults: &mut FieldErrors) -> Self {
        if query.env_id.is_some() && query.project_id.is_none() {
            faults.add("env_id", "give its `project_id` too");
        }
        if query.resource.is_some() && query.env_id.is_none() {
            faults.add("resource", "give its `env_id` too");
        }
        if query.mode.as_deref() == Some(RunKind::Drift.as_str()) && query.env_id.is_none() {
            faults.add(
                "mode",
                "`drift` needs `env_id` too: each environment has a list of its checks",
            );
        }
        let project = query.project_id.as_deref();
        let env = query.env_id.as_deref();
        Self {
            project: project.and_then(|text| fields::id(faults, "project_id", text)),
            env: env.and_then(|text| fields::id(faults, "env_id", text)),
            status: query.status.as_deref().and_then(|text| {
                parameters::one_of(faults, "status", text, &Status::ALL, Status::as_str)
            }),
            kind: query.mode.as_deref().and_then(|text| {
                parameters::one_of(faults, "mode", text, &RunKind::ALL, RunKind::as_str)
            }),
            resource: query.resource.as_deref().and_then(|text| {
                let read = text.parse::<ResourceName>();
                read.map_err(|error| faults.add("resource", error.to_string())).ok()
            }),
        }
    }

    /// The filters as text: a page token is good for the same ones only.
    fn name(&self, query: &DeploymentQuery) -> String {
        let text = |id: Option<&str>| id.unwrap_or_default().to_owned();
        let mut name = format!(
            "project={}&env={}",
            text(query.project_id.as_deref()),
            text(query.env_id.as_deref())
        );
        // Tokens of earlier versions have no more.
        let more = [
            ("status", self.status.map(|status| status.as_str().to_owned())),
            ("ended", query.ended.map(|ended| ended.to_string())),
            ("mode", self.kind.map(|kind| kind.as_str().to_owned())),
            ("resource", self.resource.as_ref().map(ToString::to_string)),
            ("since", query.since.map(|since| since.to_string())),
        ];
        for (filter, value) in more.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            name.extend(["&", filter, "=", value.as_str()]);
        }
        name
    }
}

/// Read a deployment.
#[utoipa::path(get, path = "/orgs/{orgId}/deployments/{deploymentId}", tag = "Deployment",
    operation_id = "getDeployment",
    responses((status = 200, description = "The deployment.", body = Deployment), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, DeploymentId)>,
) -> Result<Json<Deployment>, ApiError> {
    let (found, waiting) = app.deployment_and_wait(&caller, id).await?;
    let bundle = app.bundle_of(&caller, &found).await?;
    let state_command = bundle.as_ref().and_then(|bundle| bundle.state_command.as_ref());
    let state_command = state_command.map(ToString::to_string);
    let (module, container) = match bundle {
        Some(Bundle { container: Some(task), .. }) => {
            (None, Some(Box::new(render::container(&found, task.job))))
        }
        bundle => (bundle.map(|bundle| render::module(&found, bundle)), None),
    };
    let created_by_name = app.names(&caller, [found.created_by]).await?.of(found.created_by);
    let policy = app.policy_of(caller.org, &found).await?.map(Box::new);
    let rights = app.review_rights(&caller, std::slice::from_ref(&found)).await?;
    let mut answer = render::deployment(&caller.org_id, &found, waiting);
    render::say_who_may_approve(&mut answer, rights.may_approve(&found));
    Ok(Json(Deployment { module, container, state_command, created_by_name, policy, ..answer }))
}

/// Wait for the end of a deployment.
#[utoipa::path(get, path = "/orgs/{orgId}/deployments/{deploymentId}/actions/wait-for-complete",
    tag = "Deployment", operation_id = "waitForDeploymentComplete",
    params(WaitQuery),
    responses(
        (status = 200, description = "The deployment has ended.", body = Deployment),
        OfList,
        (status = 408, description = "The deployment has not ended yet: ask again.", body = ErrorBody),
    ))]
async fn wait(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, DeploymentId)>,
    Params(query): Params<WaitQuery>,
) -> Result<Json<Deployment>, ApiError> {
    let seconds = match query.timeout_in_seconds {
        Some(seconds) if seconds < 2 => {
            return Err(ApiError::field("timeout_in_seconds", "at least 2"));
        }
        given => given.unwrap_or(MAX_WAIT).min(MAX_WAIT),
    };
    let ended = app.wait_for_end(&caller, id, Duration::from_secs(seconds.into())).await?;
    let ended = ended.ok_or_else(|| {
        ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("deployment {id} has not ended yet; ask again"),
        )
    })?;
    Ok(Json(render::deployment(&caller.org_id, &ended, None)))
}

/// Cancel a deployment. If nothing runs, it ends at once; otherwise its job is stopped first.
#[utoipa::path(post, path = "/orgs/{orgId}/deployments/{deploymentId}/actions/cancel",
    tag = "Deployment", operation_id = "cancelDeployment",
    responses(
        (status = 202, description = "The deployment is being cancelled, or is cancelled.", body = Deployment),
        OfAction,
    ))]
async fn cancel(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, DeploymentId)>,
) -> Result<(StatusCode, Json<Deployment>), ApiError> {
    let deployment = app.cancel(&caller, id).await?;
    Ok((StatusCode::ACCEPTED, Json(render::deployment(&caller.org_id, &deployment, None))))
}
