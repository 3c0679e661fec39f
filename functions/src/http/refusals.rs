//! The refusals in the OpenAPI document for each kind of operation.
//!
//! These types exist only for the document: answers are made from [`ApiError`](super::error::ApiError), which has the
//! same body.

#![expect(dead_code, reason = "the variants are read by the derive, and never made")]

use canyon_api::error::ErrorBody;
use utoipa::IntoResponses;

/// Refusals of reading one object.
#[derive(IntoResponses)]
pub(super) enum OfRead {
    /// The token is missing or invalid.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// It does not exist, or it is not in the token's organization.
    #[response(status = 404)]
    NotFound(ErrorBody),
}

/// Refusals of reading a list.
#[derive(IntoResponses)]
pub(super) enum OfList {
    /// A parameter is invalid.
    #[response(status = 400)]
    BadRequest(ErrorBody),
    /// The token is missing or invalid.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The parent of the list does not exist, or it is not in the token's organization.
    #[response(status = 404)]
    NotFound(ErrorBody),
}

/// Refusals of reading a list that only some roles may read.
#[derive(IntoResponses)]
pub(super) enum OfClosedList {
    /// A parameter is invalid.
    #[response(status = 400)]
    BadRequest(ErrorBody),
    /// The token is missing or invalid.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The token may not read it.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// The organization is not the token's.
    #[response(status = 404)]
    NotFound(ErrorBody),
}

/// Refusals of a write with a body.
#[derive(IntoResponses)]
pub(super) enum OfWrite {
    /// A field is invalid.
    #[response(status = 400)]
    BadRequest(ErrorBody),
    /// The token is missing or invalid.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The token may not change this.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// It does not exist, or it is not in the token's organization.
    #[response(status = 404)]
    NotFound(ErrorBody),
    /// The request conflicts with what exists.
    #[response(status = 409)]
    Conflict(ErrorBody),
    /// The body is too large.
    #[response(status = 413)]
    TooLarge(ErrorBody),
    /// The body is not JSON.
    #[response(status = 415)]
    NotJson(ErrorBody),
}

/// Refusals of a deletion, or of an action without a body.
#[derive(IntoResponses)]
pub(super) enum OfAction {
    /// A parameter is invalid.
    #[response(status = 400)]
    BadRequest(ErrorBody),
    /// The token is missing or invalid.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The token may not change this.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// It does not exist, or it is not in the token's organization.
    #[response(status = 404)]
    NotFound(ErrorBody),
    /// The request conflicts with what exists.
    #[response(status = 409)]
    Conflict(ErrorBody),
}

/// Refusals of a creation without a body and without an organization.
#[derive(IntoResponses)]
pub(super) enum OfMaking {
    /// The token is missing or invalid.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The token may not make this.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// The request conflicts with what exists.
    #[response(status = 409)]
    Conflict(ErrorBody),
}

/// Refusals of a request with the code or token of an attempt.
#[derive(IntoResponses)]
pub(super) enum OfRun {
    /// A field is invalid.
    #[response(status = 400)]
    BadRequest(ErrorBody),
    /// The code or token is invalid.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The code or token is not for this path.
    #[response(status = 404)]
    NotFound(ErrorBody),
    /// Another runner has the attempt, or the attempt is over: exit. Or the attempt has not reached the phase.
    #[response(status = 409)]
    Conflict(ErrorBody),
    /// The body is too large.
    #[response(status = 413)]
    TooLarge(ErrorBody),
    /// The body is not JSON.
    #[response(status = 415)]
    NotJson(ErrorBody),
}
