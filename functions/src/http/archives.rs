//! Modules that users upload. Small archives go through the API; large ones go directly to the object store, if the API
//! runs where it cannot receive them.

use super::body::{self, Body};
use super::caller::{Ids, Member};
use super::error::ApiError;
use super::refusals::{OfRead, OfWrite};
use super::routing::{Routes, routes};
use crate::App;
use axum::Json;
use axum::body::HttpBody as _;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Request, State};
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::IntoResponse;
use bytes::Bytes;
use canyon_api::archive::{ArchiveUpload, ArchiveUploadBody, MAX_ARCHIVE_BYTES, MAX_DIRECT_BYTES};
use canyon_api::error::{ErrorBody, INCOMPLETE};
use canyon_domain::module_source::Digest;
use canyon_domain::principal::Role;
use sha2::{Digest as _, Sha256};

pub(super) fn routes() -> Routes<App> {
    let archives =
        routes![put_archive, get_archive].layer(DefaultBodyLimit::max(MAX_ARCHIVE_BYTES));
    routes![upload_url].merge(archives)
}

/// Upload a module as a gzipped tar, named by its SHA-256.
#[utoipa::path(put, path = "/orgs/{orgId}/archives/{digest}", tag = "Archive",
    operation_id = "putArchive",
    request_body(content = Vec<u8>, content_type = "application/gzip"),
    responses(
        (status = 204, description = "The archive is stored."),
        (status = 400, description = "The digest is not that of the bytes.", body = ErrorBody),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
        (status = 403, description = "The token may not deploy.", body = ErrorBody),
        (status = 404, description = "Not a digest, or not the token's organization.",
         body = ErrorBody),
        (status = 413, description = "It has more than 64 MiB; or more than 4 MiB, and this \
                                      installation takes such by `createArchiveUploadUrl` only.",
         body = ErrorBody),
        (status = 429, description = "The organization has uploaded too much today.",
         body = ErrorBody),
    ))]
async fn put_archive(
    State(app): State<App>,
    caller: Member,
    Ids((_, digest)): Ids<(String, Digest)>,
    request: Request,
) -> Result<StatusCode, ApiError> {
    caller.require_anywhere(Role::Deployer)?;
    // An archive whose declared size is too large is refused before it is sent.
    let announced = request.body().size_hint().lower();
    if announced > MAX_ARCHIVE_BYTES as u64 {
        return Err(too_large(StatusCode::PAYLOAD_TOO_LARGE));
    }
    if app.signs_uploads() && announced > MAX_DIRECT_BYTES as u64 {
        return Err(ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "an archive of more than 4 MiB goes straight to the object store: ask for the address \
             with `POST …/actions/upload-url`",
        ));
    }
    let bytes = Bytes::from_request(request, &app).await.map_err(|rejection| {
        let status = rejection.status();
        let is_large = status == StatusCode::PAYLOAD_TOO_LARGE;
        if is_large { too_large(status) } else { body::not_whole(&rejection) }
    })?;
    let actual = hex::encode(Sha256::digest(&bytes));
    if actual != digest.as_str() {
        // The sender computed both; the network may have cut the archive.
        let refusal = ApiError::field("digest", format!("the bytes have the SHA-256 {actual}"));
        return Err(refusal.with_detail("code", INCOMPLETE));
    }
    app.store_archive(&caller, &digest, bytes).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn too_large(status: StatusCode) -> ApiError {
    ApiError::new(status, "an archive has at most 64 MiB; leave out what is large")
}

/// Ask whether an archive is stored.
#[utoipa::path(get, path = "/orgs/{orgId}/archives/{digest}", tag = "Archive",
    operation_id = "getArchive",
    responses((status = 204, description = "It is."), OfRead))]
async fn get_archive(
    State(app): State<App>,
    caller: Member,
    Ids((_, digest)): Ids<(String, Digest)>,
) -> Result<StatusCode, ApiError> {
    if app.has_archive(&caller, &digest).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(ApiError::not_found("archive", digest))
}

/// Ask for a signed URL to upload an archive directly to the object store. It takes `size_bytes` bytes with that
/// SHA-256 only. The answer is 409 where the API receives archives of every size itself.
#[utoipa::path(post, path = "/orgs/{orgId}/archives/{digest}/actions/upload-url", tag = "Archive",
    operation_id = "createArchiveUploadUrl",
    request_body = ArchiveUploadBody,
    responses((status = 200, description = "The URL for the upload.", body = ArchiveUpload), OfWrite))]
async fn upload_url(
    State(app): State<App>,
    caller: Member,
    Ids((_, digest)): Ids<(String, Digest)>,
    body: Body<ArchiveUploadBody>,
) -> Result<impl IntoResponse, ApiError> {
    caller.require_anywhere(Role::Deployer)?;
    match body.value.size_bytes {
        0 => return Err(ApiError::field("size_bytes", "at least 1")),
        size if size > MAX_ARCHIVE_BYTES as u64 => {
            return Err(too_large(StatusCode::PAYLOAD_TOO_LARGE));
        }
        _ => {}
    }
    let (signed, expires_at) = app.sign_upload(&caller, &digest, body.value.size_bytes).await?;
    let headers = signed.headers.into_iter().collect();
    let answer = ArchiveUpload { url: signed.url, headers, expires_at };
    Ok(([(CACHE_CONTROL, "no-store")], Json(answer)))
}
