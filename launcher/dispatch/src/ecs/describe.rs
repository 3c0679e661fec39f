//! Describes tasks: many at once by their ARNs, one by its `startedBy`.

use super::injection;
use super::refusal::Refusals;
use super::session::Clients;
use super::stopped;
use super::{CONTAINER, EcsDispatcher};
use crate::{DispatchError, JobRef, StopMode};
use aws_sdk_ecs::Client;
use aws_sdk_ecs::types::{DesiredStatus, Task};
use canyon_domain::causes::Causes;
use canyon_domain::commit::Commit;
use canyon_domain::deadline::Observation;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a request waits for others, to be joined with them into one call.
const BATCH_DELAY: Duration = Duration::from_millis(50);
/// The maximum number of tasks in one call (API reference, `DescribeTasks`).
const MAX_TASKS: usize = 100;
/// ECS shows a stopped task for an hour at least. Until then, a task that is missing is one that
/// ECS does not show yet.
const STOPPED_SHOWN: SignedDuration = SignedDuration::from_hours(1);

/// How long a task must be missing from the answers of ECS before it counts as gone. ECS is
/// eventually consistent and names no bound; it advises to wait seconds first, and minutes later
/// (API reference, `RunTask`).
const MISSING_GRACE: SignedDuration = SignedDuration::from_mins(2);
/// How long an entry of [`Missing`] is kept: no task is observed for longer.
const ENTRY_LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// A request for a task, and where to send the answer.
type Request = (String, oneshot::Sender<Answer>);
type Answer = Result<Option<Task>, String>;

/// Joins requests for tasks of one cluster into few calls.
#[derive(Clone)]
pub(super) struct Describer {
    cluster: String,
    waiting: Arc<Mutex<Vec<Request>>>,
}

impl Describer {
    pub(super) fn new(cluster: String) -> Self {
        Self { cluster, waiting: Arc::default() }
    }

    /// The task with this ARN; `None` if ECS does not show it.
    async fn task(&self, client: &Client, arn: &str) -> Answer {
        let (sender, receiver) = oneshot::channel();
        let is_first = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push((arn.to_owned(), sender));
            waiting.len() == 1
        };
        if is_first {
            let (describer, client) = (self.clone(), client.clone());
            tokio::spawn(async move {
                tokio::time::sleep(BATCH_DELAY).await;
                describer.ask_for_all(&client).await;
            });
        }
        receiver.await.unwrap_or_else(|_| Err("Canyon is stopping".to_owned()))
    }

    async fn ask_for_all(&self, client: &Client) {
        let all = mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        let mut all = all.into_iter().peekable();
        while all.peek().is_some() {
            let part: Vec<_> = all.by_ref().take(MAX_TASKS).collect();
            let arns = part.iter().map(|(arn, _)| arn.clone()).collect();
            let found = self.ask(client, arns).await;
            for (arn, sender) in part {
                let answer = found.as_ref().map(|tasks| tasks.get(&arn).cloned());
                // The caller may have gone.
                let _ = sender.send(answer.map_err(Clone::clone));
            }
        }
    }

    async fn ask(
        &self,
        client: &Client,
        arns: Vec<String>,
    ) -> Result<HashMap<String, Task>, String> {
        let call = client.describe_tasks().cluster(&self.cluster).set_tasks(Some(arns));
        let found = call.send().await.map_err(|error| Causes(&error).to_string())?;
        let tasks = found.tasks.unwrap_or_default().into_iter();
        Ok(tasks.filter_map(|task| Some((task.task_arn.clone()?, task))).collect())
    }
}

/// Since when tasks have been missing: by their ARN, or by their `startedBy` if no list contains
/// them.
#[derive(Default)]
pub(super) struct Missing(Mutex<HashMap<String, Timestamp>>);

impl Missing {
    /// Notes that ECS does not show the task, for this `reason`. The task counts as gone only after
    /// [`MISSING_GRACE`], because a single answer may be stale.
    fn observed(&self, task: &str, reason: &str, now: Timestamp) -> Observation {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, since| now.duration_since(*since) < ENTRY_LIFETIME);
        let since = *all.entry(task.to_owned()).or_insert(now);
        if now.duration_since(since) >= MISSING_GRACE {
            return Observation::Gone(None);
        }
        Observation::Unknown(reason.to_owned())
    }

    /// Forgets that the task was missing, because ECS showed it or because it may be started now.
    pub(super) fn forget(&self, task: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
    }
}

