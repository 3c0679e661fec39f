//! Endpoints for users who manage agents.

use super::body::{Body, Params};
use super::caller::{Admin, Ids, Viewer};
use super::error::ApiError;
use super::list_query::ListQuery;
use super::paging;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use crate::App;
use crate::app::agent_proofs::key_of;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::agent::{AdoptQuery, AgentQuery, AgentUpdateBody, AgentView, SessionView};
use canyon_api::page::{Page, PageQuery};
use canyon_domain::agent::{
    Adoption, Agent, AgentIdentity, Session, invalid_labels_reason, outdated_program_warning,
};
use canyon_domain::ids::AgentId;
use canyon_identity::agent_key::AgentKey;
use canyon_store::outcome::Deleted;
use jiff::Timestamp;

pub(super) fn routes() -> Routes<App> {
    routes![list, get, update, forget, adopt, reject]
}

/// List the agents.
#[utoipa::path(get, path = "/orgs/{orgId}/agents", tag = "Agent", operation_id = "listAgents",
    params(
        PageQuery,
        AgentQuery,
    ),
    responses((status = 200, description = "A page of the list.", body = Page<AgentView>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Viewer,
    ListQuery { filter: query, page }: ListQuery<AgentQuery>,
) -> Result<Json<Page<AgentView>>, ApiError> {
    let name = format!("agents?{}", query.state.map_or("", Adoption::as_str));
    let request = paging::request(&page, &name)?;
    let wanted = |agent: &Agent| query.state.is_none_or(|state| agent.adoption == state);
    let found = app.agents_of(&caller, wanted, &request).await?;
    let now = app.now();
    Ok(Json(paging::answer(found, &name, |agent| render(agent, now))))
}

/// Read an agent.
#[utoipa::path(get, path = "/orgs/{orgId}/agents/{agentId}", tag = "Agent", operation_id = "getAgent",
    responses((status = 200, description = "The agent.", body = AgentView), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, id)): Ids<(String, AgentId)>,
) -> Result<Json<AgentView>, ApiError> {
    Ok(Json(render(app.agent(&caller, &id).await?, app.now())))
}

/// Change an agent: stop giving it work, or change its labels.
#[utoipa::path(patch, path = "/orgs/{orgId}/agents/{agentId}", tag = "Agent",
    operation_id = "updateAgent",
    request_body = AgentUpdateBody,
    responses((status = 200, description = "Changed.", body = AgentView), OfWrite))]
async fn update(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, AgentId)>,
    body: Body<AgentUpdateBody>,
) -> Result<Json<AgentView>, ApiError> {
    if let Some(fault) = body.value.labels.as_ref().and_then(invalid_labels_reason) {
        return Err(ApiError::field("labels", fault));
    }
    let agent = app.update_agent(&caller, &id, &body.value).await?;
    Ok(Json(render(agent, app.now())))
}

/// Forget an agent. Its session ends, and it must be adopted again.
#[utoipa::path(delete, path = "/orgs/{orgId}/agents/{agentId}", tag = "Agent",
    operation_id = "forgetAgent",
    responses((status = 204, description = "The agent is forgotten."), OfAction))]
async fn forget(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, AgentId)>,
) -> Result<StatusCode, ApiError> {
    match app.forget_agent(&caller, &id).await? {
        Deleted::Yes => Ok(StatusCode::NO_CONTENT),
        Deleted::No => Err(ApiError::not_found("agent", id)),
    }
}

/// Adopt an agent: it may work from now on.
#[utoipa::path(post, path = "/orgs/{orgId}/agents/{agentId}/actions/adopt", tag = "Agent",
    operation_id = "adoptAgent",
    params(AdoptQuery),
    responses((status = 200, description = "The agent is adopted.", body = AgentView), OfAction))]
async fn adopt(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, AgentId)>,
    Params(query): Params<AdoptQuery>,
) -> Result<Json<AgentView>, ApiError> {
    let agent = app.adopt_agent(&caller, &id, query.fingerprint.as_deref()).await?;
    Ok(Json(render(agent, app.now())))
}

/// Reject an agent: it gets no work, and its key or token is refused under this name.
#[utoipa::path(post, path = "/orgs/{orgId}/agents/{agentId}/actions/reject", tag = "Agent",
    operation_id = "rejectAgent",
    responses((status = 200, description = "The agent is rejected.", body = AgentView), OfAction))]
async fn reject(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, AgentId)>,
) -> Result<Json<AgentView>, ApiError> {
    let agent = app.reject_agent(&caller, &id).await?;
    Ok(Json(render(agent, app.now())))
}

fn render(of: Agent, now: Timestamp) -> AgentView {
    let availability = match of.live_session(now) {
        None => "offline",
        Some(session) if session.draining => "draining",
        Some(session) if session.running > 0 => "busy",
        Some(_) => "idle",
    };
    let fingerprint = key_of(&of).map(AgentKey::fingerprint);
    let principal = match &of.identity {
        AgentIdentity::Key { .. } => None,
        AgentIdentity::Token { principal } => Some(principal.to_string()),
    };
    AgentView {
        state: of.adoption,
        availability: availability.to_owned(),
        run_untagged_jobs: of.takes_untagged_jobs(),
        confined_to_labels: of.is_confined_to_labels(),
        labels: of.labels,
        runner_id: of.runner.map(String::from),
        disabled: of.disabled,
        reserved: of.reserved,
        shared: of.shared,
        fingerprint,
        principal,
        created_at: of.created_at,
        asked_from: of.asked_from,
        session: of.session.map(session),
        id: of.id.into(),
    }
}

fn session(of: Session) -> SessionView {
    SessionView {
        number: of.number,
        opened_at: of.opened_at,
        last_seen: of.last_seen,
        warnings: outdated_program_warning(&of.program, env!("CARGO_PKG_VERSION"))
            .into_iter()
            .collect(),
        version: of.program,
        protocol: of.protocol,
        serves: of.serves.into_iter().map(|kind| kind.to_string()).collect(),
        place: of.platform_id,
        concurrency: of.concurrency,
        running: of.running,
        last_error: of.last_error,
    }
}
