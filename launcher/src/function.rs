//! The launcher as a Lambda function: of the table's stream, or of the clock.

use crate::publish::Publish;
use crate::{Launcher, Sweeper};
use async_trait::async_trait;
use canyon_aws::clients::Clients;
use canyon_aws::event_bus::EventBus;
use canyon_aws::master_key::KmsMasterKey;
use canyon_aws::settings::{Function, SettingError, Settings};
use canyon_dispatch::Dispatcher;
use canyon_domain::events::DeploymentEvent;
use canyon_domain::runner::RunnerType;
use canyon_identity::master_keys::MasterKeys;
use canyon_identity::system::System;
use canyon_store::Table;
use canyon_store::error::BoxError;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Before the end of an invocation no new look is begun: what one has begun must end.
const RESERVE: SignedDuration = SignedDuration::from_secs(15);
/// Between two looks of one invocation, for what the first had made due. It doubles each time: what
/// cannot be tended now must not be tried in a tight loop.
const PAUSE: Duration = Duration::from_millis(250);

#[async_trait]
impl Publish for EventBus {
    async fn publish(&self, events: &[DeploymentEvent]) -> Result<(), BoxError> {
        Ok(self.deployments(events).await?)
    }
}

/// The launcher that the settings describe.
///
/// # Errors
///
/// [`SettingError`] names the setting at fault.
pub fn launcher(function: Function) -> Result<Launcher, BoxError> {
    let settings = Settings::read(function)?;
    let clients = Clients::new(&settings.aws);
    let table = Table::new(clients.dynamodb(), &settings.table).telling_ends();
    let master_key =
        KmsMasterKey::new(clients.kms(), &settings.master_key, table.clone(), Arc::new(System));
    Ok(Launcher {
        blobs: clients.blobs(&settings.bucket)?,
        table,
        clock: Arc::new(System),
        entropy: Arc::new(System),
        master_keys: Arc::new(MasterKeys::on_demand(master_key)),
        up_since: Timestamp::MIN,
        api_url: settings.api_url.clone(),
        organizations: Arc::default(),
        dispatchers: dispatchers()?,
        publisher: Some(Arc::new(EventBus::new(clients.eventbridge(), &settings.event_bus))),
    })
}

/// Jobs as processes beside the function: for tests and development.
#[cfg(feature = "local-jobs")]
fn dispatchers() -> Result<HashMap<RunnerType, Arc<dyn Dispatcher>>, SettingError> {
    use canyon_dispatch::local::{LocalDispatcher, LocalSettings, inherited_environment};
    let Some(jobs) = std::env::var_os("CANYON_LOCAL_JOBS") else { return Ok(HashMap::new()) };
    let runner = std::env::var_os("CANYON_RUNNER_PROGRAM").ok_or_else(|| {
        SettingError::new("CANYON_RUNNER_PROGRAM", "CANYON_LOCAL_JOBS needs it: the program to run")
    })?;
    let settings = LocalSettings {
        runner: runner.into(),
        jobs: jobs.into(),
        path: std::env::var_os("PATH").unwrap_or_default(),
        inherited: inherited_environment(),
    };
    // The function may be frozen when a job ends: others tell of that.
    let local: Arc<dyn Dispatcher> = Arc::new(LocalDispatcher::new(settings, |_| {}));
    Ok(HashMap::from([(RunnerType::Local, local)]))
}

#[cfg(not(feature = "local-jobs"))]
fn dispatchers() -> Result<HashMap<RunnerType, Arc<dyn Dispatcher>>, SettingError> {
    if std::env::var_os("CANYON_LOCAL_JOBS").is_some() {
        let reason = "this build runs no jobs beside the function; it is for tests alone";
        return Err(SettingError::new("CANYON_LOCAL_JOBS", reason));
    }
    Ok(HashMap::new())
}

/// Looks at what is due until nothing is, or until `deadline` is near.
///
/// # Errors
///
/// When the table cannot be asked; the next minute does.
pub async fn sweep(sweeper: &Sweeper, deadline: Timestamp) -> Result<(), BoxError> {
    let clock = &sweeper.launcher().clock;
    let (mut tended, mut oldest, mut pause) = (0, SignedDuration::ZERO, PAUSE);
    loop {
        let mut tasks = JoinSet::new();
        let pass = sweeper.pass(&mut tasks).await?;
        tended += pass.begun;
        oldest = oldest.max(pass.oldest);
        while tasks.join_next().await.is_some() {}
        if pass.begun == 0 || clock.now() + RESERVE >= deadline {
            break;
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    report(sweeper.launcher().table.name(), clock.now(), tended, oldest);
    Ok(())
}

/// Metrics by the log (CloudWatch embedded metric format): no permission, no request.
fn report(table: &str, now: Timestamp, tended: usize, oldest: SignedDuration) {
    let metrics = json!({
        "_aws": {
            "Timestamp": now.as_millisecond(),
            "CloudWatchMetrics": [{
                "Namespace": "Canyon",
                "Dimensions": [["Table"]],
                "Metrics": [
                    { "Name": "OldestDueSeconds", "Unit": "Seconds" },
                    { "Name": "SweptDeployments", "Unit": "Count" },
                ],
            }],
        },
        "Table": table,
        "OldestDueSeconds": oldest.as_secs(),
        "SweptDeployments": tended,
    });
    #[expect(clippy::print_stdout, reason = "CloudWatch reads metrics from this stream")]
    {
        println!("{metrics}");
    }
}
