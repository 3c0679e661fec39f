//! The launcher of a laptop. Writes that make something due, ended jobs, ended deployments and the clock wake it.

use crate::LocalError;
use crate::containers::Containers;
use canyon_dispatch::local::{LocalDispatcher, LocalSettings, inherited_environment};
use canyon_dispatch::{Dispatcher, JobRef, Platform};
use canyon_domain::causes::Causes;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{AgentId, OrgUuid};
use canyon_domain::runner::RunnerType;
use canyon_functions::App;
use canyon_identity::federation::{Endpoints, Federation};
use canyon_identity::issuer::Issuer;
use canyon_identity::signed_request::SignedRequests;
use canyon_launcher::platforms::LocalClusters;
use canyon_launcher::rate_limiter::TableRateLimiter;
use canyon_launcher::{LaunchError, Launcher, Sweeper, agents, platforms};
use canyon_store::deployment_lists::Due;
use canyon_store::due_writes::DueWrites;
use canyon_store::embedded::Embedded;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};

/// How often the launcher looks for due deployments, with or without a hint.
const PASS_INTERVAL: Duration = Duration::from_secs(1);
/// The most write requests that wait for the launcher. A pass finds what further ones make due.
pub(crate) const MAX_WRITTEN: usize = 100;
/// The shortest time between two passes, however many hints come: each pass costs four queries.
const MIN_PASS_PAUSE: Duration = Duration::from_millis(2);
/// How often expired items are removed. On AWS, DynamoDB does that itself.
const EXPIRY: Duration = Duration::from_mins(10);

/// The program `canyon-runner`: beside this one, or on the `PATH`.
pub(crate) fn runner_program() -> Option<PathBuf> {
    const NAME: &str = "canyon-runner";
    let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name(NAME));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(NAME));
    beside.into_iter().chain(on_path).find(|program| program.is_file())
}

/// The settings for launching jobs.
pub(crate) struct LaunchSettings {
    /// The address at which jobs reach the API.
    pub(crate) api_url: String,
    /// Signs the tokens with which clouds let Canyon start jobs there.
    pub(crate) issuer: Arc<Issuer>,
    /// The program `canyon-runner`, for jobs on this machine.
    pub(crate) runner: PathBuf,
    /// The image of other jobs, if their runner names none.
    pub(crate) runner_image: Option<String>,
    /// The containers of runners of type `docker`.
    pub(crate) containers: Containers,
    /// The folder of all data.
    pub(crate) data_dir: PathBuf,
}

/// The platforms that this process starts jobs on directly, outside of this machine.
fn direct(app: &App, settings: &LaunchSettings) -> HashMap<RunnerType, Arc<dyn Platform>> {
    let endpoints = Endpoints::from_variables(&|name| std::env::var(name).ok());
    let federation = Federation::new(settings.issuer.clone(), endpoints, app.clock.clone());
    let turns = Arc::new(TableRateLimiter { table: app.table.clone(), clock: app.clock.clone() });
    // A laptop's cluster often runs on the laptop itself.
    let local = LocalClusters::Allowed;
    platforms::direct(&Arc::new(federation), turns, settings.runner_image.as_deref(), local)
}

/// The platforms whose jobs agents start.
fn agents(
    app: &App,
    image: Option<&str>,
    here: Arc<dyn Platform>,
) -> HashMap<RunnerType, Arc<dyn Platform>> {
    let hints = app.agents.hints.clone();
    let hint = move |org, agent: &AgentId| hints.hint(org, agent);
    agents::platforms(&app.table, &app.clock, Arc::new(hint), image, Some(here))
}

