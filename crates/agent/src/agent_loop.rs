//! The agent's loop in one organization: its connection, its session and its jobs, and what Canyon wants of each job.

use crate::connection::ApiConnection;
use crate::exit::Exit;
use crate::job::{JobLoop, JobSlot};
use crate::job_api_url::job_api_url;
use crate::job_name::job_name;
use crate::kinds::{self, Kind};
use crate::places::Places;
use crate::reporter::Reporter;
use crate::settings::Settings;
use crate::settings::served::Served;
use crate::status::Status;
use crate::stop::Stop;
use crate::unconfirmed_takes::UnconfirmedTakes;
use crate::unreadable_job::UnreadableJob;
use canyon_api::agent::{HeldJob, JobDesiredState, JobKey, SessionOpened, TailRequest, TakenJob};
use canyon_dispatch::{Dispatcher, Launch, Target};
use canyon_domain::agent_job::{DesiredState, JobSpec};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::ids::{OrgId, OrgUuid};
use canyon_domain::runner::RunnerDefinition;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tracing::Instrument as _;

/// The variable with the address at which a job reaches Canyon.
const API_URL: &str = "CANYON_API_URL";
/// The most pending requests for output of one job.
const TAILS: usize = 4;

/// The running agent, in one of its organizations.
pub(crate) struct AgentLoop {
    pub(crate) settings: Arc<Settings>,
    /// The organization of this loop.
    pub(crate) served: Served,
    pub(crate) api: Arc<ApiConnection>,
    pub(crate) kind: Arc<dyn Kind>,
    pub(crate) status: Arc<Status>,
    pub(crate) stop: Stop,
    pub(crate) reporter: Reporter,
    /// Jobs that Canyon reports as not this agent's any more.
    pub(crate) lost: mpsc::UnboundedReceiver<JobKey>,
    /// How many reports are not delivered yet.
    pub(crate) undelivered: watch::Receiver<usize>,
    pub(crate) session: watch::Sender<Option<u64>>,
    pub(crate) jobs: HashMap<JobKey, RunningJob>,
    pub(crate) tasks: JoinSet<()>,
    /// The places for jobs, which the loops of the other organizations share.
    pub(crate) places: Arc<Places>,
    pub(crate) unconfirmed: UnconfirmedTakes,
    /// Whether the one job of `--single` was taken.
    pub(crate) has_taken: bool,
    /// Jobs that the last answer had a desired state for, and that this process does not know.
    pub(crate) unknown: Vec<JobKey>,
    /// Whether another process has the agent's session, and this one waits for its end.
    pub(crate) stands_by: bool,
}

/// The handle of one job's task.
pub(crate) struct RunningJob {
    desired: watch::Sender<DesiredState>,
    tails: mpsc::Sender<TailRequest>,
    slot: JobSlot,
    task: AbortHandle,
}

impl AgentLoop {
    /// The number of its jobs that run.
    pub(crate) fn running(&self) -> u32 {
        let runs = |job: &&RunningJob| job.slot.is_taken();
        u32::try_from(self.jobs.values().filter(runs).count()).unwrap_or(u32::MAX)
    }

    /// The number of places that Canyon cannot use, because jobs of this or another organization have them. Those that
    /// are offered to this one do not count.
    pub(crate) fn occupied(&self) -> u32 {
        let offered = u32::try_from(self.unconfirmed.jobs.len()).unwrap_or(u32::MAX);
        self.places.taken().saturating_sub(offered)
    }

    /// Begins a session: watches the jobs that the agent holds, drops the others, and cleans up orphaned jobs.
    pub(crate) fn begin(&mut self, opened: SessionOpened) {
        // The first polls tell more about the jobs in `held_later`: if this process watches one, it continues to.
        let named = opened.held.iter().map(|held| held.job);
        let held: HashSet<JobKey> = named.chain(opened.held_later.iter().copied()).collect();
        let gone: Vec<_> = self.jobs.keys().filter(|job| !held.contains(job)).copied().collect();
        for job in gone {
            self.drop_job(&job);
        }
        self.unconfirmed.keep(|job| held.contains(job));
        for held in opened.held {
            self.resume(held);
        }
        for orphan in opened.orphaned {
            self.clean_up(orphan);
        }
    }

    /// Watches a job of an earlier session, or of an agent of the same place that is gone. Returns whether this process did
    /// not know the job.
    pub(crate) fn resume(&mut self, held: HeldJob) -> bool {
        if self.set_desired_state(&JobDesiredState { job: held.job, desired: held.desired }) {
            return false;
        }
        // Canyon has recorded its take, but the answer was lost. The take is repeated, because only its answer has the
        // environment that the job is started with.
        if held.desired == DesiredState::Run && self.unconfirmed.jobs.contains(&held.job) {
            return false;
        }
        self.unconfirmed.keep(|job| *job != held.job);
        tracing::info!(job = %job_name(&held.job), wish = ?held.desired, "watching a job of an earlier session");
        let dispatcher = self.dispatcher(&held.job, &held.spec).unwrap_or_else(|reason| {
            tracing::error!(job = %job_name(&held.job), "cannot watch a job: {reason}");
            Arc::new(UnreadableJob::Held(reason))
        });
        self.spawn(held.job, dispatcher, None, held.handle, held.desired);
        true
    }

