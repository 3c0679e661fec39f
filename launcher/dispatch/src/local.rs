//! The kind `local`: a job is the program `canyon-runner`, run as a process of this machine.
//!
//! Each job has its own folder, `<jobs>/<deployment>-<attempt>/`:
//!
//! | file | what |
//! |---|---|
//! | `lock` | locked by every process of the job, as its standard input |
//! | `pid` | the first process: its id, its start time, the machine's boot id |
//! | `asked-<pid>-<start>` | that process has received its one SIGTERM |
//! | `exit` | how the first process ended, if its parent saw it |
//! | `runner.log` | the runner's own output |
//! | `work/` | the runner's working folder, with its log and events |
//! | `tmp/` | for temporary files |
//!
//! So a restarted Canyon knows the jobs of its previous process ([`LocalDispatcher::adopt`]). The
//! lock proves a job dead: the kernel frees it with the last process of the job, and not before.
//! For that, the runner must start OpenTofu with its own standard input.

mod death;
mod folder;
mod process;
mod protection;
mod records;
mod spawn;
mod tree;
mod watch;

pub use protection::protect_this_process;
pub use spawn::inherited_environment;

use crate::{
    DispatchError, Dispatcher, JobRef, Launch, Platform, RemovalOutcome, Started, StopMode,
    TAIL_LIMIT, TailStream, Target,
};
use async_trait::async_trait;
use canyon_domain::{deadline::Observation, failure::FailureClass};
use folder::Folder;
use process::Stat;
use rustix::{fd::OwnedFd, process::Pid};
use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};
use tokio::process::Child;
use tree::State;

/// The file of the log in the runner's working folder. `canyon-runner` has the same constant,
/// because neither crate may depend on the other.
pub const LOG_FILE: &str = "log.txt";
/// The file of OpenTofu's `-json` output in the runner's working folder; see [`LOG_FILE`].
pub const EVENTS_FILE: &str = "events.jsonl";

/// How long a start waits for a concurrent start of the same job.
const START_WAIT: Duration = Duration::from_secs(2);
const START_PAUSE: Duration = Duration::from_millis(2);

/// The settings of jobs on this machine.
#[derive(Clone, Debug)]
pub struct LocalSettings {
    /// The path of the program `canyon-runner`.
    pub runner: PathBuf,
    /// The folder that contains the jobs' folders.
    pub jobs: PathBuf,
    /// The `PATH` of jobs.
    pub path: OsString,
    /// Further variables of Canyon's own environment for jobs; see [`inherited_environment`].
    pub inherited: BTreeMap<OsString, OsString>,
}

/// Runs jobs as processes of this machine.
pub struct LocalDispatcher {
    settings: Arc<LocalSettings>,
    watched: Arc<Mutex<HashSet<String>>>,
    on_gone: Arc<dyn Fn(JobRef) + Send + Sync>,
}

impl LocalDispatcher {
    /// Creates a dispatcher that calls `on_gone` after the death of each job that it started or
    /// adopted. The call is a hint: [`Dispatcher::observe`] decides.
    pub fn new(
        mut settings: LocalSettings,
        on_gone: impl Fn(JobRef) + Send + Sync + 'static,
    ) -> Self {
        // Jobs have another working folder. `absolute` fails only for an empty path, with which the start fails too.
        for path in [&mut settings.runner, &mut settings.jobs] {
            if let Ok(absolute) = std::path::absolute(&*path) {
                *path = absolute;
            }
        }
        Self { settings: Arc::new(settings), watched: Arc::default(), on_gone: Arc::new(on_gone) }
    }

    /// Adopts the jobs of a previous process: watches the living ones, and calls `on_gone` for the
    /// others. Returns all of them. Must be called within a Tokio runtime.
    ///
    /// # Errors
    ///
    /// If the folder of the jobs cannot be read.
    pub fn adopt(&self) -> io::Result<Vec<JobRef>> {
        let jobs = Folder::all(&self.settings.jobs)?;
        for job in &jobs {
            self.watch(job, None);
        }
        Ok(jobs)
    }

    fn folder(&self, job: &JobRef) -> Folder {
        Folder::of(&self.settings.jobs, job)
    }

    /// Watches the job unless it is watched.
    fn watch(&self, job: &JobRef, child: Option<Child>) {
        let folder = self.folder(job);
        let name = folder.name().to_owned();
        let is_new =
            self.watched.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        if !is_new && child.is_none() {
            return;
        }
        let (watched, on_gone, job) = (self.watched.clone(), self.on_gone.clone(), job.clone());
        tokio::spawn(async move {
            watch::until_gone(folder, child).await;
            watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
            on_gone(job);
        });
    }
}

/// All runners of this machine share one dispatcher.
impl Platform for Arc<LocalDispatcher> {
    fn dispatcher(&self, _: &Arc<Target>) -> Arc<dyn Dispatcher> {
        self.clone()
    }
}

#[async_trait]
impl Dispatcher for LocalDispatcher {
    async fn start(&self, launch: &Launch) -> Result<Started, DispatchError> {
        let (settings, folder, given) =
            (self.settings.clone(), self.folder(&launch.job), launch.clone());
        let (started, child) = blocking(move || start(&settings, &folder, &given)).await??;
        self.watch(&launch.job, child);
        Ok(started)
    }

    async fn observe(&self, job: &JobRef) -> Observation {
        let folder = self.folder(job);
        match blocking(move || observe(&folder)).await {
            Ok(Ok(observation)) => observation,
            Ok(Err(error)) => Observation::Unknown(format!("cannot observe the job: {error}")),
            Err(error) => Observation::Unknown(error.to_string()),
        }
    }

    async fn stop(&self, job: &JobRef, how: StopMode) -> Result<(), DispatchError> {
        let folder = self.folder(job);
        blocking(move || stop(&folder, how)).await?
    }

