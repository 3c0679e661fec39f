//! The launcher as a Lambda function: of the table's stream, or of the clock.

use crate::pace::TablePace;
use crate::platforms::LocalClusters;
use crate::publish::Publish;
use crate::{LaunchError, Launcher, Sweeper, agents, platforms};
use async_trait::async_trait;
use canyon_aws::clients::Clients;
use canyon_aws::event_bus::EventBus;
use canyon_aws::issuer::issuer;
use canyon_aws::master_key::KmsMasterKey;
use canyon_aws::settings::{Function, SettingError, Settings};
use canyon_dispatch::Platform;
use canyon_domain::events::DeploymentEvent;
use canyon_domain::seam::Clock;
use canyon_identity::federation::{Endpoints, Federation};
use canyon_identity::master_keys::MasterKeys;
use canyon_identity::system::System;
use canyon_store::Table;
use canyon_store::deployment_lists::Due;
use canyon_store::error::BoxError;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Before the end of an invocation no new look is begun: what one has begun must end.
const RESERVE: SignedDuration = SignedDuration::from_secs(15);
/// Between two looks of one invocation, for what has become due meanwhile. It doubles while nothing new
/// has: what cannot be tended now must not be tried in a tight loop.
const PAUSE: Duration = Duration::from_millis(250);
/// At the end of an invocation, for its report.
const FAREWELL: SignedDuration = SignedDuration::from_secs(3);
/// After so long the next look is made beside what is still being tended: one that hangs holds up no
/// other.
const PATIENCE: Duration = Duration::from_secs(1);

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
        KmsMasterKey::new(clients.kms(), &settings.master_key, table.clone(), Arc::new(System))
            .made_for(settings.master_key_table.as_deref());
    let issuer = Arc::new(issuer(&settings, &clients.kms()));
    let endpoints = Endpoints::from_variables(&|name| std::env::var(name).ok());
    let federation = Arc::new(Federation::new(issuer, endpoints, Arc::new(System)));
    let pace = Arc::new(TablePace { table: table.clone(), clock: Arc::new(System) });
    let local =
        if settings.allow_local_clusters { LocalClusters::Allowed } else { LocalClusters::Refused };
    let image = settings.runner_image.as_deref();
    let system: Arc<dyn Clock> = Arc::new(System);
    let mut platforms = platforms::direct(&federation, pace, image, local);
    // Nothing hints here: agents that wait look at the table each second.
    let hint = Arc::new(|_, _: &_| ());
    platforms.extend(agents::platforms(&table, &system, hint, image, local_jobs()?));
    Ok(Launcher {
        blobs: clients.blobs(&settings.bucket)?,
        table,
        clock: Arc::new(System),
        entropy: Arc::new(System),
        master_keys: Arc::new(MasterKeys::on_demand(master_key)),
        up_since: Timestamp::MIN,
        api_url: settings.api_url.clone(),
        organizations: Arc::default(),
        platforms,
        last_looks: Arc::default(),
        limits: Arc::default(),
        publisher: Some(Arc::new(EventBus::new(clients.eventbridge(), &settings.event_bus))),
    })
}

/// Jobs as processes beside the function: for tests and development.
#[cfg(feature = "local-jobs")]
fn local_jobs() -> Result<Option<Arc<dyn Platform>>, SettingError> {
    use canyon_dispatch::local::{
        LocalDispatcher, LocalSettings, inherited_environment, protect_this_process,
    };
    let Some(jobs) = std::env::var_os("CANYON_LOCAL_JOBS") else { return Ok(None) };
    protect_this_process().map_err(|_| {
        SettingError::new("CANYON_LOCAL_JOBS", "this process cannot be kept from its jobs")
    })?;
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
    let local = Arc::new(LocalDispatcher::new(settings, |_| {}));
    Ok(Some(Arc::new(local)))
}

#[cfg(not(feature = "local-jobs"))]
fn local_jobs() -> Result<Option<Arc<dyn Platform>>, SettingError> {
    if std::env::var_os("CANYON_LOCAL_JOBS").is_some() {
        let reason = "this build runs no jobs beside the function; it is for tests alone";
        return Err(SettingError::new("CANYON_LOCAL_JOBS", reason));
    }
    Ok(None)
}

/// What an invocation has come to.
struct Swept {
    tended: HashSet<Due>,
    /// How long the one that waited longest had been due.
    oldest: SignedDuration,
}

/// Looks at what is due until nothing is, or until `deadline` is near.
///
/// # Errors
///
/// When the table cannot be asked; the next minute does.
pub async fn sweep(sweeper: &Sweeper, deadline: Timestamp) -> Result<(), BoxError> {
    let clock = &sweeper.launcher().clock;
    let mut tasks = JoinSet::new();
    let swept = look(sweeper, deadline, &mut tasks).await;
    // What was begun is to end. What does not end in time goes as with a killed process: it is due still.
    let left = (deadline - FAREWELL).duration_since(clock.now());
    let _ = tokio::time::timeout(left.try_into().unwrap_or_default(), join(&mut tasks)).await;
    let swept = swept?;
    report(sweeper.launcher().table.name(), clock.now(), &swept);
    Ok(())
}

async fn look(
    sweeper: &Sweeper,
    deadline: Timestamp,
    tasks: &mut JoinSet<()>,
) -> Result<Swept, LaunchError> {
    let clock = &sweeper.launcher().clock;
    let mut swept = Swept { tended: HashSet::new(), oldest: SignedDuration::ZERO };
    let mut pause = PAUSE;
    loop {
        let pass = sweeper.pass(tasks).await?;
        if pass.due.is_empty() {
            return Ok(swept);
        }
        swept.oldest = swept.oldest.max(pass.oldest);
        let known = swept.tended.len();
        swept.tended.extend(pass.due);
        pause = if swept.tended.len() > known { PAUSE } else { pause * 2 };
        // Whether all have ended by then does not matter.
        let _ = tokio::time::timeout(PATIENCE, join(tasks)).await;
        if clock.now() + pause + RESERVE >= deadline {
            return Ok(swept);
        }
        tokio::time::sleep(pause).await;
    }
}

async fn join(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// Metrics by the log (CloudWatch embedded metric format): no permission, no request.
fn report(table: &str, now: Timestamp, swept: &Swept) {
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
        "OldestDueSeconds": swept.oldest.as_secs(),
        "SweptDeployments": swept.tended.len(),
    });
    #[expect(clippy::print_stdout, reason = "CloudWatch reads metrics from this stream")]
    {
        println!("{metrics}");
    }
}
