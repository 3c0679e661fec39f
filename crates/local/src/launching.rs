//! The launcher of a laptop: woken by committed writes and by deaths of jobs, and by the clock.

use canyon_dispatch::local::{LocalDispatcher, LocalSettings, inherited_environment};
use canyon_dispatch::{Dispatcher, JobRef};
use canyon_domain::causes::Causes;
use canyon_domain::runner::RunnerType;
use canyon_functions::App;
use canyon_launcher::{LaunchError, Launcher, Sweeper};
use canyon_store::embedded::Embedded;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
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

/// Tends deployments until it is dropped.
pub(crate) async fn run(
    app: App,
    embedded: Embedded,
    api_url: String,
    runner: PathBuf,
    data_dir: PathBuf,
) {
    let (gone, mut deaths) = mpsc::unbounded_channel::<JobRef>();
    let settings = LocalSettings {
        runner,
        jobs: data_dir.join("jobs"),
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
    let mut hints = app.changes.subscribe();
    let sweeper = Sweeper::new(Launcher {
        table: app.table,
        blobs: app.blobs,
        clock: app.clock,
        entropy: app.entropy,
        master_keys: app.master_keys,
        up_since: app.up_since,
        organizations: Arc::default(),
        api_url,
        platforms: HashMap::from([(RunnerType::Local, Arc::new(local.clone()) as _)]),
        publisher: None,
    });
    let mut tasks = JoinSet::new();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut expiry = Instant::now();
    loop {
        let looked = tokio::select! {
            Some(job) = deaths.recv() => job_gone(&sweeper, &local, &job, &mut tasks).await,
            _ = tick.tick() => sweeper.pass(&mut tasks).await.map(drop),
            changed = hints.changed() => match changed {
                Ok(()) => sweeper.pass(&mut tasks).await.map(drop),
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
