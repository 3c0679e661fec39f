//! The smallest HTTP function in Rust: a baseline for the start times of the real functions.

use axum::Router;
use axum::routing::get;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    let router = Router::new().route("/", get(|| async { "hello" }));
    lambda_http::run(router).await
}
