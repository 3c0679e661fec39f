//! The OpenAPI 3.1 document of the API, generated from its handlers.

use super::caller::Member;
use super::path_parameters::PathParameters;
use super::routing::{Routes, routes};
use super::{routes, well_known};
use crate::App;
use axum::Json;
use canyon_api::error::ErrorBody;
use canyon_api::git_credential::{CloudBody, GitCredentialBody, GithubAppBody};
use canyon_api::runner;
use canyon_api::variable_set::VariableBody;
use utoipa::{Modify as _, OpenApi};

/// The general part of the document.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Canyon",
        description = "Control plane for infrastructure runners. It speaks the published Platform \
                       Orchestrator API for what is in scope, with fields and paths of its own.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    // The schema of a map does not register those of its values.
    components(schemas(CloudBody, GitCredentialBody, GithubAppBody, VariableBody)),
    modifiers(&BearerScheme),
    security(("bearer" = []))
)]
struct Document;

struct BearerScheme;

impl utoipa::Modify for BearerScheme {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
        let components = document.components.get_or_insert_with(Default::default);
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme("bearer", bearer);
    }
}

/// The document. It also lists the issuers' documents, although another function may serve them.
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = Document::openapi();
    routes().describe(&mut document);
    well_known::routes().describe(&mut document);
    let components = document.components.get_or_insert_with(Default::default);
    components.schemas.extend(runner::described().map(|(name, schema)| (name.to_owned(), schema)));
    PathParameters.modify(&mut document);
    document
}

pub(super) fn own_route() -> Routes<App> {
    routes![openapi]
}

/// This API's OpenAPI 3.1 document.
#[utoipa::path(get, path = "/openapi.json", tag = "WellKnown",
    responses(
        (status = 200, description = "The document.", body = Object),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
    ))]
async fn openapi(_: Member) -> Json<utoipa::openapi::OpenApi> {
    Json(document())
}
