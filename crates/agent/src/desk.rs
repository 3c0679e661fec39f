//! What the agent has in hand: its jobs, and what each is told.

use crate::exit::Exit;
use crate::job::{self, JobLoop, Place};
use crate::job_api_url::job_api_url;
use crate::kinds::{self, Kind};
use crate::line::Line;
use crate::reporter::Reporter;
use crate::settings::Settings;
use crate::status::Status;
use crate::stop::Stop;
use crate::take::InDoubt;
use crate::unread_order::UnreadOrder;
use canyon_api::agent::{HeldJob, JobKey, JobWish, SessionOpened, TailRequest, TakenJob};
use canyon_dispatch::{Dispatcher, Launch, Target};
use canyon_domain::agent_job::{JobOrder, Wish};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::ids::{OrgId, OrgUuid};
use canyon_domain::runner::RunnerDefinition;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

/// Where a job reaches Canyon.
const API_URL: &str = "CANYON_API_URL";
/// Requests for output that one job may have waiting.
const TAILS: usize = 4;

/// The agent at work.
pub(crate) struct Desk {
    pub(crate) settings: Arc<Settings>,
    pub(crate) line: Arc<Line>,
    pub(crate) kind: Arc<dyn Kind>,
    pub(crate) status: Arc<Status>,
    pub(crate) stop: Stop,
    pub(crate) reporter: Reporter,
    /// Jobs that Canyon says are not this agent's any more.
    pub(crate) lost: mpsc::UnboundedReceiver<JobKey>,
    /// Reports that are not delivered yet.
    pub(crate) undelivered: watch::Receiver<usize>,
    pub(crate) session: watch::Sender<Option<u64>>,
    pub(crate) jobs: HashMap<JobKey, InHand>,
    pub(crate) tasks: JoinSet<()>,
    pub(crate) freed: Arc<Notify>,
    pub(crate) in_doubt: InDoubt,
    /// Whether the one job of `--single` was taken.
    pub(crate) has_taken: bool,
    /// Jobs of which the last answer wanted something, and of which this process knows nothing.
    pub(crate) unknown: Vec<JobKey>,
    /// Another process speaks for the agent, and this one waits until that one is gone.
    pub(crate) stands_by: bool,
}

/// One job.
pub(crate) struct InHand {
    wish: watch::Sender<Wish>,
    tails: mpsc::Sender<TailRequest>,
    place: Place,
    task: AbortHandle,
}

impl Desk {
    /// Jobs that take a place.
    pub(crate) fn running(&self) -> u32 {
        let runs = |job: &&InHand| job.place.taken.load(Ordering::Relaxed);
        u32::try_from(self.jobs.values().filter(runs).count()).unwrap_or(u32::MAX)
    }

    /// Most jobs at once.
    pub(crate) fn concurrency(&self) -> u32 {
        if self.settings.single { 1 } else { self.settings.concurrency }
    }

    /// A session begins: goes on with what it holds, drops what it does not, and ends what nobody waits for.
    pub(crate) fn begin(&mut self, opened: SessionOpened) {
        // Of those that are held and not told yet, the first polls tell: whatever runs of them goes on.
        let told = opened.held.iter().map(|held| held.job);
        let held: HashSet<JobKey> = told.chain(opened.held_later.iter().copied()).collect();
        let gone: Vec<_> = self.jobs.keys().filter(|job| !held.contains(job)).copied().collect();
        for job in gone {
            self.drop_job(&job);
        }
        self.in_doubt.keep(|job| held.contains(job));
        for held in opened.held {
            self.resume(held);
        }
        for stray in opened.strays {
            self.clear(stray);
        }
    }

    /// Goes on with a job of an earlier session, or of an agent of the same place that is gone. Returns whether it
    /// knew nothing of it.
    pub(crate) fn resume(&mut self, held: HeldJob) -> bool {
        if self.tell(&JobWish { job: held.job, wish: held.wish }) {
            return false;
        }
        // Its take had gone through. It is asked for again, as that answer says what the job is started with.
        if held.wish == Wish::Run && self.in_doubt.jobs.contains(&held.job) {
            return false;
        }
        self.in_doubt.keep(|job| *job != held.job);
        tracing::info!(job = %job::name(&held.job), wish = ?held.wish, "goes on");
        let dispatcher = self.dispatcher(&held.job, &held.order).unwrap_or_else(|reason| {
            tracing::error!(job = %job::name(&held.job), "cannot look at a job: {reason}");
            Arc::new(UnreadOrder::Held(reason))
        });
        self.spawn(held.job, dispatcher, None, held.handle, held.wish);
        true
    }

