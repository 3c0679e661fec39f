//! The endpoint that a remote runner polls, by the published protocol.

use super::access::note_organization;
use super::body::Params;
use super::caller::{Ids, bearer};
use super::error::ApiError;
use super::routing::{Routes, routes};
use crate::App;
use crate::app::remote_runners::{PollResult, RemoteRunner};
use crate::app::shared_waits::THROTTLED_PAUSE;
use axum::Json;
use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::http::header::RETRY_AFTER;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use canyon_api::agent::MAX_WAIT_SECONDS;
use canyon_api::error::ErrorBody;
use canyon_api::remote_runner::{PollRequestsQuery, RemoteRunnerMessage};
use std::time::Duration;

pub(super) fn routes() -> Routes<App> {
    routes![poll]
}

impl FromRequestParts<App> for RemoteRunner {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let token = bearer(parts).unwrap_or_default().to_owned();
        let params = RawPathParams::from_request_parts(parts, app).await;
        let params = params.map_err(|_| ApiError::not_an_id())?;
        let named = |wanted: &str| {
            let found = params.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| value.to_owned()).ok_or_else(ApiError::not_an_id)
        };
        let runner = app.remote_runner(&named("orgId")?, &named("runnerId")?, &token).await?;
        note_organization(runner.org_id());
        Ok(runner)
    }
}

/// Wait for the next message for a remote runner. It needs a JWT that is signed with the private half of the runner's
/// `key`.
#[utoipa::path(post, path = "/orgs/{orgId}/remote-runners/{runnerId}/actions/poll-requests",
    tag = "RemoteRunnerMessages", operation_id = "waitForRemoteRunnerMessages",
    params(PollRequestsQuery),
    responses(
        (status = 200, description = "The message.", body = RemoteRunnerMessage),
        (status = 204, description = "No message; ask again, after `Retry-After` if that is present.",
            headers(("retry-after" = u64, description = "Seconds. The request did not wait, because too many \
                requests of the runner's key, or of agents of the organization, wait."))),
        (status = 400, description = "A parameter is invalid.", body = ErrorBody),
        (status = 401, description = "The token is invalid, for the reason in the message.", body = ErrorBody),
        (status = 403, description = "The agent with the runner's name was rejected.", body = ErrorBody),
        (status = 404, description = "The path names no organization or runner.", body = ErrorBody),
        (status = 409, description = "Another agent has the runner's name, or the runner has another type.",
         body = ErrorBody),
    ))]
async fn poll(
    State(app): State<App>,
    by: RemoteRunner,
    Ids((_, _)): Ids<(String, String)>,
    Params(query): Params<PollRequestsQuery>,
) -> Result<Response, ApiError> {
    let wait = query.wait_seconds.unwrap_or(MAX_WAIT_SECONDS);
    if wait > MAX_WAIT_SECONDS {
        return Err(ApiError::field("wait_seconds", format!("at most {MAX_WAIT_SECONDS}")));
    }
    // The future is large.
    let polled = Box::pin(app.poll_requests(&by, Duration::from_secs(wait.into()))).await?;
    Ok(match polled {
        PollResult::Message(message) => Json(message).into_response(),
        PollResult::Nothing => StatusCode::NO_CONTENT.into_response(),
        PollResult::Throttled => {
            let later = HeaderValue::from(THROTTLED_PAUSE.as_secs());
            (StatusCode::NO_CONTENT, [(RETRY_AFTER, later)]).into_response()
        }
    })
}
