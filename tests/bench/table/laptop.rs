//! The launcher of `canyon local`, with a meter. As there (`crates/local/src/launching.rs`), writes, ended deployments and ended
//! jobs wake it. Only the passes over the index are left out, which find each second what these have missed.

use crate::Error;
use canyon_dispatch::local::{LocalDispatcher, LocalSettings};
use canyon_dispatch::{Dispatcher as _, JobRef, Platform};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::OrgUuid;
use canyon_domain::ports::Clock as _;
use canyon_domain::runner::RunnerType;
use canyon_functions::App;
use canyon_identity::system::System;
use canyon_launcher::{Launcher, Sweeper};
use canyon_store::deployment_lists::Due;
use canyon_store::due_writes::DueWrites;
use canyon_store::embedded::Embedded;
use canyon_store::write_requests::makes_due;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc::{self, Receiver, UnboundedReceiver};
use tokio::task::JoinSet;

/// Jobs that are processes, and the jobs that have ended.
pub(crate) struct Processes {
    pub(crate) platform: Arc<LocalDispatcher>,
    deaths: UnboundedReceiver<JobRef>,
}

impl Processes {
    pub(crate) fn new(folder: &Path, tofu: &Path) -> Result<Self, Error> {
        let runner: PathBuf = std::env::current_exe()?.with_file_name("canyon-runner");
        let tofu_folder = tofu.parent().ok_or("the path of tofu is not absolute")?;
        let settings = LocalSettings {
            runner,
            jobs: folder.join("jobs"),
            path: std::env::join_paths([tofu_folder, Path::new("/usr/bin"), Path::new("/bin")])?,
            inherited: BTreeMap::new(),
        };
        let (gone, deaths) = mpsc::unbounded_channel();
        let platform = LocalDispatcher::new(settings, move |job| {
            // The receiver lives as long as the launcher.
            let _ = gone.send(job);
        });
        Ok(Self { platform: Arc::new(platform), deaths })
    }
}

/// Opens the table. The receiver gets each write request that makes something due.
pub(crate) fn open(file: &Path) -> Result<(Embedded, UnboundedReceiver<Vec<u8>>), Error> {
    let (made_due, written) = mpsc::unbounded_channel();
    let on_write = Arc::new(move |request: &[u8]| {
        if makes_due(request, System.now()) {
            // The receiver lives as long as the launcher.
            let _ = made_due.send(request.to_vec());
        }
    });
    Ok((Embedded::open_with_request_hook(file, on_write)?, written))
}

/// What wakes the launcher.
pub(crate) struct Wakes {
    pub(crate) written: UnboundedReceiver<Vec<u8>>,
    pub(crate) ends: Receiver<(Due, Deployment)>,
    /// `None` for containers.
    pub(crate) processes: Option<Processes>,
}

pub(crate) fn launcher(
    app: &App,
    url: &str,
    kind: RunnerType,
    platform: Arc<dyn Platform>,
) -> Launcher {
    Launcher {
        organizations: Arc::default(),
        table: app.table.clone(),
        blobs: app.blobs.clone(),
        clock: Arc::clone(&app.clock),
        entropy: Arc::clone(&app.entropy),
        master_keys: Arc::clone(&app.master_keys),
        api_url: url.to_owned(),
        up_since: app.up_since,
        last_job_lists: Arc::default(),
        limits: Arc::default(),
        platforms: HashMap::from([(kind, platform)]),
        publisher: None,
        signed_requests: None,
    }
}

/// Runs the launcher for the jobs of `org`, until it is dropped.
pub(crate) async fn run(launcher: Launcher, org: OrgUuid, mut wakes: Wakes) {
    let (sweeper, mut tasks) = (Sweeper::new(launcher), JoinSet::new());
    loop {
        tokio::select! {
            Some(request) = wakes.written.recv() => {
                for (due, image) in DueWrites::of(&request, System.now()).deployments {
                    sweeper.begin_written(due, image, &mut tasks);
                }
            }
            Some((ended, image)) = wakes.ends.recv() => {
                sweeper.clean_up_ended(ended, Some(image), &mut tasks);
            }
            Some((job, platform)) = death(wakes.processes.as_mut()) => {
                // If the table cannot be read, the remains stay until this program ends.
                if let Ok(false) = sweeper.job_gone(org, &job, &mut tasks).await {
                    platform.forget(&job).await;
                }
            }
        }
        while tasks.try_join_next().is_some() {}
    }
}

/// The next process that has ended.
async fn death(processes: Option<&mut Processes>) -> Option<(JobRef, Arc<LocalDispatcher>)> {
    let Some(Processes { platform, deaths }) = processes else {
        return std::future::pending().await;
    };
    Some((deaths.recv().await?, Arc::clone(platform)))
}
