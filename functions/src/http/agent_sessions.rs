//! The endpoints for agents: sessions, work and reports.

use super::body::Body;
use super::caller::Ids;
use super::error::ApiError;
use super::refusals::{OfAction, OfWrite};
use super::routing::{Routes, routes};
use crate::App;
use crate::app::agent_proofs::AgentRequest;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::agent::{
    MAX_WAIT_SECONDS, OpenSession, Poll, Reports, ReportsTaken, SessionOpened, TakeJobs, TakenJobs,
    Work,
};
use canyon_domain::agent::invalid_labels_reason;
use canyon_domain::agent_job::MAX_FOUND_JOBS;
use canyon_domain::field_error::FieldErrors;

/// The most jobs in one request.
const MAX_ITEMS: usize = 100;

pub(super) fn routes() -> Routes<App> {
    routes![open, close, poll, take, report]
}

/// Start a session of an agent. A newer session ends the older one.
#[utoipa::path(post, path = "/orgs/{orgId}/agents/{agentId}/sessions", tag = "Agent",
    operation_id = "openAgentSession",
    request_body = OpenSession,
    responses(
        (status = 201, description = "The session has started.", body = SessionOpened),
        (status = 202, description = "The agent may not work unless it is adopted; ask again. Every agent without a \
            valid token or runner key gets this answer, also if the organization does not exist.", body = SessionOpened),
        OfWrite,
    ))]
async fn open(
    State(app): State<App>,
    request: AgentRequest,
    body: Body<OpenSession>,
) -> Result<(StatusCode, Json<SessionOpened>), ApiError> {
    check(&body.value)?;
    let opened = app.answer_session_start(&request, &body.value).await?;
    let status = if opened.session.is_some() { StatusCode::CREATED } else { StatusCode::ACCEPTED };
    Ok((status, Json(opened)))
}

fn check(body: &OpenSession) -> Result<(), FieldErrors> {
    let mut faults = FieldErrors::default();
    let texts = [
        ("instance", &body.instance, 100),
        ("version", &body.version, 100),
        ("place", &body.platform_id, 300),
    ];
    for (path, text, most) in texts {
        if text.is_empty() || text.len() > most || text.contains(char::is_control) {
            faults.add(path, format!("has 1 to {most} characters, and no control characters"));
        }
    }
    if body.serves.is_empty() || body.serves.len() > 16 {
        faults.add("serves", "has 1 to 16 types of runners");
    }
    if !(1..=10_000).contains(&body.concurrency) {
        faults.add("concurrency", "is from 1 to 10000");
    }
    if let Some(fault) = invalid_labels_reason(&body.labels) {
        faults.add("labels", fault);
    }
    if body.found.len() > MAX_FOUND_JOBS {
        faults.add("found", format!("has at most {MAX_FOUND_JOBS} jobs"));
    }
    faults.into_result(())
}

/// End a session: its offers go to other agents at once.
#[utoipa::path(delete, path = "/orgs/{orgId}/agents/{agentId}/sessions/{number}", tag = "Agent",
    operation_id = "closeAgentSession",
    responses((status = 204, description = "The session has ended."), OfAction))]
async fn close(
    State(app): State<App>,
    request: AgentRequest,
    Ids((_, _, number)): Ids<(String, String, u64)>,
) -> Result<StatusCode, ApiError> {
    app.close_session(request.caller()?, number).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Poll for work. It is also a heartbeat.
#[utoipa::path(post, path = "/orgs/{orgId}/agents/{agentId}/sessions/{number}/poll", tag = "Agent",
    operation_id = "pollAgentWork",
    request_body = Poll,
    responses((status = 200, description = "The work.", body = Work), OfWrite))]
async fn poll(
    State(app): State<App>,
    request: AgentRequest,
    Ids((_, _, number)): Ids<(String, String, u64)>,
    body: Body<Poll>,
) -> Result<Json<Work>, ApiError> {
    let body = body.value;
    let mut faults = FieldErrors::default();
    if body.wait_seconds > MAX_WAIT_SECONDS {
        faults.add("wait_seconds", format!("at most {MAX_WAIT_SECONDS}"));
    }
    if body.last_error.as_ref().is_some_and(|error| error.chars().count() > 1_000) {
        faults.add("last_error", "has at most 1000 characters");
    }
    faults.into_result(())?;
    Ok(Json(app.poll(request.caller()?, number, &body).await?))
}

/// Take jobs that were offered. The agent may start only the jobs that the answer lists as taken.
#[utoipa::path(post, path = "/orgs/{orgId}/agents/{agentId}/sessions/{number}/take", tag = "Agent",
    operation_id = "takeAgentJobs",
    request_body = TakeJobs,
    responses((status = 200, description = "The jobs to start.", body = TakenJobs), OfWrite))]
async fn take(
    State(app): State<App>,
    request: AgentRequest,
    Ids((_, _, number)): Ids<(String, String, u64)>,
    body: Body<TakeJobs>,
) -> Result<Json<TakenJobs>, ApiError> {
    let jobs = body.value.jobs;
    few("jobs", jobs.len())?;
    Ok(Json(app.take_jobs(request.caller()?, number, &jobs).await?))
}

/// Report on jobs. Each report may be repeated.
#[utoipa::path(post, path = "/orgs/{orgId}/agents/{agentId}/sessions/{number}/reports", tag = "Agent",
    operation_id = "reportAgentJobs",
    request_body = Reports,
    responses((status = 200, description = "Recorded, except for the listed reports.", body = ReportsTaken), OfWrite))]
async fn report(
    State(app): State<App>,
    request: AgentRequest,
    Ids((_, _, number)): Ids<(String, String, u64)>,
    body: Body<Reports>,
) -> Result<Json<ReportsTaken>, ApiError> {
    let reports = body.value.reports;
    few("reports", reports.len())?;
    let handle = |report: &_| {
        let canyon_api::agent::JobReport { handle, .. } = report;
        handle.as_ref().is_some_and(|handle| handle.len() > 1_000)
    };
    if let Some(at) = reports.iter().position(handle) {
        return Err(ApiError::field(format!("reports[{at}].handle"), "has at most 1000 bytes"));
    }
    Ok(Json(app.take_reports(request.caller()?, number, &reports).await?))
}

fn few(path: &str, count: usize) -> Result<(), ApiError> {
    if count > MAX_ITEMS {
        return Err(ApiError::field(path, format!("has at most {MAX_ITEMS} entries")));
    }
    Ok(())
}
