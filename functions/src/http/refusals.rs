//! The refusals in the OpenAPI document for each kind of operation. They exist only for the document: answers are made
//! from [`ApiError`](super::error::ApiError), which has the same body.

use std::collections::BTreeMap;
use utoipa::IntoResponses;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::{Ref, RefOr};

/// Declares kinds of operations with the status codes of their refusals.
macro_rules! refusals {
    ($($(#[$comment:meta])* $name:ident: $codes:expr;)*) => {$(
        $(#[$comment])*
        pub(super) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                $codes.into_iter().map(refusal).collect()
            }
        }
    )*};
}

refusals! {
    /// Reading one object.
    OfRead: [401, 404];
    /// Reading a list, or an object with parameters.
    OfList: [400, 401, 404];
    /// Reading a list that only some roles may read.
    OfClosedList: [400, 401, 403, 404];
    /// A write with a body.
    OfWrite: [400, 401, 403, 404, 409, 413, 415];
    /// A deletion, or an action without a body.
    OfAction: [400, 401, 403, 404, 409];
    /// A creation without a body and without an organization.
    OfMaking: [401, 403, 409];
    /// A request with the code or token of an attempt.
    OfRun: [400, 401, 404, 409, 413, 415];
    /// The same, without a body.
    OfRunRead: [401, 404, 409];
}

fn refusal(code: u16) -> (String, RefOr<Response>) {
    let description = match code {
        400 => "A field or a parameter is invalid.",
        401 => "The token is missing or invalid.",
        403 => "The token may not do this.",
        404 => "It does not exist, or it is not in the token's organization.",
        409 => {
            "The request conflicts with what exists. For a runner: another one has the attempt, the attempt is over, or \
             it has not reached the phase."
        }
        413 => "The body is too large.",
        _ => "The body is not JSON.",
    };
    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
    let response =
        ResponseBuilder::new().description(description).content("application/json", body);
    (code.to_string(), response.build().into())
}
