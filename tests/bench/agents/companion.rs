//! One simulated agent: it polls, takes jobs, and plays the jobs itself.

use crate::null_job;
use canyon_api::agent::{
    JobKey, JobReport, MAX_WAIT_SECONDS, OpenSession, PROTOCOL, Poll, Reports, TakeJobs, TakenJob,
    Work,
};
use canyon_api::client::{Client, ClientError};
use canyon_domain::agent_job::DesiredState;
use canyon_domain::deadline::Observation;
use canyon_domain::runner::RunnerType;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The pause after a failed request.
const PAUSE: Duration = Duration::from_millis(500);

/// Counts of all agents together.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    polls: AtomicU32,
    jobs: AtomicU32,
    failed: AtomicU32,
}

impl Counts {
    /// Answered polls.
    pub(crate) fn polls(&self) -> u32 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Jobs that were run.
    pub(crate) fn jobs(&self) -> u32 {
        self.jobs.load(Ordering::Relaxed)
    }

    /// Requests that failed.
    pub(crate) fn failed(&self) -> u32 {
        self.failed.load(Ordering::Relaxed)
    }
}

/// An agent with its session.
#[derive(Debug)]
pub(crate) struct Companion {
    client: Client,
    name: String,
    session: u64,
}

impl Companion {
    /// Opens a session.
    pub(crate) async fn join(
        client: Client,
        runner: String,
        number: u32,
    ) -> Result<Self, ClientError> {
        let name = format!("agent-{number}");
        let body = OpenSession {
            instance: name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            serves: vec![RunnerType::Local],
            platform_id: format!("place of {name}"),
            labels: BTreeMap::new(),
            run_untagged_jobs: None,
            runner: runner.parse().ok(),
            reserved: false,
            shared: false,
            standby: false,
            concurrency: 4,
            public_key: None,
            found: Vec::new(),
        };
        let opened = client.open_session(&name, &body).await?;
        Ok(Self { client, name, session: opened.session.unwrap_or_default() })
    }

    /// Polls without end.
    pub(crate) async fn work(self, counts: Arc<Counts>) {
        loop {
            if self.poll(&counts).await.is_err() {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Polls once, and does what it is asked for.
    pub(crate) async fn poll(&self, counts: &Counts) -> Result<(), ClientError> {
        let poll = Poll { wait_seconds: MAX_WAIT_SECONDS, ..Poll::default() };
        let work = self.client.poll_work(&self.name, self.session, &poll).await?;
        counts.polls.fetch_add(1, Ordering::Relaxed);
        self.handle(work, counts).await
    }

    async fn handle(&self, work: Work, counts: &Counts) -> Result<(), ClientError> {
        let mut reports: Vec<_> =
            work.desired_states.iter().map(|wish| done(wish.job, wish.desired)).collect();
        if !work.offers.is_empty() {
            let jobs = TakeJobs { jobs: work.offers };
            for taken in self.client.take_jobs(&self.name, self.session, &jobs).await?.taken {
                self.play(&taken).await?;
                counts.jobs.fetch_add(1, Ordering::Relaxed);
                reports.push(gone(taken.job));
            }
        }
        if !reports.is_empty() {
            self.client.report_jobs(&self.name, self.session, &Reports { reports }).await?;
        }
        Ok(())
    }

    /// Plays the job, which has no work to do.
    async fn play(&self, taken: &TakenJob) -> Result<(), ClientError> {
        let deployment = taken.job.deployment.to_string();
        let code = taken.environment.get("CANYON_CLAIM_CODE").cloned().unwrap_or_default();
        let claimant = format!("{}-of-{:016}", self.name, taken.job.attempt);
        null_job::run(&self.client, &deployment, taken.job.attempt, code, claimant).await
    }
}

fn done(job: JobKey, desired: DesiredState) -> JobReport {
    JobReport { done: Some(desired), ..JobReport::new(job) }
}

fn gone(job: JobKey) -> JobReport {
    JobReport { observation: Some(Observation::Gone(None)), ..JobReport::new(job) }
}