    /// Starts a job that was taken.
    pub(crate) fn start(&mut self, taken: TakenJob) {
        let TakenJob { job: key, spec: order, environment } = taken;
        self.has_taken = true;
        let dispatcher = match self.dispatcher(&key, &order) {
            Ok(dispatcher) => dispatcher,
            Err(reason) => {
                let failure = Failure::new(FailureClass::Config, reason);
                let dispatcher = Arc::new(UnreadableJob::NeverStarted(failure));
                return self.spawn(key, dispatcher, None, None, DesiredState::Run);
            }
        };
        let mut environment: std::collections::BTreeMap<_, _> =
            environment.into_iter().map(|(name, value)| (name, value.into())).collect();
        let setting = self.settings.dispatcher.api_url.as_deref();
        let advertised = environment.get(API_URL).map(|url: &SecretString| url.expose_secret());
        if let Some(url) = job_api_url(setting, advertised, &self.settings.api_url) {
            let url = url.to_owned().into();
            environment.insert(API_URL.to_owned(), url);
        }
        let launch = Launch {
            job: kinds::reference(&key, None),
            environment,
            project: order.project,
            env: order.env,
            launched_at: order.launched_at,
            container: order.container,
        };
        self.spawn(key, dispatcher, Some(launch), None, DesiredState::Run);
    }

    fn dispatcher(&self, key: &JobKey, spec: &JobSpec) -> Result<Arc<dyn Dispatcher>, String> {
        if spec.kind != self.kind.serves() {
            let (own, wanted) = (self.kind.serves().as_str(), spec.kind.as_str());
            return Err(format!("this agent launches jobs of `{own}`, not of `{wanted}`"));
        }
        let definition = RunnerDefinition::parse_stored(spec.definition.clone())
            .and_then(RunnerDefinition::usable)
            .map_err(|faults| format!("the runner `{}`: {faults}", spec.runner_id))?;
        let target = Target {
            org: org_uuid(&spec.org_id),
            org_id: spec.org_id.clone(),
            runner: key.runner,
            runner_id: spec.runner_id.clone(),
            definition,
            agent: None,
        };
        Ok(self.kind.dispatcher(&Arc::new(target)))
    }

    fn spawn(
        &mut self,
        key: JobKey,
        dispatcher: Arc<dyn Dispatcher>,
        launch: Option<Launch>,
        handle: Option<String>,
        desired: DesiredState,
    ) {
        let (desired, desired_states) = watch::channel(desired);
        let (tails, asked) = mpsc::channel(TAILS);
        let slot = JobSlot::of(self.places.take());
        let job = JobLoop {
            key,
            reference: kinds::reference(&key, handle),
            dispatcher,
            names_image: launch.as_ref().is_none_or(|launch| launch.container.is_some()),
            launch,
            desired: desired_states,
            tails: asked,
            hint: self.kind.hint(),
            slot: slot.clone(),
            reporter: self.reporter.clone(),
        };
        let task = self.tasks.spawn(job.run().in_current_span());
        self.jobs.insert(key, RunningJob { desired, tails, slot, task });
    }

    /// Stops and removes an orphaned job, without a report to Canyon.
    fn clean_up(&mut self, key: JobKey) {
        let Some(dispatcher) = self.kind.cleaner(&key) else { return };
        tracing::info!(job = %job_name(&key), "removing an orphaned job");
        let (desired, desired_states) = watch::channel(DesiredState::Forget);
        let (_, tails) = mpsc::channel(1);
        let job = JobLoop {
            key,
            reference: kinds::reference(&key, None),
            dispatcher,
            names_image: false,
            launch: None,
            desired: desired_states,
            tails,
            hint: self.kind.hint(),
            slot: JobSlot::default(),
            reporter: Reporter::new(self.status.clone()).0,
        };
        let removal = async move {
            job.run().await;
            drop(desired);
        };
        self.tasks.spawn(removal.in_current_span());
    }

    /// Passes the desired state on to the job. Returns `false` if this agent does not know the job.
    pub(crate) fn set_desired_state(&self, wanted: &JobDesiredState) -> bool {
        let Some(job) = self.jobs.get(&wanted.job) else { return false };
        job.desired.send_if_modified(|desired| {
            let new = wanted.desired > *desired;
            *desired = (*desired).max(wanted.desired);
            new
        });
        true
    }

    /// Asks a job for its output. If too many requests are pending, this one is dropped, and Canyon repeats it.
    pub(crate) fn request_output(&self, tail: TailRequest) {
        if let Some(job) = self.jobs.get(&tail.job) {
            let _ = job.tails.try_send(tail);
        }
    }

    /// Stops to watch a job, which goes on: another process watches it.
    pub(crate) fn drop_job(&mut self, key: &JobKey) {
        if let Some(job) = self.jobs.remove(key) {
            tracing::info!(job = %job_name(key), "no longer watching a job");
            job.task.abort();
            job.slot.free();
        }
    }

    /// Drops the handles of jobs that have ended.
    pub(crate) fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        self.jobs.retain(|_, job| !job.task.is_finished());
        self.status.set_running(usize::try_from(self.running()).unwrap_or(usize::MAX));
    }

    /// Ends the session, so that Canyon offers its jobs to other agents at once.
    pub(crate) async fn leave(&self, session: u64) -> Exit {
        let limit = std::time::Duration::from_secs(5);
        let left = tokio::time::timeout(limit, self.api.leave(session)).await;
        if !matches!(left, Ok(Ok(()))) {
            tracing::info!("could not end the session; Canyon notices within a minute");
        }
        Exit::Done
    }
}

/// A uuid for the organization, where a dispatcher needs one. Canyon does not send the organization's own uuid to
/// agents. Names of jobs also contain the uuids of the runner and the deployment.
fn org_uuid(org: &OrgId) -> OrgUuid {
    let hash = Sha256::digest(org.as_str());
    let bytes = hash.first_chunk().copied().unwrap_or_default();
    OrgUuid(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

#[cfg(test)]
mod tests;
