//! A kind of platform with an agent in between.

use crate::agent::{Agent, Variables};
use crate::behaviour::{Act, Platform, launch};
use crate::canyon::Canyon;
use crate::notes::Notes;
use canyon_dispatch::{Dispatcher, JobRef, Launch, RemovalOutcome};
use serde_json::Value;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

/// A test bed: the place where jobs run.
pub(crate) trait Bed: Sync {
    /// Prepares what a job does once it is started.
    fn prepare(&self, job: &JobRef, act: Act);
    /// How often the job noted `what`.
    fn noted(&self, job: &JobRef, what: &str) -> usize;
    /// Whether the job lives, according to the platform and not to the agent.
    fn lives(&self, job: &JobRef) -> bool;
}

/// A test bed, a runner's definition for it, and the settings of an agent there.
pub(crate) struct Setup<B> {
    pub(crate) bed: B,
    pub(crate) definition: Value,
    pub(crate) variables: Variables,
}

/// Canyon, its agent, and the test bed.
pub(crate) struct ThroughAgent<B> {
    pub(crate) canyon: Canyon,
    pub(crate) agent: Agent,
    pub(crate) bed: B,
}

impl<B: Bed> ThroughAgent<B> {
    pub(crate) async fn start(setup: Setup<B>) -> Self {
        let canyon = Canyon::with_runner(setup.definition).await;
        let agent = Agent::start(&canyon, setup.variables).await;
        Self { canyon, agent, bed: setup.bed }
    }
}

impl<B: Bed> Platform for ThroughAgent<B> {
    type Kind = dyn Dispatcher;
    const TELLS_FIRST: bool = false;
    const OF_LIVING: RemovalOutcome = RemovalOutcome::Removed;

    fn dispatcher(&self) -> Arc<dyn Dispatcher> {
        self.canyon.dispatcher.clone()
    }

    /// The agent gets the job's environment from Canyon, so it is empty here.
    fn launch(&self, job: JobRef, act: Act) -> Launch {
        self.bed.prepare(&job, act);
        block_in_place(|| Handle::current().block_on(self.canyon.accept(&job)));
        launch(job, [].into())
    }

    fn noted(&self, job: &JobRef, what: &str) -> usize {
        self.bed.noted(job, what)
    }

    fn lives(&self, job: &JobRef) -> Option<bool> {
        Some(self.bed.lives(job))
    }
}

/// Jobs in containers read what to do from `notes`, and note what they did, at the address that they have for Canyon.
impl Notes {
    pub(crate) fn prepare_job(&self, job: &JobRef, act: Act) {
        self.tell(name_of(job), act.word());
    }

    pub(crate) fn noted_by(&self, job: &JobRef, what: &str) -> usize {
        self.count(&name_of(job), what)
    }
}

fn name_of(job: &JobRef) -> String {
    format!("{}-{}", job.deployment, job.attempt)
}

/// The settings of an agent whose jobs use `notes` in the place of Canyon.
pub(crate) fn settings(kind: &str, notes: Option<&Notes>, data: &[(&str, &str)]) -> Variables {
    let data = data
        .iter()
        .map(|(name, value)| (format!("CANYON_JOB_DISPATCHER_DATA_{name}"), (*value).to_owned()));
    let url = notes.map(|notes| {
        ("CANYON_JOB_DISPATCHER_DATA_API_URL".to_owned(), format!("http://{}", notes.address))
    });
    let kind = ("CANYON_JOB_DISPATCHER_TYPE".to_owned(), kind.to_owned());
    data.chain(url).chain([kind]).collect()
}