/// Launches and reconciles the deployments of the laptop's organization until it is dropped.
pub(crate) async fn run(
    app: App,
    org: OrgUuid,
    mut ends: mpsc::Receiver<(Due, Deployment)>,
    mut written: mpsc::Receiver<Vec<u8>>,
    embedded: Embedded,
    launch: LaunchSettings,
) {
    let (gone, mut deaths) = mpsc::unbounded_channel::<JobRef>();
    let mut platforms = direct(&app, &launch);
    // On a laptop, a service that checks plans may run beside Canyon.
    let signed_requests = SignedRequests::new(launch.issuer.clone(), app.serves_local_runners);
    let settings = LocalSettings {
        runner: launch.runner,
        jobs: launch.data_dir.join("jobs"),
        path: std::env::var_os("PATH").unwrap_or_default(),
        inherited: inherited_environment(),
    };
    let local = Arc::new(LocalDispatcher::new(settings, move |job| {
        // The receiver lives as long as this function runs.
        let _ = gone.send(job);
    }));
    if let Err(error) = local.adopt() {
        tracing::error!(%error, "cannot find the jobs of an earlier run");
    }
    let containers = launch.containers;
    platforms.insert(RunnerType::Docker, Arc::new(containers.clone()));
    platforms.extend(agents(&app, launch.runner_image.as_deref(), Arc::new(local.clone())));
    let sweeper = Sweeper::new(Launcher {
        table: app.table,
        blobs: app.blobs,
        clock: app.clock,
        entropy: app.entropy,
        master_keys: app.master_keys,
        up_since: app.up_since,
        organizations: Arc::default(),
        api_url: launch.api_url,
        platforms,
        last_job_lists: Arc::default(),
        limits: Arc::default(),
        publisher: None,
        signed_requests: Some(Arc::new(signed_requests)),
    });
    let mut tasks = JoinSet::new();
    let (found, mut adopted) = mpsc::unbounded_channel();
    tasks.spawn(async move {
        for job in containers.adopt(org).await {
            // The receiver lives as long as this function runs.
            let _ = found.send(Due { org, id: job.deployment });
        }
    });
    let mut tick = tokio::time::interval(PASS_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut expiry, mut requests) = (Instant::now(), Vec::new());
    loop {
        let passed = tokio::select! {
            Some(job) = deaths.recv() => job_gone(&sweeper, &local, org, &job, &mut tasks).await,
            Some((ended, image)) = ends.recv() => {
                sweeper.clean_up_ended(ended, Some(image), &mut tasks);
                Ok(())
            }
            // If its deployment has ended, the earlier run may have been killed before it removed the container.
            Some(job) = adopted.recv() => {
                sweeper.clean_up_ended(job, None, &mut tasks);
                Ok(())
            }
            _ = tick.tick() => sweeper.pass(&mut tasks).await.map(drop),
            count = written.recv_many(&mut requests, MAX_WRITTEN) => match count {
                0 => return,
                _ => begin_written(&sweeper, requests.drain(..), &mut tasks).await,
            },
        };
        if let Err(error) = passed {
            tracing::warn!(error = %Causes(&error), "cannot find due deployments; retrying");
        }
        tokio::time::sleep(MIN_PASS_PAUSE).await;
        if expiry.elapsed() >= EXPIRY {
            expiry = Instant::now();
            if let Err(error) = embedded.remove_expired().await {
                tracing::warn!(%error, "cannot remove expired items");
            }
        }
    }
}

/// Begins what these write requests make due. As many as can wait may be not all of them: then a pass finds the others.
async fn begin_written(
    sweeper: &Sweeper,
    requests: impl ExactSizeIterator<Item = Vec<u8>>,
    tasks: &mut JoinSet<()>,
) -> Result<(), LaunchError> {
    let now = sweeper.launcher().clock.now();
    let mut has_others = requests.len() >= MAX_WRITTEN;
    for request in requests {
        let made = DueWrites::of(&request, now);
        has_others |= made.has_others;
        for (due, image) in made.deployments {
            sweeper.begin_written(due, image, tasks);
        }
    }
    if has_others {
        sweeper.note_write();
        sweeper.pass(tasks).await?;
    }
    Ok(())
}

/// Returns when the process is asked to end, or with an error when the launcher stops. A server without its launcher
/// would accept deployments that never start, so the process must end with it.
pub(crate) async fn until_asked(
    asked: impl Future<Output = ()>,
    launching: &mut JoinHandle<()>,
) -> Result<(), LocalError> {
    tokio::select! {
        () = asked => Ok(()),
        _ = launching => Err(LocalError::Launcher),
    }
}

async fn job_gone(
    sweeper: &Sweeper,
    local: &LocalDispatcher,
    org: OrgUuid,
    job: &JobRef,
    tasks: &mut JoinSet<()>,
) -> Result<(), LaunchError> {
    if !sweeper.job_gone(org, job, tasks).await? {
        local.forget(job).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_process_ends_with_an_error_if_the_launcher_stops_and_without_one_after_a_signal() {
        let mut dead = tokio::spawn(async { panic!("the launcher dies") });
        let ended = until_asked(std::future::pending(), &mut dead).await;
        assert!(matches!(ended, Err(LocalError::Launcher)), "{ended:?}");
        let mut returned = tokio::spawn(async {});
        let ended = until_asked(std::future::pending(), &mut returned).await;
        assert!(matches!(ended, Err(LocalError::Launcher)), "{ended:?}");
        let mut alive = tokio::spawn(std::future::pending());
        assert!(until_asked(std::future::ready(()), &mut alive).await.is_ok());
    }
}
