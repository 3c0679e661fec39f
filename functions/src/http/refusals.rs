//! The refusals that the document lists for each kind of operation.
//!
//! They are types for the document's sake only: answers are made from
//! [`ApiError`](super::error::ApiError), which has the same body.

#![expect(dead_code, reason = "the variants are read by the derive, and never made")]

use canyon_api::error::ErrorBody;
use utoipa::IntoResponses;

/// Of reading one thing.
#[derive(IntoResponses)]
pub(super) enum OfRead {
    /// No good token.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// It is not there, or not in the token's organization.
    #[response(status = 404)]
    NotFound(ErrorBody),
}

/// Of reading a list.
#[derive(IntoResponses)]
pub(super) enum OfList {
    /// A parameter is at fault.
    #[response(status = 400)]
    BadRequest(ErrorBody),
    /// No good token.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// What it is a list of is not there, or not in the token's organization.
    #[response(status = 404)]
    NotFound(ErrorBody),
}

/// Of reading a list that only some may read.
#[derive(IntoResponses)]
pub(super) enum OfClosedList {
    /// A parameter is at fault.
    #[response(status = 400)]
    BadRequest(ErrorBody),
    /// No good token.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The token may not read it.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// Not the token's organization.
    #[response(status = 404)]
    NotFound(ErrorBody),
}

/// Of a write with a body.
#[derive(IntoResponses)]
pub(super) enum OfWrite {
    /// A field is at fault.
    #[response(status = 400)]
    BadRequest(ErrorBody),
    /// No good token.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The token may not change this.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// It is not there, or not in the token's organization.
    #[response(status = 404)]
    NotFound(ErrorBody),
    /// Something stands in the way.
    #[response(status = 409)]
    Conflict(ErrorBody),
    /// The body is too large.
    #[response(status = 413)]
    TooLarge(ErrorBody),
    /// The body is not JSON.
    #[response(status = 415)]
    NotJson(ErrorBody),
}

/// Of a deletion, or of an action without a body.
#[derive(IntoResponses)]
pub(super) enum OfAction {
    /// A parameter is at fault.
    #[response(status = 400)]
    BadRequest(ErrorBody),
    /// No good token.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The token may not change this.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// It is not there, or not in the token's organization.
    #[response(status = 404)]
    NotFound(ErrorBody),
    /// Something stands in the way.
    #[response(status = 409)]
    Conflict(ErrorBody),
}

/// Of making something without a body and without a place to make it in.
#[derive(IntoResponses)]
pub(super) enum OfMaking {
    /// No good token.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The token may not make this.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// Something stands in the way.
    #[response(status = 409)]
    Conflict(ErrorBody),
}

/// Of what a runner says with the code or token of its attempt.
#[derive(IntoResponses)]
pub(super) enum OfRun {
    /// A field is at fault.
    #[response(status = 400)]
    BadRequest(ErrorBody),
    /// The code or token is not good.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The code or token is not for this path.
    #[response(status = 404)]
    NotFound(ErrorBody),
    /// The attempt is another runner's, or over: exit. Or it has not come so far.
    #[response(status = 409)]
    Conflict(ErrorBody),
    /// The body is too large.
    #[response(status = 413)]
    TooLarge(ErrorBody),
    /// The body is not JSON.
    #[response(status = 415)]
    NotJson(ErrorBody),
}
