//! The least that an HTTP function in Rust can be: the yardstick for the start of the real ones.

use axum::Router;
use axum::routing::get;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    let router = Router::new().route("/", get(|| async { "hello" }));
    lambda_http::run(router).await
}
