//! The Lambda function `sweep`: each minute it reconciles every deployment that is due. It alone
//! suffices for every deployment to end.

use canyon_aws::logging;
use canyon_aws::settings::Function;
use canyon_launcher::{Sweeper, function};
use jiff::Timestamp;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::Value;
use tracing::Instrument as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    logging::start();
    let sweeper = Sweeper::new(logging::or_exit(function::launcher(Function::Sweep)));
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Value>| {
        let span = tracing::info_span!("sweep", request_id = event.context.request_id);
        let deadline = i64::try_from(event.context.deadline).unwrap_or(i64::MAX);
        let deadline = Timestamp::from_millisecond(deadline).unwrap_or(Timestamp::MAX);
        function::sweep(&sweeper, deadline).instrument(span).await
    }))
    .await
}
