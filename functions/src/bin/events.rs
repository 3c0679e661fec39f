//! The Lambda function `events`: it handles deploy requests of the bus, and hints of the platforms that run jobs.

use canyon_aws::clients::Clients;
use canyon_aws::event_bus::EventBus;
use canyon_aws::logging;
use canyon_aws::settings::{Function, Settings};
use canyon_functions::function::{self, Events};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::value::RawValue;
use tracing::Instrument as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    logging::start();
    let settings = logging::or_exit(Settings::read(Function::Events));
    let clients = Clients::new(&settings.aws);
    let bus = EventBus::new(clients.eventbridge(), &settings.event_bus);
    let events = Events { app: logging::or_exit(function::app(&settings, &clients)), bus };
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Box<RawValue>>| {
        let span = tracing::info_span!("event", request_id = event.context.request_id);
        events.serve(event.payload.get()).instrument(span).await
    }))
    .await
}