    /// Starts what was taken.
    pub(crate) fn start(&mut self, taken: TakenJob) {
        let TakenJob { job: key, order, environment } = taken;
        self.has_taken = true;
        let dispatcher = match self.dispatcher(&key, &order) {
            Ok(dispatcher) => dispatcher,
            Err(reason) => {
                let failure = Failure::new(FailureClass::Config, reason);
                let dispatcher = Arc::new(UnreadOrder::NeverStarted(failure));
                return self.spawn(key, dispatcher, None, None, Wish::Run);
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
        };
        self.spawn(key, dispatcher, Some(launch), None, Wish::Run);
    }

    fn dispatcher(&self, key: &JobKey, order: &JobOrder) -> Result<Arc<dyn Dispatcher>, String> {
        if order.kind != self.kind.serves() {
            let (own, wanted) = (self.kind.serves().as_str(), order.kind.as_str());
            return Err(format!("this agent launches jobs of `{own}`, not of `{wanted}`"));
        }
        let definition = RunnerDefinition::parse_stored(order.definition.clone())
            .and_then(RunnerDefinition::usable)
            .map_err(|faults| format!("the runner `{}`: {faults}", order.runner_id))?;
        let target = Target {
            org: org_uuid(&order.org_id),
            org_id: order.org_id.clone(),
            runner: key.runner,
            runner_id: order.runner_id.clone(),
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
        wish: Wish,
    ) {
        let (wish, wishes) = watch::channel(wish);
        let (tails, asked) = mpsc::channel(TAILS);
        let place = Place { taken: Arc::new(AtomicBool::new(true)), freed: self.freed.clone() };
        let job = JobLoop {
            key,
            reference: kinds::reference(&key, handle),
            dispatcher,
            launch,
            wish: wishes,
            tails: asked,
            hint: self.kind.hint(),
            place: place.clone(),
            reporter: self.reporter.clone(),
        };
        let task = self.tasks.spawn(job.run());
        self.jobs.insert(key, InHand { wish, tails, place, task });
    }

    /// Ends and clears away what nobody waits for, and says nothing of it.
    fn clear(&mut self, key: JobKey) {
        let Some(dispatcher) = self.kind.clearer(&key) else { return };
        tracing::info!(job = %job::name(&key), "clears away a job that nobody waits for");
        let (wish, wishes) = watch::channel(Wish::Forget);
        let (_, tails) = mpsc::channel(1);
        let job = JobLoop {
            key,
            reference: kinds::reference(&key, None),
            dispatcher,
            launch: None,
            wish: wishes,
            tails,
            hint: self.kind.hint(),
            place: Place { taken: Arc::default(), freed: Arc::default() },
            reporter: Reporter::new(self.status.clone()).0,
        };
        self.tasks.spawn(async move {
            job.run().await;
            drop(wish);
        });
    }

    /// Tells a job what Canyon wants; `false` if this agent does not know it.
    pub(crate) fn tell(&self, wanted: &JobWish) -> bool {
        let Some(job) = self.jobs.get(&wanted.job) else { return false };
        job.wish.send_if_modified(|wish| {
            let new = wanted.wish > *wish;
            *wish = (*wish).max(wanted.wish);
            new
        });
        true
    }

    /// Asks a job for its output. One that has much to answer is asked again by Canyon.
    pub(crate) fn ask(&self, tail: TailRequest) {
        if let Some(job) = self.jobs.get(&tail.job) {
            let _ = job.tails.try_send(tail);
        }
    }

    /// Leaves a job alone: another watches it.
    pub(crate) fn drop_job(&mut self, key: &JobKey) {
        if let Some(job) = self.jobs.remove(key) {
            tracing::info!(job = %job::name(key), "is left alone");
            job.task.abort();
        }
    }

    /// Drops what has ended.
    pub(crate) fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        self.jobs.retain(|_, job| !job.task.is_finished());
        self.status.runs(usize::try_from(self.running()).unwrap_or(usize::MAX));
    }

    /// Takes leave, so that what was offered goes to others at once.
    pub(crate) async fn leave(&self, session: u64) -> Exit {
        let patience = std::time::Duration::from_secs(5);
        let left = tokio::time::timeout(patience, self.line.leave(session)).await;
        if !matches!(left, Ok(Ok(()))) {
            tracing::info!("could not take leave of Canyon; it notices within a minute");
        }
        Exit::Done
    }
}

/// A name for the organization where one of this form is wanted. Canyon does not tell its own; every name of
/// a job has the runner's and the deployment's uuid besides.
fn org_uuid(org: &OrgId) -> OrgUuid {
    let hash = Sha256::digest(org.as_str());
    let bytes = hash.first_chunk().copied().unwrap_or_default();
    OrgUuid(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

#[cfg(test)]
mod tests;
