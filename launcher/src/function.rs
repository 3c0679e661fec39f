//! The launcher as a Lambda function, called by the table's stream or by a schedule.

use crate::platforms::LocalClusters;
use crate::publish::Publish;
use crate::rate_limiter::TableRateLimiter;
use crate::{LaunchError, Launcher, Sweeper, agents, platforms};
use async_trait::async_trait;
use canyon_aws::clients::Clients;
use canyon_aws::event_bus::EventBus;
use canyon_aws::issuer::issuer;
use canyon_aws::master_key::KmsMasterKey;
use canyon_aws::settings::{Function, SettingError, Settings};
use canyon_dispatch::Platform;
use canyon_domain::events::DeploymentEvent;
use canyon_domain::ports::Clock;
use canyon_identity::federation::{Endpoints, Federation};
use canyon_identity::master_keys::MasterKeys;
use canyon_identity::signed_request::SignedRequests;
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

/// An invocation begins no new pass this long before its end, so that the calls that it has begun
/// can end.
const END_RESERVE: SignedDuration = SignedDuration::from_secs(15);
/// The pause between two passes of one invocation. It doubles while no new deployment becomes due,
/// so that a deployment that cannot be reconciled now is not retried in a tight loop.
const PASS_PAUSE: Duration = Duration::from_millis(250);
/// Time reserved at the end of an invocation for its report.
const REPORT_RESERVE: SignedDuration = SignedDuration::from_secs(3);
/// After this time the next pass begins although reconciliations still run: one that hangs delays
/// no other.
const PASS_WAIT: Duration = Duration::from_secs(1);

#[async_trait]
impl Publish for EventBus {
    async fn publish(&self, events: &[DeploymentEvent]) -> Result<(), BoxError> {
        Ok(self.deployments(events).await?)
    }
}

/// Creates the launcher from the function's settings.
///
/// # Errors
///
/// [`SettingError`], which names the setting that is missing or invalid.
pub fn launcher(function: Function) -> Result<Launcher, BoxError> {
    let settings = Settings::read(function)?;
    let clients = Clients::new(&settings.aws);
    let table = Table::new(clients.dynamodb(), &settings.table).with_published_ends();
    let master_key =
        KmsMasterKey::new(clients.kms(), &settings.master_key, table.clone(), Arc::new(System))
            .created_for_table(settings.master_key_table.as_deref());
    let issuer = Arc::new(issuer(&settings, &clients.kms()));
    let endpoints = Endpoints::from_variables(&|name| std::env::var(name).ok());
    let signed_requests = SignedRequests::new(issuer.clone(), settings.local_jobs.is_some());
    let federation = Arc::new(Federation::new(issuer, endpoints, Arc::new(System)));
    let pace = Arc::new(TableRateLimiter { table: table.clone(), clock: Arc::new(System) });
    let local =
        if settings.allow_local_clusters { LocalClusters::Allowed } else { LocalClusters::Refused };
    let image = settings.runner_image.as_deref();
    let system: Arc<dyn Clock> = Arc::new(System);
    let mut platforms = platforms::direct(&federation, pace, image, local);
    // No hints here: agents that wait read the table each second.
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
        last_job_lists: Arc::default(),
        limits: Arc::default(),
        publisher: Some(Arc::new(EventBus::new(clients.eventbridge(), &settings.event_bus))),
        signed_requests: Some(Arc::new(signed_requests)),
    })
}

/// Runs jobs as processes beside the function: for tests and development.
#[cfg(feature = "local-jobs")]
fn local_jobs() -> Result<Option<Arc<dyn Platform>>, SettingError> {
    use canyon_dispatch::local::{
        LocalDispatcher, LocalSettings, inherited_environment, protect_this_process,
    };
    let Some(jobs) = std::env::var_os("CANYON_LOCAL_JOBS") else { return Ok(None) };
    protect_this_process().map_err(|_| {
        SettingError::new("CANYON_LOCAL_JOBS", "this process cannot be protected from its jobs")
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
    // The function may be frozen when a job ends: the sweep notices the end.
    let local = Arc::new(LocalDispatcher::new(settings, |_| {}));
    Ok(Some(Arc::new(local)))
}

#[cfg(not(feature = "local-jobs"))]
fn local_jobs() -> Result<Option<Arc<dyn Platform>>, SettingError> {
    if std::env::var_os("CANYON_LOCAL_JOBS").is_some() {
        let reason =
            "this build cannot run local jobs; only a build with the feature `local-jobs` can";
        return Err(SettingError::new("CANYON_LOCAL_JOBS", reason));
    }
    Ok(None)
}

/// What an invocation has done.
struct Swept {
    reconciled: HashSet<Due>,
    /// How long the deployment that waited longest had been due.
    oldest: SignedDuration,
}

/// Reconciles what is due until nothing is, or until `deadline` is near.
///
/// # Errors
///
/// [`LaunchError::Store`] if the list of due deployments cannot be read. The next invocation
/// retries.
pub async fn sweep(sweeper: &Sweeper, deadline: Timestamp) -> Result<(), BoxError> {
    let clock = &sweeper.launcher().clock;
    let mut tasks = JoinSet::new();
    let swept = run_passes(sweeper, deadline, &mut tasks).await;
    // Wait for the tasks that have begun. A task that does not end in time is cut off as by a kill: its deployment stays due.
    let left = (deadline - REPORT_RESERVE).duration_since(clock.now());
    let _ = tokio::time::timeout(left.try_into().unwrap_or_default(), join(&mut tasks)).await;
    let swept = swept?;
    report(sweeper.launcher().table.name(), clock.now(), &swept);
    Ok(())
}

async fn run_passes(
    sweeper: &Sweeper,
    deadline: Timestamp,
    tasks: &mut JoinSet<()>,
) -> Result<Swept, LaunchError> {
    let clock = &sweeper.launcher().clock;
    let mut swept = Swept { reconciled: HashSet::new(), oldest: SignedDuration::ZERO };
    let mut pause = PASS_PAUSE;
    loop {
        let pass = sweeper.pass(tasks).await?;
        if pass.due.is_empty() {
            return Ok(swept);
        }
        swept.oldest = swept.oldest.max(pass.oldest);
        let known = swept.reconciled.len();
        swept.reconciled.extend(pass.due);
        pause = if swept.reconciled.len() > known { PASS_PAUSE } else { pause * 2 };
        // The pass continues whether or not all tasks have ended by then.
        let _ = tokio::time::timeout(PASS_WAIT, join(tasks)).await;
        if clock.now() + pause + END_RESERVE >= deadline {
            return Ok(swept);
        }
        tokio::time::sleep(pause).await;
    }
}

async fn join(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// Writes metrics to the log (CloudWatch embedded metric format), which needs no permission and no
/// request.
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
        "SweptDeployments": swept.reconciled.len(),
    });
    #[expect(clippy::print_stdout, reason = "CloudWatch reads metrics from this stream")]
    {
        println!("{metrics}");
    }
}
