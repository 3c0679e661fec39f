//! The endpoints for runners, with the claim code or token of their attempt.

use super::body::Body;
use super::caller::{Ids, presented};
use super::error::ApiError;
use super::refusals::{OfRun, OfRunRead};
use super::routing::{Routes, routes};
use crate::App;
use crate::app::{RunToken, Source, foreign_path};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Json, extract::DefaultBodyLimit};
use canyon_api::archive::GZIP;
use canyon_api::attempt::{
    ANSWER_OF, ClaimBody, Claimed, DEPLOYMENT_TOKEN, DeploymentResultsUpdateBody, ENVIRONMENT_OF,
    JOB_FORMAT, RESULT_OF, ReportAnswer, ReportBody, result_of,
};
use canyon_domain::attempt::SecretHash;
use canyon_domain::claimant::Claimant;
use canyon_domain::ids::{DeploymentId, EnvId, ProjectId};
use canyon_identity::bearer::{self, AttemptRef, Presented};

/// The largest report or result, in bytes: several pieces of streams, and outputs.
const MAX_REPORT: usize = 2 * 1024 * 1024;

/// The largest body that is read before the token is verified: a claim, or a report with small pieces or none.
const SMALL_BODY: u64 = 4 * 1024;

/// Adds the attempt of the request's token to every answer, also to a refusal.
pub(super) async fn name_attempt(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let of = match presented(&parts) {
        Ok(Presented::Job(of, _) | Presented::Claim(of, _)) => Some(of),
        Ok(
            Presented::Api(_) | Presented::Read(..) | Presented::Watch(..) | Presented::Check(..),
        )
        | Err(_) => None,
    };
    let mut response = next.run(Request::from_parts(parts, body)).await;
    let of = of.and_then(|of| HeaderValue::from_str(&result_of(of.deployment, of.number)).ok());
    if let Some(of) = of {
        response.headers_mut().insert(ANSWER_OF, of);
    }
    response
}

pub(super) fn routes() -> Routes<App> {
    let claims = routes![claim]
        .layer(DefaultBodyLimit::max(usize::try_from(SMALL_BODY).unwrap_or(usize::MAX)));
    routes![report, results, bundle].layer(DefaultBodyLimit::max(MAX_REPORT)).merge(claims)
}

/// A runner with the token of an attempt. The token is verified with the deployment.
pub(super) struct Run {
    pub(super) token: RunToken,
}

impl FromRequestParts<App> for Run {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match presented(parts)? {
            Presented::Job(of, hash) => Self::shown(RunToken::new(of, hash), parts, app).await,
            Presented::Api(_)
            | Presented::Claim(..)
            | Presented::Read(..)
            | Presented::Watch(..)
            | Presented::Check(..) => Err(ApiError::unauthorized()),
        }
    }
}

impl Run {
    /// Accepts the token of a run. A large body is read only after the token is verified.
    async fn shown(mut token: RunToken, parts: &Parts, app: &App) -> Result<Self, ApiError> {
        if !has_small_body(parts) {
            app.verify(&mut token).await?;
        }
        Ok(Self { token })
    }

    /// 404 unless the path names the token's deployment and attempt.
    pub(super) fn is_for(
        &self,
        deployment: DeploymentId,
        number: Option<u32>,
    ) -> Result<(), ApiError> {
        names(self.token.of, deployment, number)
    }
}

/// 404 unless the path names the deployment and the attempt of a token.
fn names(of: AttemptRef, deployment: DeploymentId, number: Option<u32>) -> Result<(), ApiError> {
    if of.deployment == deployment && number.is_none_or(|n| n == of.number) {
        Ok(())
    } else {
        Err(foreign_path().into())
    }
}

/// The sender of a result.
pub(super) enum ResultSender {
    /// The runner.
    Run(Run),
    /// The watcher of the job.
    Watcher(AttemptRef, SecretHash),
}

