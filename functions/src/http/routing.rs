//! Routes of handlers that are described by `#[utoipa::path]`: their paths and methods come from it, so that the API and its
//! document cannot differ. The API builds the document for each request for it. Building it at the start of a function
//! would take several times as long as the rest of the start.

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, Route, on};
use std::convert::Infallible;
use tower::{Layer, Service};
use utoipa::__dev::{SchemaReferences, Tags};
use utoipa::Path;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::{ComponentsBuilder, OpenApi};

/// The routes of the handlers that are named.
macro_rules! routes {
    [$($handler:ident),+ $(,)?] => {{
        let routes = $crate::http::routing::Routes::default();
        // The name that utoipa gives to the description of a handler.
        $(let routes = pastey::paste! { routes.with::<[<__path_ $handler>], _, _>($handler) };)+
        routes
    }};
}
pub(super) use routes;

/// Routes, and how to describe each of them.
pub(super) struct Routes<S> {
    router: Router<S>,
    descriptions: Vec<fn(&mut OpenApi)>,
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self { router: Router::new(), descriptions: Vec::new() }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// Adds a handler with its description `P`.
    pub(super) fn with<P, H, T>(mut self, handler: H) -> Self
    where
        P: Described,
        H: Handler<T, S>,
        T: 'static,
    {
        let methods = P::methods().iter().map(filter).reduce(MethodFilter::or);
        if let Some(methods) = methods {
            self.router = self.router.route(&P::path(), on(methods, handler));
        }
        self.descriptions.push(describe::<P>);
        self
    }

    pub(super) fn merge(mut self, others: Self) -> Self {
        self.router = self.router.merge(others.router);
        self.descriptions.extend(others.descriptions);
        self
    }

    /// Adds a layer around the routes that are there already.
    pub(super) fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.router = self.router.layer(layer);
        self
    }

    /// The router for a server.
    pub(super) fn with_state(self, state: S) -> Router {
        self.router.with_state(state)
    }

    /// Adds the operations and their schemas to `document`.
    pub(super) fn describe(&self, document: &mut OpenApi) {
        for description in &self.descriptions {
            description(document);
        }
    }
}

/// What `#[utoipa::path]` makes of a handler's description.
pub(super) trait Described: Path + SchemaReferences + for<'t> Tags<'t> {}

impl<P: Path + SchemaReferences + for<'t> Tags<'t>> Described for P {}

fn describe<P: Described>(document: &mut OpenApi) {
    let mut operation = P::operation();
    operation.tags.get_or_insert_default().extend(P::tags().into_iter().map(str::to_owned));
    document.paths.add_path_operation(P::path(), P::methods(), operation);
    let mut schemas = Vec::new();
    P::schemas(&mut schemas);
    let components = document.components.get_or_insert_with(|| ComponentsBuilder::new().build());
    components.schemas.extend(schemas);
}

fn filter(method: &HttpMethod) -> MethodFilter {
    match method {
        HttpMethod::Get => MethodFilter::GET,
        HttpMethod::Put => MethodFilter::PUT,
        HttpMethod::Post => MethodFilter::POST,
        HttpMethod::Head => MethodFilter::HEAD,
        HttpMethod::Patch => MethodFilter::PATCH,
        HttpMethod::Trace => MethodFilter::TRACE,
        HttpMethod::Delete => MethodFilter::DELETE,
        HttpMethod::Options => MethodFilter::OPTIONS,
    }
}
