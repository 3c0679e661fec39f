//! Polls for work, takes it, and decides when the session or the agent ends.

use crate::agent_loop::AgentLoop;
use crate::backoff::Backoff;
use crate::connection::ConnectionError;
use crate::exit::Exit;
use crate::job_name::job_name;
use crate::next::Next;
use canyon_api::agent::{JobKey, JobReport, MAX_WAIT_SECONDS, Poll, Work};
use canyon_api::client::MAX_RETRY_AFTER;
use canyon_domain::agent_job::OFFER_TIMEOUT;
use std::time::Duration;
use tokio::time::Instant;

/// The most jobs that one request takes.
const MAX_TAKEN: usize = 100;
/// The pause after an answer that came at once and had nothing new.
const IDLE_PAUSE: Duration = Duration::from_millis(500);
/// How long an agent without running jobs stays to remove what is left of them.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a poll waits while the agent drains, or has unconfirmed takes: after each poll it checks whether it may exit,
/// or retries. The wait is short, because Canyon continues to process a request that the agent drops.
const SHORT_WAIT_SECONDS: u32 = 1;

/// What ended a wait for work.
enum Event {
    Answer(Result<Work, ConnectionError>),
    Lost(JobKey),
    Recheck,
}

/// Since when the agent drains, and since when it has no running jobs.
#[derive(Default)]
struct Finishing {
    since: Option<Instant>,
    idle_since: Option<Instant>,
}

impl AgentLoop {
    /// Works in this session until it is over.
    pub(crate) async fn work(&mut self, session: u64) -> Next {
        let (mut backoff, mut finishing) = (Backoff::default(), Finishing::default());
        loop {
            self.status.loop_turned();
            self.reap();
            if let Err(next) = self.take(session).await {
                return next;
            }
            if self.stop.count() > 1 {
                tracing::info!("exits at once; its jobs go on, and the next start finds them");
                return Next::Exit(self.leave(session).await);
            }
            let draining = self.stop.count() > 0 || (self.settings.single && self.has_taken);
            if draining && self.is_finished(&mut finishing) {
                return Next::Exit(self.leave(session).await);
            }
            let asked_at = Instant::now();
            let answer = match self.wait_for_work(session, draining).await {
                Event::Answer(answer) => answer,
                Event::Lost(job) => {
                    self.drop_job(&job);
                    continue;
                }
                Event::Recheck => continue,
            };
            let pause = match answer {
                Ok(work) => {
                    backoff.reset();
                    self.status.answered(Some(session));
                    self.status.polled();
                    let asked = Duration::from_millis(work.pause_ms).min(MAX_RETRY_AFTER);
                    match self.handle(work, draining) {
                        Ok(is_new) if is_new || asked_at.elapsed() > IDLE_PAUSE => asked,
                        Ok(_) => asked.max(IDLE_PAUSE),
                        Err(next) => return next,
                    }
                }
                Err(error) => match self.after_error(&error) {
                    Some(next) => return next,
                    None => backoff.pause_of(self.bounded_pause(error.pause())),
                },
            };
            self.rest(pause).await;
        }
    }

    /// The pause that Canyon asks for. It is bounded while takes are unconfirmed: this agent may hold those jobs already,
    /// and their time to start runs.
    fn bounded_pause(&self, asked: Option<Duration>) -> Option<Duration> {
        let longest =
            if self.unconfirmed.jobs.is_empty() { MAX_RETRY_AFTER } else { OFFER_TIMEOUT };
        asked.map(|pause| pause.min(longest))
    }

    /// Whether the agent may exit: no job runs and nothing is left to report or to remove, or its drain time is over.
    fn is_finished(&self, finishing: &mut Finishing) -> bool {
        let asked = self.stop.count() > 0;
        if finishing.since.is_none() {
            let limit_seconds = asked.then_some(self.settings.drain.as_secs());
            tracing::info!(
                running = self.running(),
                limit_seconds,
                "drains: takes no further jobs, and waits for its own"
            );
        }
        let since = *finishing.since.get_or_insert_with(Instant::now);
        if asked && since.elapsed() >= self.settings.drain {
            if self.running() > 0 {
                tracing::warn!(
                    running = self.running(),
                    "exits; its jobs go on, and the next start finds them"
                );
            }
            return true;
        }
        let is_busy = self.running() > 0 || !self.unconfirmed.jobs.is_empty();
        if is_busy || *self.undelivered.borrow() > 0 {
            finishing.idle_since = None;
            return false;
        }
        let idle_since = *finishing.idle_since.get_or_insert_with(Instant::now);
        self.jobs.is_empty() || idle_since.elapsed() > CLEANUP_TIMEOUT
    }