impl FromRequestParts<App> for ResultSender {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        // A poller may send the deployment's token in this header, beside its own token.
        let header = parts.headers.get(DEPLOYMENT_TOKEN).and_then(|value| value.to_str().ok());
        let shown = header.and_then(bearer::parse).map_or_else(|| presented(parts), Ok)?;
        match shown {
            Presented::Job(of, hash) => {
                let token = RunToken::new(of, hash).naming(named_environment(parts));
                Run::shown(token, parts, app).await.map(Self::Run)
            }
            Presented::Watch(of, token) => {
                if !has_small_body(parts) {
                    app.prove_watcher(of, &token).await?;
                }
                Ok(Self::Watcher(of, token))
            }
            Presented::Api(_)
            | Presented::Claim(..)
            | Presented::Read(..)
            | Presented::Check(..) => Err(ApiError::unauthorized()),
        }
    }
}

/// The environment that the sender of a result names. Without it, or with another one, the result costs a request more.
fn named_environment(parts: &Parts) -> Option<(ProjectId, EnvId)> {
    let (project, env) = parts.headers.get(ENVIRONMENT_OF)?.to_str().ok()?.rsplit_once('/')?;
    Some((project.parse().ok()?, env.parse().ok()?))
}

/// Whether there is no body, or it declares a small size.
fn has_small_body(parts: &Parts) -> bool {
    if parts.method.is_safe() {
        return true;
    }
    let length = parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).is_some_and(|length: u64| length <= SMALL_BODY)
}

/// A claim code.
pub(super) struct Code {
    of: AttemptRef,
    hash: SecretHash,
}

impl FromRequestParts<App> for Code {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        match presented(parts)? {
            Presented::Claim(of, hash) => Ok(Self { of, hash }),
            Presented::Api(_)
            | Presented::Job(..)
            | Presented::Read(..)
            | Presented::Watch(..)
            | Presented::Check(..) => Err(ApiError::unauthorized()),
        }
    }
}

/// The newest format of jobs that a runner understands.
struct JobFormat(u32);

impl FromRequestParts<App> for JobFormat {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let Some(value) = parts.headers.get(JOB_FORMAT) else { return Ok(Self(1)) };
        let number = value.to_str().ok().and_then(|text| text.parse().ok());
        number.map(Self).ok_or_else(|| ApiError::field(JOB_FORMAT, "a number from 1 on"))
    }
}

/// Claim an attempt. If several runners were started for it, only one gets it.
#[utoipa::path(post, path = "/orgs/{orgId}/deployments/{deploymentId}/attempts/{number}/claim",
    tag = "Run", operation_id = "claimAttempt",
    params(
        ("canyon-job-format" = Option<u32>, Header,
         description = "The newest format of jobs that the runner understands; 1 without it. A job that needs a newer \
                        one ends as failed (`config`), and the answer is 409."),
    ),
    request_body = ClaimBody,
    responses(
        (status = 200, description = "The attempt is claimed.", body = Claimed),
        OfRun,
    ))]
async fn claim(
    State(app): State<App>,
    code: Code,
    JobFormat(job_format): JobFormat,
    Ids((_, id, number)): Ids<(String, DeploymentId, u32)>,
    body: Body<ClaimBody>,
) -> Result<Json<Claimed>, ApiError> {
    if code.of.deployment != id || code.of.number != number {
        return Err(foreign_path().into());
    }
    let claimant = &body.value.claimant;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !(16..=64).contains(&claimant.len()) || !claimant.bytes().all(plain) {
        return Err(ApiError::field("claimant", "16 to 64 letters, digits, `-` and `_`"));
    }
    let host = body.value.host.as_deref();
    let in_name = |b: u8| plain(b) || b == b'.';
    if host.is_some_and(|host| !(1..=253).contains(&host.len()) || !host.bytes().all(in_name)) {
        return Err(ApiError::field("host", "1 to 253 letters, digits, `-`, `_` and `.`"));
    }
    let user = body.value.user.as_deref();
    if user.is_some_and(|user| user.len() > 253 || user.contains(char::is_control)) {
        return Err(ApiError::field("user", "at most 253 bytes, without control characters"));
    }
    let job_format = body.value.job_format.unwrap_or(1).max(job_format);
    let claimant = Claimant { drawn: claimant, host, user, job_format };
    // The future is large.
    Ok(Json(Box::pin(app.claim(code.of, &code.hash, claimant)).await?))
}

