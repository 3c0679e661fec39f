//! A platform that does what the test says, and writes down what it was asked.

use async_trait::async_trait;
use canyon_dispatch::{
    DispatchError, Dispatcher, JobRef, Launch, Platform, Remains, Started, Steps, StopMode,
    TailStream, Target,
};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use canyon_domain::ids::OrgUuid;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// What the platform of one organization does.
#[derive(Default)]
pub(crate) struct Script {
    asked: Mutex<Vec<&'static str>>,
    silent: Mutex<HashSet<&'static str>>,
    /// What is being asked and not answered.
    pub(crate) open: Mutex<usize>,
    /// Whether a start is refused for good; otherwise it succeeds.
    pub(crate) refuses: Mutex<bool>,
    /// What a look says; that the job lives, unless set.
    pub(crate) job: Mutex<Option<Observation>>,
    /// How many removals find the job alive.
    pub(crate) lingers: Mutex<usize>,
    /// The definition that was launched by last.
    pub(crate) definition: Mutex<Option<serde_json::Value>>,
    /// Why nobody would take a job up, if so.
    pub(crate) absence: Mutex<Option<String>>,
    /// The jobs that a list has.
    pub(crate) jobs: Mutex<Vec<JobRef>>,
}

impl Script {
    /// From now on, these calls are never answered.
    pub(crate) fn silent_at(&self, calls: &[&'static str]) {
        *self.silent.lock().unwrap() = calls.iter().copied().collect();
    }

    /// How often this was asked.
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

/// Somebody who waits for an answer, until he gives up.
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
        Arc::new(Scene(script))
    }
}

struct Scene(Arc<Script>);

#[async_trait]
impl Dispatcher for Scene {
    async fn start(&self, _: &Launch) -> Result<Started, DispatchError> {
        self.0.ask("start").await;
        if *self.0.refuses.lock().unwrap() {
            return Err(DispatchError::refused(FailureClass::Config, "there is no such place"));
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

    async fn tail(&self, _: &JobRef, _: TailStream, _: u64) -> Result<Vec<u8>, DispatchError> {
        self.0.ask("tail").await;
        Ok(Vec::new())
    }

    async fn forget(&self, _: &JobRef) -> Remains {
        self.0.ask("forget").await;
        let mut lingers = self.0.lingers.lock().unwrap();
        if *lingers == 0 {
            return Remains::Nothing;
        }
        *lingers -= 1;
        Remains::Job
    }

    async fn jobs(&self) -> Result<Vec<JobRef>, DispatchError> {
        self.0.ask("jobs").await;
        Ok(self.0.jobs.lock().unwrap().clone())
    }

    async fn absence(&self) -> Option<String> {
        self.0.ask("absence").await;
        self.0.absence.lock().unwrap().clone()
    }

    async fn check(&self, _: &Steps) {
        self.0.ask("check").await;
    }
}
