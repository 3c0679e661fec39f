//! The results of a deployment: logs, outputs, orphans.

use super::answer_size;
use super::body::Params;
use super::caller::{Ids, Member};
use super::deployments::MAX_WAIT;
use super::error::ApiError;
use super::refusals::{OfList, OfRead};
use super::routing::{Routes, routes};
use crate::App;
use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_api::attempt::Stream;
use canyon_api::deployment::{
    DeploymentEncryptedOutputs, LOG_COMPLETE, LogQuery, NEXT_OFFSET, Orphan, Output,
};
use canyon_api::error::ErrorBody;
use canyon_domain::ids::DeploymentId;
use canyon_store::blob_keys::BlobKey;
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) fn routes() -> Routes<App> {
    routes![logs, get_logs, outputs, encrypted_outputs, orphans]
}

/// Read a stream of a run from an offset on, while it is written.
#[utoipa::path(get, path = "/orgs/{orgId}/deployments/{deploymentId}/logs", tag = "Deployment",
    operation_id = "followDeploymentLogs",
    params(LogQuery),
    responses(
        (status = 200, description = "The available bytes; empty if none arrived in time.",
         content_type = "application/octet-stream", body = Vec<u8>,
         headers(("canyon-next-offset" = u64, description = "The offset of the next part."),
                 ("canyon-log-complete" = bool, description = "Whether the stream has ended."))),
        OfList,
    ))]
async fn logs(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, DeploymentId)>,
    Params(query): Params<LogQuery>,
) -> Result<Response, ApiError> {
    let stream = match query.stream.as_deref() {
        None | Some("log") => Stream::Log,
        Some("events") => Stream::Events,
        Some(_) => return Err(ApiError::field("stream", "`log` or `events`")),
    };
    let wait = query.wait_seconds.unwrap_or(0);
    if wait > MAX_WAIT {
        return Err(ApiError::field("wait_seconds", "at most 25"));
    }
    let offset = query.offset.unwrap_or(0);
    if offset > i64::MAX as u64 {
        return Err(ApiError::field("offset", "it is beyond the largest log"));
    }
    let wait = Duration::from_secs(wait.into());
    let part = app.follow(&caller, id, stream, offset, wait).await?;
    let headers = [
        (CONTENT_TYPE.as_str(), "application/octet-stream".to_owned()),
        (NEXT_OFFSET, part.next_offset.to_string()),
        (LOG_COMPLETE, part.complete.to_string()),
    ];
    Ok((headers, part.bytes).into_response())
}

/// Read the log of a deployment in one piece: about its first 4 MB.
#[utoipa::path(get, path = "/orgs/{orgId}/deployments/{deploymentId}/actions/get-logs",
    tag = "Deployment", operation_id = "getDeploymentLogs",
    params(
        ("DecryptKey" = Option<String>, Header,
         description = "`age` secret key of the deployment's `encrypted_logs_recipient`. Without \
                        it an encrypted log is answered as it is stored, as bytes."),
    ),
    responses(
        (status = 200, description = "The log.",
         content((String = "text/plain"), (Vec<u8> = "application/octet-stream")),
         headers(("canyon-next-offset" = u64, description = "Where `logs` reads on, if no key \
                                                            was given."))),
        (status = 400, description = "The key is wrong.", body = ErrorBody),
        OfRead,
    ))]
async fn get_logs(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, DeploymentId)>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    app.readable_deployment(&caller, id).await?;
    let key = headers.get("DecryptKey").and_then(|value| value.to_str().ok());
    let key = key.map(|key| SecretString::from(key.to_owned()));
    let mut log = app.whole_log(caller.org, id, key.as_ref(), answer_size::BYTES).await?;
    let (kind, length) = shown(&log);
    log.truncate(length);
    let name = format!("attachment; filename=\"{id}.log\"");
    let mut answer = ([(CONTENT_TYPE, kind)], [(CONTENT_DISPOSITION, name)], log).into_response();
    if key.is_none() {
        answer.headers_mut().insert(NEXT_OFFSET, length.into());
    }
    Ok(answer)
}

/// The content type of a log's answer, and how much of the log it has. Bytes that are not text are sent as binary,
/// because Lambda would replace invalid characters.
fn shown(log: &[u8]) -> (&'static str, usize) {
    let text = match std::str::from_utf8(log) {
        Ok(text) => text,
        // The log was cut within a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&log[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return ("application/octet-stream", log.len().min(answer_size::BYTES)),
    };
    ("text/plain; charset=utf-8", answer_size::fitting(text))
}

/// Read the outputs of a deployment. Sensitive ones have no value.
#[utoipa::path(get, path = "/orgs/{orgId}/deployments/{deploymentId}/outputs",
    tag = "Deployment", operation_id = "getDeploymentOutputs",
    responses((status = 200, description = "Outputs by name.", body = BTreeMap<String, Output>), OfRead))]
async fn outputs(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, DeploymentId)>,
) -> Result<Json<BTreeMap<String, Output>>, ApiError> {
    Ok(Json(app.artifact(&caller, id, BlobKey::outputs).await?.unwrap_or_default()))
}

/// Read all outputs of a deployment, encrypted to the key that it was created with.
#[utoipa::path(get, path = "/orgs/{orgId}/deployments/{deploymentId}/encrypted-outputs",
    tag = "Deployment", operation_id = "getDeploymentEncryptedOutputs",
    responses((status = 200, description = "The outputs.", body = DeploymentEncryptedOutputs), OfRead))]
async fn encrypted_outputs(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, DeploymentId)>,
) -> Result<Json<DeploymentEncryptedOutputs>, ApiError> {
    let bytes = app.encrypted_outputs(&caller, id).await?;
    let bytes = bytes.ok_or_else(|| {
        ApiError::new(
            StatusCode::NOT_FOUND,
            format!(
                "deployment {id} has no encrypted outputs: it was made without \
                 `encrypted_outputs_recipient`, or has not succeeded"
            ),
        )
    })?;
    Ok(Json(DeploymentEncryptedOutputs { raw: STANDARD.encode(bytes) }))
}

/// List the resources that a killed run may have left without a record in the state.
#[utoipa::path(get, path = "/orgs/{orgId}/deployments/{deploymentId}/orphans",
    tag = "Deployment", operation_id = "listDeploymentOrphans",
    responses((status = 200, description = "By address.", body = Vec<Orphan>), OfRead))]
async fn orphans(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, DeploymentId)>,
) -> Result<Json<Vec<Orphan>>, ApiError> {
    Ok(Json(app.orphans(&caller, id).await?))
}
