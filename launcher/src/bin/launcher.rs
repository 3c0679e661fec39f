//! The Lambda function `launcher`: reads records of the table's stream and reconciles their
//! deployments.

use canyon_aws::logging;
use canyon_aws::settings::Function;
use canyon_launcher::stream::{self, Batch};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use tracing::Instrument as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    logging::start();
    let launcher = logging::or_exit(canyon_launcher::function::launcher(Function::Launcher));
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Batch>| {
        let span = tracing::info_span!("stream", request_id = event.context.request_id);
        Ok::<_, Error>(stream::serve(&launcher, event.payload).instrument(span).await)
    }))
    .await
}
