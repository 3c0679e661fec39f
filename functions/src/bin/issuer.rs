//! The Lambda function `issuer`: it serves the discovery documents and key sets of both issuers, with the router of a
//! laptop.
//!
//! It is separate from `api`, because the publisher of a key set decides which keys clouds accept
//! (docs/decisions/0045).

use canyon_aws::clients::Clients;
use canyon_aws::logging::{self, or_exit};
use canyon_aws::settings::{Function, Settings};
use canyon_functions::function::{self, path::as_sent, source::with_source};
use canyon_functions::http::issuer_router;
use lambda_http::Error;
use lambda_http::tower::ServiceBuilder;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    logging::start();
    let settings = or_exit(Settings::read(Function::Issuer));
    let http = or_exit(function::http_settings(&settings));
    let issuers = function::issuers(&settings, &Clients::new(&settings.aws));
    let service = ServiceBuilder::new()
        .map_request(with_source)
        .map_request(as_sent)
        .service(issuer_router(issuers, &http));
    lambda_http::run(service).await
}
