//! The launcher of a laptop: woken by committed writes, by deaths of jobs and ends of deployments, and by the
//! clock.

use crate::LocalError;
use canyon_dispatch::local::{LocalDispatcher, LocalSettings, inherited_environment};
use canyon_dispatch::{Dispatcher, JobRef, Platform};
use canyon_domain::causes::Causes;
use canyon_domain::ids::AgentId;
use canyon_domain::runner::RunnerType;
use canyon_functions::App;
use canyon_identity::federation::{Endpoints, Federation};
use canyon_identity::issuer::Issuer;
use canyon_launcher::pace::TablePace;
use canyon_launcher::platforms::LocalClusters;
use canyon_launcher::{LaunchError, Launcher, Sweeper, agents, platforms};
use canyon_store::deployment_lists::Due;
use canyon_store::embedded::Embedded;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};

/// A look at what is due, hint or no hint.
const TICK: Duration = Duration::from_secs(1);
/// Between two looks, however many hints come: each look costs four queries.
const BREATH: Duration = Duration::from_millis(2);
/// DynamoDB deletes expired items by itself; here it is done this often.
const EXPIRY: Duration = Duration::from_mins(10);

/// The program `canyon-runner`: beside this one, or on the `PATH`.
pub(crate) fn runner_program() -> Option<PathBuf> {
    const NAME: &str = "canyon-runner";
    let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name(NAME));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(NAME));
    beside.into_iter().chain(on_path).find(|program| program.is_file())
}

/// Where jobs run, and where they reach Canyon.
pub(crate) struct Place {
    /// Where jobs reach the API.
    pub(crate) api_url: String,
    /// Signs the tokens by which clouds let Canyon start the jobs of other places.
    pub(crate) issuer: Arc<Issuer>,
    /// The program of jobs on this machine.
    pub(crate) runner: PathBuf,
    /// The image of other jobs, where a runner names no other.
    pub(crate) runner_image: Option<String>,
    /// Where everything is kept.
    pub(crate) data_dir: PathBuf,
}

/// What starts the jobs of other places than this machine.
fn direct(app: &App, place: &Place) -> HashMap<RunnerType, Arc<dyn Platform>> {
    let endpoints = Endpoints::from_variables(&|name| std::env::var(name).ok());
    let federation = Federation::new(place.issuer.clone(), endpoints, app.clock.clone());
    let turns = Arc::new(TablePace { table: app.table.clone(), clock: app.clock.clone() });
    // A laptop's cluster is often on it.
    let local = LocalClusters::Allowed;
    platforms::direct(&Arc::new(federation), turns, place.runner_image.as_deref(), local)
}

/// What has the jobs of other networks started.
fn agents(
    app: &App,
    image: Option<&str>,
    here: Arc<dyn Platform>,
) -> HashMap<RunnerType, Arc<dyn Platform>> {
    let hints = app.agents.hints.clone();
    let hint = move |org, agent: &AgentId| hints.hint(org, agent);
    agents::platforms(&app.table, &app.clock, Arc::new(hint), image, Some(here))
}

/// Tends deployments until it is dropped.
pub(crate) async fn run(app: App, mut ends: mpsc::Receiver<Due>, embedded: Embedded, place: Place) {
    let (gone, mut deaths) = mpsc::unbounded_channel::<JobRef>();
    let mut platforms = direct(&app, &place);
    let settings = LocalSettings {
        runner: place.runner,
        jobs: place.data_dir.join("jobs"),
        path: std::env::var_os("PATH").unwrap_or_default(),
        inherited: inherited_environment(),
    };
    let local = Arc::new(LocalDispatcher::new(settings, move |job| {
        // The receiver lives as long as this function runs.
        let _ = gone.send(job);
    }));
    if let Err(error) = local.adopt() {
        tracing::error!(%error, "cannot look for the jobs of an earlier run");
    }
    platforms.extend(agents(&app, place.runner_image.as_deref(), Arc::new(local.clone())));
    let mut hints = app.changes.subscribe();
    let sweeper = Sweeper::new(Launcher {
        table: app.table,
        blobs: app.blobs,
        clock: app.clock,
        entropy: app.entropy,
        master_keys: app.master_keys,
        up_since: app.up_since,
        organizations: Arc::default(),
        api_url: place.api_url,
        platforms,
        last_looks: Arc::default(),
        limits: Arc::default(),
        publisher: None,
    });
    let mut tasks = JoinSet::new();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut expiry = Instant::now();
    loop {
        let looked = tokio::select! {
            Some(job) = deaths.recv() => job_gone(&sweeper, &local, &job, &mut tasks).await,
            Some(ended) = ends.recv() => {
                sweeper.ended(ended, &mut tasks);
                Ok(())
            }
            _ = tick.tick() => sweeper.pass(&mut tasks).await.map(drop),
            changed = hints.changed() => match changed {
                Ok(()) => {
                    sweeper.hinted();
                    sweeper.pass(&mut tasks).await.map(drop)
                }
                Err(_) => return,
            },
        };
        if let Err(error) = looked {
            tracing::warn!(error = %Causes(&error), "cannot look for what is due; trying again");
        }
        tokio::time::sleep(BREATH).await;
        if expiry.elapsed() >= EXPIRY {
            expiry = Instant::now();
            if let Err(error) = embedded.remove_expired().await {
                tracing::warn!(%error, "cannot remove what has expired");
            }
        }
    }
}

/// Until the process is asked to end. A server without what launches jobs would accept deployments
/// that nobody begins: its end is the process's end.
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
    job: &JobRef,
    tasks: &mut JoinSet<()>,
) -> Result<(), LaunchError> {
    if !sweeper.job_gone(job, tasks).await? {
        local.forget(job).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_launchers_death_ends_the_process_and_a_signal_does_so_in_peace() {
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
