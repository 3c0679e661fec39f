//! The Lambda function `api`: it serves requests of API Gateway with the same router as a laptop. It publishes no
//! issuer's keys: the function `issuer` does.

use canyon_aws::clients::Clients;
use canyon_aws::logging::{self, or_exit};
use canyon_aws::settings::{Function, Settings};
use canyon_functions::function::{self, path::as_sent, source::with_source};
use canyon_functions::http::router;
use lambda_http::Error;
use lambda_http::tower::ServiceBuilder;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    logging::start();
    let settings = or_exit(Settings::read(Function::Api));
    let http = or_exit(function::http_settings(&settings));
    let app = or_exit(function::app(&settings, &Clients::new(&settings.aws)));
    let service = ServiceBuilder::new()
        .map_request(with_source)
        .map_request(as_sent)
        .service(router(app, None, &http));
    lambda_http::run(service).await
}
