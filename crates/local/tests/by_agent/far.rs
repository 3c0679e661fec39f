//! A kind with an agent in between.

use crate::agent::{Agent, Variables};
use crate::behaviour::{Act, Platform, launch};
use crate::canyon::Canyon;
use crate::notes::Notes;
use canyon_dispatch::{Dispatcher, JobRef, Launch, Remains};
use serde_json::Value;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

/// Where jobs run, as the agent has it.
pub(crate) trait Bed: Sync {
    /// Says to a job that is to be started what it is to do.
    fn tell(&self, job: &JobRef, act: Act);
    /// How often the job noted `what`.
    fn noted(&self, job: &JobRef, what: &str) -> usize;
    /// Whether the job lives, asked where it runs and not of the agent.
    fn lives(&self, job: &JobRef) -> bool;
}

/// Where an agent is, a runner whose jobs it can start there, and its settings.
pub(crate) struct Place<B> {
    pub(crate) bed: B,
    pub(crate) definition: Value,
    pub(crate) variables: Variables,
}

/// Canyon, its agent, and where that is.
pub(crate) struct Far<B> {
    pub(crate) canyon: Canyon,
    pub(crate) agent: Agent,
    pub(crate) bed: B,
}

impl<B: Bed> Far<B> {
    pub(crate) async fn at(place: Place<B>) -> Self {
        let canyon = Canyon::with_runner(place.definition).await;
        let agent = Agent::start(&canyon, place.variables).await;
        Self { canyon, agent, bed: place.bed }
    }
}

impl<B: Bed> Platform for Far<B> {
    type Kind = dyn Dispatcher;
    const TELLS_FIRST: bool = false;
    const OF_LIVING: Remains = Remains::Nothing;

    fn dispatcher(&self) -> Arc<dyn Dispatcher> {
        self.canyon.dispatcher.clone()
    }

    /// The agent gets the job's environment from Canyon, so it is empty here.
    fn launch(&self, job: JobRef, act: Act) -> Launch {
        self.bed.tell(&job, act);
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

/// Containers ask what to do and say what they did where they are told that Canyon is.
impl Notes {
    pub(crate) fn tell_job(&self, job: &JobRef, act: Act) {
        self.tell(name_of(job), act.word());
    }

    pub(crate) fn noted_by(&self, job: &JobRef, what: &str) -> usize {
        self.count(&name_of(job), what)
    }
}

fn name_of(job: &JobRef) -> String {
    format!("{}-{}", job.deployment, job.attempt)
}

/// Settings of an agent whose jobs find `notes` in the place of Canyon.
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