    async fn wait_for_work(&mut self, session: u64, draining: bool) -> Event {
        let freed = self.places.freed();
        let running = self.occupied();
        let full = running >= self.places.most();
        let is_brief = draining || !self.unconfirmed.jobs.is_empty();
        let poll = Poll {
            running,
            draining,
            wait_seconds: if is_brief { SHORT_WAIT_SECONDS } else { MAX_WAIT_SECONDS },
            last_error: self.status.last_error(),
        };
        let (api, stop) = (self.api.clone(), self.stop.clone());
        let signals = stop.count();
        tokio::select! {
            answer = api.poll(session, &poll) => Event::Answer(answer),
            Some(job) = self.lost.recv() => Event::Lost(job),
            () = stop.asked(signals + 1) => Event::Recheck,
            () = freed, if full || draining => Event::Recheck,
        }
    }

    /// Carries out an answer. Returns whether it had anything new; `Err` ends the session.
    fn handle(&mut self, work: Work, draining: bool) -> Result<bool, Next> {
        let mut is_new = !work.tails.is_empty();
        for held in work.held {
            // Acknowledges the job, even without a new state: Canyon names it in each answer until then.
            self.reporter.report(JobReport::new(held.job));
            is_new |= self.resume(held);
        }
        let mut unknown = Vec::new();
        for wanted in &work.desired_states {
            if self.set_desired_state(wanted) {
                is_new = true;
            } else if *self.undelivered.borrow() == 0 {
                unknown.push(wanted.job);
            }
        }
        // The agent holds a job that this process does not know. The answer to a new session describes the job. The first
        // such desired state is ignored: it may have crossed with the report that the job was removed.
        if let Some(job) = unknown.iter().find(|job| self.unknown.contains(job)) {
            tracing::info!(job = %job_name(job), "holds a job that it does not know; opening a new session");
            return Err(Next::Reopen);
        }
        self.unknown = unknown;
        for tail in work.tails {
            self.request_output(tail);
        }
        let room = if draining { 0 } else { self.places.free() };
        let pending = &self.unconfirmed.jobs;
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let room = room.min(MAX_TAKEN.saturating_sub(pending.len()));
        let new = |job: &JobKey| !self.jobs.contains_key(job) && !pending.contains(job);
        let offered: Vec<_> = work.offers.into_iter().filter(new).take(room).collect();
        is_new |= !offered.is_empty();
        self.unconfirmed.add(offered, &self.places);
        Ok(is_new)
    }

    /// What follows after an error; `None` for a temporary one.
    pub(crate) fn after_error(&self, error: &ConnectionError) -> Option<Next> {
        if self.may_stand_by(error) {
            return Some(Next::StandBy(error.to_string()));
        }
        if error.is_superseded() {
            return Some(Next::Exit(Exit::Superseded(error.to_string())));
        }
        if error.is_rejection() {
            return Some(Next::Exit(Exit::Rejected(error.to_string())));
        }
        self.status.record_error(&error.to_string());
        tracing::warn!("{error}; retrying");
        // An agent that an administrator has forgotten enrolls again with a new session, and waits there.
        (error.is_unknown_agent() || error.is_pending()).then_some(Next::Reopen)
    }

    /// Waits for `pause`, or until a signal comes.
    pub(crate) async fn rest(&mut self, pause: Duration) {
        let signals = self.stop.count();
        if !pause.is_zero() {
            let longest = Duration::from_secs(SHORT_WAIT_SECONDS.into());
            let pause = if signals > 0 { pause.min(longest) } else { pause };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stop.asked(signals + 1) => {}
            }
        }
    }
}