/// Send a heartbeat and the new pieces of streams.
#[utoipa::path(post, path = "/orgs/{orgId}/deployments/{deploymentId}/attempts/{number}/report",
    tag = "Run", operation_id = "reportAttempt",
    request_body = ReportBody,
    responses(
        (status = 200, description = "Canyon has received the report.", body = ReportAnswer),
        OfRun,
    ))]
async fn report(
    State(app): State<App>,
    run: Run,
    Ids((_, id, number)): Ids<(String, DeploymentId, u32)>,
    body: Body<ReportBody>,
) -> Result<Json<ReportAnswer>, ApiError> {
    run.is_for(id, Some(number))?;
    Ok(Json(app.report(run.token, &body.value).await?))
}

/// Report the result of the run; or, as the watcher of its job, that the job failed.
#[utoipa::path(post, path = "/orgs/{orgId}/deployments/{deploymentId}/results",
    tag = "Run", operation_id = "updateDeploymentResults",
    params(
        ("X-Deployment-Token" = Option<String>, Header,
         description = "The attempt's token, if it is not in `Authorization`; or the `deployment_token` of a message."),
        ("canyon-environment" = Option<String>, Header,
         description = "The deployment's project and environment, as `PROJECT/ENVIRONMENT`: with it, Canyon needs a request \
                        less to its table."),
    ),
    request_body = DeploymentResultsUpdateBody,
    responses(
        (status = 204, description = "Taken.",
         headers(("canyon-result-of" = String, description = "The attempt: the deployment's id, `/` and the attempt's \
             number. An answer without it does not come from Canyon: send the result again."))),
        OfRun,
    ))]
async fn results(
    State(app): State<App>,
    speaker: ResultSender,
    Ids((_, id)): Ids<(String, DeploymentId)>,
    body: Body<DeploymentResultsUpdateBody>,
) -> Result<impl IntoResponse, ApiError> {
    let of = match speaker {
        ResultSender::Run(run) => {
            run.is_for(id, None)?;
            let of = run.token.of;
            Box::pin(app.take_result(run.token, &body.value)).await?;
            of
        }
        ResultSender::Watcher(of, token) => {
            names(of, id, None)?;
            app.record_failure_report(of, &token, &body.value).await?;
            of
        }
    };
    let acknowledged = [(RESULT_OF, result_of(of.deployment, of.number))];
    Ok((StatusCode::NO_CONTENT, acknowledged))
}

/// Fetch the module: the uploaded archive, or the inline text as an archive. For a module from git the archive is
/// empty, because the runner fetches the module itself.
#[utoipa::path(get, path = "/orgs/{orgId}/deployments/{deploymentId}/bundle",
    tag = "Run", operation_id = "getDeploymentBundle",
    params(
        ("X-Deployment-Token" = Option<String>, Header,
         description = "The attempt's token, if it is not in `Authorization`."),
    ),
    responses(
        (status = 200, description = "A gzipped tar.", content_type = "application/x-gzip",
         body = Vec<u8>),
        (status = 307, description = "The archive is large: fetch it from there within 5 minutes. Send no token to \
            that address, and check the SHA-256.",
         headers(("location" = String, description = "A signed address of the object store."))),
        OfRunRead,
    ))]
async fn bundle(
    State(app): State<App>,
    run: Run,
    Ids((_, id)): Ids<(String, DeploymentId)>,
) -> Result<Response, ApiError> {
    run.is_for(id, None)?;
    Ok(match app.source_archive(run.token).await? {
        Source::Bytes(archive) => ([(CONTENT_TYPE, GZIP)], archive).into_response(),
        Source::At(address) => {
            let headers = [(LOCATION, address.as_str()), (CACHE_CONTROL, "no-store")];
            (StatusCode::TEMPORARY_REDIRECT, headers).into_response()
        }
    })
}