impl EcsDispatcher {
    /// The ARN of the task with this `startedBy`, first among the running tasks, then among the
    /// stopped ones.
    pub(super) async fn find(
        &self,
        clients: &Clients,
        name: &str,
    ) -> Result<Option<String>, DispatchError> {
        for status in [DesiredStatus::Running, DesiredStatus::Stopped] {
            let call = clients
                .ecs
                .list_tasks()
                .cluster(&self.config.job.cluster)
                .started_by(name)
                .desired_status(status);
            let found = call.send().await;
            let found =
                found.map_err(|error| self.refusals().of_request("ecs:ListTasks", &error))?;
            if let Some(arn) = found.task_arns().first() {
                return Ok(Some(arn.clone()));
            }
        }
        Ok(None)
    }

    /// The task's ARN: as the deployment records it, as this process remembers it, or as ECS lists
    /// it.
    pub(super) async fn arn(
        &self,
        clients: &Clients,
        job: &JobRef,
    ) -> Result<Option<String>, DispatchError> {
        match job.handle.clone().or_else(|| self.started.task(job)) {
            Some(arn) => Ok(Some(arn)),
            None => self.find(clients, &self.name(job)).await,
        }
    }

    pub(super) async fn observe_task(&self, job: &JobRef) -> Observation {
        match self.try_observe_task(job).await {
            Ok(observation) => observation,
            Err(reason) => Observation::Unknown(reason),
        }
    }

    async fn try_observe_task(&self, job: &JobRef) -> Result<Observation, String> {
        let clients = self.session.clients().await.map_err(|error| Causes(&error).to_string())?;
        let name = self.name(job);
        let Some(arn) = self.arn(&clients, job).await.map_err(|error| error.to_string())? else {
            // The task may have just been started, also by another process.
            let reason = "ECS lists no task of the attempt, and its lists lag behind";
            return Ok(self.missing.observed(&name, reason, self.clock.now()));
        };
        self.missing.forget(&name);
        let Some(task) = self.describer.task(&clients.ecs, &arn).await? else {
            return Ok(self.not_shown(job, &arn));
        };
        self.missing.forget(&arn);
        Ok(match stopped::observation(&task) {
            Observation::Gone(Some(failure)) if injection::failed(&task).is_some() => {
                Observation::Gone(Some(self.with_last_message(&clients, &arn, failure).await))
            }
            observation => observation,
        })
    }

    /// The digest of the image of the job's container (API reference, `Container`).
    pub(super) async fn digest_of(&self, job: &JobRef) -> Option<Commit> {
        let clients = self.session.clients().await.ok()?;
        let arn = self.arn(&clients, job).await.ok()??;
        let task = self.describer.task(&clients.ecs, &arn).await.ok()??;
        let mut containers = task.containers().iter();
        let job = containers.find(|container| container.name() == Some(CONTAINER))?;
        job.image_digest()?.strip_prefix("sha256:")?.parse().ok()
    }

    /// The observation of a task whose ARN is known, but which ECS does not show yet, or no longer.
    fn not_shown(&self, job: &JobRef, arn: &str) -> Observation {
        // The deployment's id contains the time of its acceptance; its task started later.
        let now = self.clock.now();
        let accepted = job.deployment.0.get_timestamp().and_then(|at| {
            let seconds = i64::try_from(at.to_unix().0).ok()?;
            Timestamp::from_second(seconds).ok()
        });
        if accepted.is_some_and(|at| now.duration_since(at) < STOPPED_SHOWN) {
            return Observation::Waiting("ECS does not show the task yet".to_owned());
        }
        self.missing.observed(arn, "ECS does not show the task", now)
    }

    pub(super) async fn stop_task(&self, job: &JobRef, how: StopMode) -> Result<(), DispatchError> {
        let refusals = self.refusals();
        let clients =
            self.session.clients().await.map_err(|error| Refusals::no_credentials(&error))?;
        let Some(arn) = self.arn(&clients, job).await? else { return Ok(()) };
        if let Ok(Some(task)) = self.describer.task(&clients.ecs, &arn).await
            && task.desired_status() == Some(DesiredStatus::Stopped.as_str())
        {
            return Ok(());
        }
        let reason = match how {
            StopMode::Graceful => "Canyon asks the runner to stop",
            StopMode::Kill => "Canyon ends the task",
        };
        let call = clients.ecs.stop_task().cluster(&self.config.job.cluster);
        match call.task(arn).reason(reason).send().await {
            Ok(_) => Ok(()),
            Err(error) if stopped::is_unknown_task(&error) => Ok(()),
            Err(error) => Err(refusals.of_request("ecs:StopTask", &error)),
        }
    }
}