    async fn tail(
        &self,
        job: &JobRef,
        stream: TailStream,
        offset: u64,
    ) -> Result<Vec<u8>, DispatchError> {
        let name = match stream {
            TailStream::Log => LOG_FILE,
            TailStream::Events => EVENTS_FILE,
        };
        let path = self.folder(job).file("work").join(name);
        blocking(move || {
            records::read_from(&path, offset, TAIL_LIMIT)
                .map_err(|error| refused("read", &path, &error))
        })
        .await?
    }

    async fn forget(&self, job: &JobRef) -> RemovalOutcome {
        let folder = self.folder(job);
        let message = match blocking(move || forget(&folder)).await {
            Ok(Ok(remains)) => return remains,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(?job, error = message, "cannot remove the job's folder");
        RemovalOutcome::Removed
    }
}

/// Runs `work` on a blocking thread. Fails only while the process shuts down.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, DispatchError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        let message =
            format!("Canyon is stopping; it observes the job again after its restart ({error})");
        DispatchError::unknown(FailureClass::Lost, message)
    })
}

fn refused(what: &str, path: &Path, error: &io::Error) -> DispatchError {
    use io::ErrorKind as K;
    let class = match error.kind() {
        K::NotFound
        | K::PermissionDenied
        | K::NotADirectory
        | K::IsADirectory
        | K::ReadOnlyFilesystem
        | K::InvalidInput => FailureClass::Config,
        // ENOEXEC: not a program, or one for another processor.
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            FailureClass::Config
        }
        // Too many processes or open files, no memory, a full disk: may be temporary.
        _ => FailureClass::Capacity,
    };
    DispatchError::refused(class, format!("cannot {what} `{}`: {error}", path.display()))
}

fn start(
    settings: &LocalSettings,
    folder: &Folder,
    launch: &Launch,
) -> Result<(Started, Option<Child>), DispatchError> {
    let failed = |error: io::Error| refused("use the job's folder", &folder.path(), &error);
    let give_up = Instant::now() + START_WAIT;
    loop {
        folder.create().map_err(failed)?;
        // Only the holder of the lock starts the job. If the lock is free and a leader is recorded, the
        // job ran and is dead, and does not run again.
        let lock = folder.lock().map_err(failed)?;
        if folder.leader().map_err(failed)?.is_some() {
            return Ok((Started::Already(None), None));
        }
        if let Some(lock) = lock {
            return spawn(settings, folder, launch, lock);
        }
        // Another call starts the job now, or died after it did; or it only observes the job.
        if let State::Alive(_) | State::Leaderless(_) = tree::state(folder).map_err(failed)? {
            return Ok((Started::Already(None), None));
        }
        if Instant::now() > give_up {
            return Err(being_started(folder));
        }
        sleep(START_PAUSE);
    }
}

fn being_started(folder: &Folder) -> DispatchError {
    let message = format!("another process is starting job `{}`; observe it again", folder.name());
    DispatchError::unknown(FailureClass::Capacity, message)
}

fn spawn(
    settings: &LocalSettings,
    folder: &Folder,
    launch: &Launch,
    lock: OwnedFd,
) -> Result<(Started, Option<Child>), DispatchError> {
    let child = spawn::spawn(settings, folder, launch, lock)
        .map_err(|error| refused("run the runner program", &settings.runner, &error))?;
    // As our child, the process is at least a zombie until this process waits for it.
    let recorded = child
        .id()
        .and_then(|pid| Pid::from_raw(pid.cast_signed()))
        .and_then(Stat::read)
        .ok_or_else(|| io::Error::other("`/proc` does not show it"))
        .and_then(|stat| folder.record_leader(stat.process));
    if let Err(error) = recorded {
        // The job runs, and later calls find it by its lock.
        tracing::warn!(job = folder.name(), %error, "cannot record the job's process");
    }
    // The attempt's name identifies the folder and so the job: there is no handle to store.
    Ok((Started::Now(None), Some(child)))
}

fn observe(folder: &Folder) -> io::Result<Observation> {
    Ok(match tree::state(folder)? {
        State::NeverStarted => Observation::Gone(None),
        State::Starting | State::Alive(_) => Observation::Alive,
        State::Leaderless(leader) => {
            tree::stop_orphans(folder, &leader)?;
            Observation::Alive
        }
        State::Dead(leader) => Observation::Gone(Some(death::reason_of_death(folder, &leader)?)),
    })
}

fn stop(folder: &Folder, how: StopMode) -> Result<(), DispatchError> {
    let failed = |error: io::Error| refused("signal the job of", &folder.path(), &error);
    let state = tree::state(folder).map_err(failed)?;
    match (how, &state) {
        (_, State::Starting) => Err(being_started(folder)),
        (StopMode::Graceful, state) => tree::request_stop(folder, state).map_err(failed),
        (StopMode::Kill, state) => tree::kill(folder, state).map_err(failed),
    }
}

fn forget(folder: &Folder) -> io::Result<RemovalOutcome> {
    let give_up = Instant::now() + START_WAIT / 10;
    while folder.path().exists() {
        // An observer holds the lock for an instant; a living job keeps it.
        if let Some(_lock) = folder.lock()? {
            if let Some(leader) = folder.leader()? {
                if leader.is_alive()? && folder.was_started_for_job(leader.process)? {
                    return Ok(RemovalOutcome::JobAlive);
                }
                tree::kill_leftovers(folder, &leader)?;
            }
            return folder.remove().map(|()| RemovalOutcome::Removed);
        }
        if Instant::now() > give_up {
            return Ok(RemovalOutcome::JobAlive);
        }
        sleep(START_PAUSE);
    }
    Ok(RemovalOutcome::Removed)
}
