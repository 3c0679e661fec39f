//! A platform that the test controls, and that records its calls.

use async_trait::async_trait;
use canyon_dispatch::{
    AgentNeed, CheckReports, DispatchError, Dispatcher, JobRef, Launch, Platform, RemovalOutcome,
    Started, StopMode, TailStream, Target,
};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use canyon_domain::ids::{OrgUuid, RunnerId};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The behaviour of one organization's platform.
#[derive(Default)]
pub(crate) struct Script {
    asked: Mutex<Vec<&'static str>>,
    silent: Mutex<HashSet<&'static str>>,
    /// The number of calls that are not answered yet.
    pub(crate) open: Mutex<usize>,
    /// Whether a start is refused; otherwise it succeeds.
    pub(crate) refuses: Mutex<bool>,
    /// Whether it takes no more starts for now.
    pub(crate) throttles: Mutex<bool>,
    /// The result of an observation; by default the job lives.
    pub(crate) job: Mutex<Option<Observation>>,
    /// How many removals find the job alive.
    pub(crate) removals_until_gone: Mutex<usize>,
    /// The definition of the last dispatcher.
    pub(crate) definition: Mutex<Option<serde_json::Value>>,
    /// Why no agent would take a job, for the runners without one.
    pub(crate) absence: Mutex<HashMap<&'static str, String>>,
    /// What the platform has of a dead job's log.
    pub(crate) log: Mutex<Vec<u8>>,
    /// The same for its events.
    pub(crate) events: Mutex<Vec<u8>>,
    /// Whether it does not return a job's output.
    pub(crate) loses_output: Mutex<bool>,
    /// The jobs of a list.
    pub(crate) jobs: Mutex<Vec<JobRef>>,
}

impl Script {
    /// From now on, these calls are never answered.
    pub(crate) fn silent_at(&self, calls: &[&'static str]) {
        *self.silent.lock().unwrap() = calls.iter().copied().collect();
    }

    /// How often this call was made.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| **asked == call).count()
    }

    async fn ask(&self, call: &'static str) {
        self.asked.lock().unwrap().push(call);
        if self.silent.lock().unwrap().contains(call) {
            *self.open.lock().unwrap() += 1;
            let _open = Open(self);
            std::future::pending::<()>().await;
        }
    }
}

/// A call that waits for an answer, until its caller cancels it.
struct Open<'a>(&'a Script);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        *self.0.open.lock().unwrap() -= 1;
    }
}

/// The platforms of all organizations.
#[derive(Clone, Default)]
pub(crate) struct Scripted(Arc<Mutex<HashMap<OrgUuid, Arc<Script>>>>);

impl Scripted {
    pub(crate) fn of(&self, org: OrgUuid) -> Arc<Script> {
        self.0.lock().unwrap().entry(org).or_default().clone()
    }
}

impl Platform for Scripted {
    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        let script = self.of(target.org);
        script.asked.lock().unwrap().push("runner");
        *script.definition.lock().unwrap() = Some(target.definition.to_value());
        Arc::new(Scene(script, target.runner_id.clone()))
    }
}

struct Scene(Arc<Script>, RunnerId);

#[async_trait]
impl Dispatcher for Scene {
    async fn start(&self, _: &Launch) -> Result<Started, DispatchError> {
        self.0.ask("start").await;
        if *self.0.refuses.lock().unwrap() {
            return Err(DispatchError::refused(FailureClass::Config, "there is no such place"));
        }
        if *self.0.throttles.lock().unwrap() {
            let pause = Duration::from_secs(50);
            return Err(DispatchError::not_yet("others come first", pause));
        }
        Ok(Started::Now(Some("a-job".to_owned())))
    }

    async fn observe(&self, _: &JobRef) -> Observation {
        self.0.ask("observe").await;
        self.0.job.lock().unwrap().clone().unwrap_or(Observation::Alive)
    }

    async fn stop(&self, _: &JobRef, _: StopMode) -> Result<(), DispatchError> {
        self.0.ask("stop").await;
        Ok(())
    }

    async fn tail(
        &self,
        _: &JobRef,
        stream: TailStream,
        offset: u64,
    ) -> Result<Vec<u8>, DispatchError> {
        self.0.ask("tail").await;
        if stream == TailStream::Log {
            self.0.ask("tail of log").await;
        }
        if *self.0.loses_output.lock().unwrap() {
            return Err(DispatchError::unknown(FailureClass::Lost, "the output is away"));
        }
        let kept = match stream {
            TailStream::Log => self.0.log.lock().unwrap(),
            TailStream::Events => self.0.events.lock().unwrap(),
        };
        Ok(kept.iter().skip(usize::try_from(offset).unwrap()).copied().collect())
    }

    async fn forget(&self, _: &JobRef) -> RemovalOutcome {
        self.0.ask("forget").await;
        let mut left = self.0.removals_until_gone.lock().unwrap();
        if *left == 0 {
            return RemovalOutcome::Removed;
        }
        *left -= 1;
        RemovalOutcome::JobAlive
    }

    async fn jobs(&self) -> Result<Vec<JobRef>, DispatchError> {
        self.0.ask("jobs").await;
        Ok(self.0.jobs.lock().unwrap().clone())
    }

    async fn no_agent_reason(&self, _: AgentNeed) -> Option<String> {
        self.0.ask("absence").await;
        self.0.absence.lock().unwrap().get(self.1.as_str()).cloned()
    }

    async fn check(&self, _: &CheckReports) {
        self.0.ask("check").await;
    }
}
