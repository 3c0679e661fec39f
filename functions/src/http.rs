//! The HTTP API: one file per resource. Handlers extract, call and render.

mod access;
mod agent_caller;
mod agent_sessions;
mod agents;
mod answer_size;
mod archives;
mod artifacts;
mod audit;
pub mod body;
pub mod caller;
mod compression;
mod concurrency_limits;
mod cors;
mod deployments;
mod env_types;
mod environments;
pub mod error;
mod event_sources;
mod fields;
mod job_tokens;
mod network_address;
mod organizations;
mod paging;
mod progress;
mod projects;
mod refusals;
mod remote_runners;
mod render;
mod request_id;
mod runner_checks;
mod runner_profiles;
mod runner_rules;
mod runners;
mod runs;
mod scoped_roles;
mod service_accounts;
mod state_locks;
mod token_exchange;
mod tokens;
mod well_known;

use crate::App;
use crate::json;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware;
use axum::response::IntoResponse as _;
use error::ApiError;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

pub use cors::{InvalidOrigin, Origin};

/// What the generated document says about the API as a whole.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Canyon",
        description = "Control plane for infrastructure runners. It speaks the published Platform \
                       Orchestrator API for what is in scope, with fields and paths of its own.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
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

/// Every route, with its document.
fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .merge(well_known::routes())
        .merge(organizations::routes())
        .merge(env_types::routes())
        .merge(projects::routes())
        .merge(environments::routes())
        .merge(runners::routes())
        .merge(runner_checks::routes())
        .merge(agents::routes())
        .merge(agent_sessions::routes())
        .merge(remote_runners::routes())
        .merge(runner_profiles::routes())
        .merge(runner_rules::routes())
        .merge(concurrency_limits::routes())
        .merge(event_sources::routes())
        .merge(service_accounts::routes())
        .merge(token_exchange::routes())
        .merge(tokens::routes())
        .merge(audit::routes())
        .merge(deployments::routes())
        .merge(archives::routes())
        .merge(artifacts::routes())
        .merge(of_runs())
}

/// What runners call.
fn of_runs() -> OpenApiRouter<App> {
    let routes = runs::routes().merge(job_tokens::routes()).merge(state_locks::routes());
    routes.layer(middleware::from_fn(runs::told_of))
}

/// The OpenAPI 3.1 document of the API, generated from its handlers.
pub fn document() -> utoipa::openapi::OpenApi {
    routes().into_openapi()
}

/// What may differ from one installation to another.
#[derive(Clone, Debug, Default)]
pub struct HttpSettings {
    /// The pages that may call the API from a browser.
    pub allowed_origins: Vec<Origin>,
    /// Whether the answers go through Lambda, which takes at most 6 MB.
    pub on_lambda: bool,
}

/// The API of `app`, for whatever serves HTTP.
pub fn router(app: App, settings: &HttpSettings) -> Router {
    let (router, _) = routes().split_for_parts();
    let router = router
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(DefaultBodyLimit::max(json::MAX_BYTES))
        .layer(middleware::map_request(progress::watched))
        .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| {
            ApiError::internal().into_response()
        }))
        .layer(middleware::map_response_with_state(settings.on_lambda, answer_size::bounded))
        .layer(compression::layer());
    // A layer sees a request before those above it.
    let router = match cors::layer(&settings.allowed_origins) {
        Some(cors) => router.layer(cors),
        None => router,
    };
    router.layer(middleware::from_fn_with_state(app.clone(), access::log)).with_state(app)
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
