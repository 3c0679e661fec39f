//! The HTTP API: one file for each resource. Handlers extract, call and render.

mod access;
mod accounts;
mod agent_caller;
mod agent_sessions;
mod agents;
mod answer_size;
mod approvals;
mod archives;
mod artifacts;
mod audit;
pub mod body;
pub mod caller;
mod compression;
mod concurrency_limits;
mod cors;
mod definitions;
mod deployment_diffs;
mod deployments;
mod drift;
mod env_types;
mod environment_filter;
mod environments;
pub mod error;
mod event_sources;
mod fields;
mod git_credentials;
mod health;
mod identity_providers;
mod job_tokens;
mod last_deployments;
mod list_query;
mod named_roles;
mod network_address;
mod oauth;
mod openapi;
mod organizations;
mod paging;
mod parameters;
mod path_parameters;
mod plan_checks;
mod plans;
mod progress;
mod projects;
mod refusals;
mod remote_runners;
mod render;
mod request_id;
mod retention;
mod routing;
mod runner_checks;
mod runner_profiles;
mod runner_rules;
mod runners;
mod runs;
mod schedules;
mod scoped_roles;
mod secret_stores;
mod service_accounts;
mod state_locks;
mod token_exchange;
mod token_revocation;
mod tokens;
mod usage;
mod variable_changes;
mod variable_sets;
mod variable_uses;
mod well_known;
mod whoami;

use crate::App;
use crate::json;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware;
use axum::response::IntoResponse as _;
use canyon_identity::system::System;
use error::ApiError;
use request_id::RequestIds;
use routing::Routes;
use std::sync::Arc;
use tower_http::catch_panic::CatchPanicLayer;

pub use cors::{InvalidOrigin, Origin};
pub use openapi::document;
pub use well_known::Issuers;

/// Every route of the API but those of the issuers' documents.
fn routes() -> Routes<App> {
    health::routes()
        .merge(openapi::own_route())
        .merge(organizations::routes())
        .merge(env_types::routes())
        .merge(projects::routes())
        .merge(environments::routes())
        .merge(drift::routes())
        .merge(deployment_diffs::routes())
        .merge(runners::routes())
        .merge(runner_checks::routes())
        .merge(named_roles::routes())
        .merge(agents::routes())
        .merge(agent_sessions::routes())
        .merge(remote_runners::routes())
        .merge(runner_profiles::routes())
        .merge(runner_rules::routes())
        .merge(concurrency_limits::routes())
        .merge(git_credentials::routes())
        .merge(variable_sets::routes())
        .merge(variable_uses::routes())
        .merge(event_sources::routes())
        .merge(secret_stores::routes())
        .merge(accounts::routes())
        .merge(definitions::routes())
        .merge(service_accounts::routes())
        .merge(identity_providers::routes())
        .merge(token_exchange::routes())
        .merge(token_revocation::routes())
        .merge(whoami::routes())
        .merge(tokens::routes())
        .merge(audit::routes())
        .merge(schedules::routes())
        .merge(retention::routes())
        .merge(usage::routes())
        .merge(deployments::routes())
        .merge(last_deployments::routes())
        .merge(archives::routes())
        .merge(artifacts::routes())
        .merge(plans::routes())
        .merge(approvals::routes())
        .merge(plan_checks::routes())
        .merge(of_runs())
}

/// The routes that runners call.
fn of_runs() -> Routes<App> {
    let routes = runs::routes().merge(job_tokens::routes()).merge(state_locks::routes());
    let routes = routes.merge(plans::routes_of_runs());
    routes.layer(middleware::from_fn(runs::name_attempt))
}

/// Settings that differ between installations.
#[derive(Clone, Debug, Default)]
pub struct HttpSettings {
    /// The origins of pages that may call the API from a browser.
    pub allowed_origins: Vec<Origin>,
    /// Whether Lambda returns the answers, which limits them to 6 MB.
    pub on_lambda: bool,
}

/// The router of the API, for any HTTP server. With `issuers`, which only a laptop gives, it also publishes their
/// documents. On AWS the function that the internet reaches has none: [`issuer_router`] belongs to another function.
pub fn router(app: App, issuers: Option<Issuers>, settings: &HttpSettings) -> Router {
    let ids = RequestIds { clock: app.clock.clone(), entropy: app.entropy.clone() };
    let routes = routes().with_state(app);
    let routes = match issuers {
        Some(issuers) => routes.merge(well_known::routes().with_state(issuers)),
        None => routes,
    };
    served(routes, ids, settings)
}

/// The router of the issuers' documents alone.
pub fn issuer_router(issuers: Issuers, settings: &HttpSettings) -> Router {
    let ids = RequestIds { clock: Arc::new(System), entropy: Arc::new(System) };
    served(well_known::routes().with_state(issuers), ids, settings)
}

/// Adds the layers that apply to every request.
fn served(resources: Router, ids: RequestIds, settings: &HttpSettings) -> Router {
    let router = resources
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(DefaultBodyLimit::max(json::MAX_BYTES))
        .layer(middleware::map_request(progress::watched))
        .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| {
            ApiError::internal().into_response()
        }))
        .layer(middleware::map_response_with_state(settings.on_lambda, answer_size::bounded))
        .layer(compression::layer());
    // A layer sees a request before the layers above it.
    let router = match cors::layer(&settings.allowed_origins) {
        Some(cors) => router.layer(cors),
        None => router,
    };
    router.layer(middleware::from_fn_with_state(ids, access::log))
}

async fn unknown_path() -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "there is no such path; see /openapi.json for those there are",
    )
}

async fn unknown_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take that method")
}
