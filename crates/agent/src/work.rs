//! Asking for work, taking it, and the end of that.

use crate::backoff::{Backoff, LONGEST_PAUSE};
use crate::desk::Desk;
use crate::exit::Exit;
use crate::line::LineError;
use canyon_api::agent::{JobKey, JobReport, MAX_WAIT, Poll, Work};
use canyon_domain::agent_job::OFFER;
use std::time::Duration;
use tokio::time::Instant;

/// The most jobs that one request takes.
const MAX_TAKEN: usize = 100;
/// After an answer that told nothing new, and came at once.
const NOTHING_NEW: Duration = Duration::from_millis(500);
/// How long an agent that has nothing left to run stays to clear away.
const CLEARING: Duration = Duration::from_secs(10);
/// How long it waits for word while it finishes, or is in doubt: it looks after each whether it may go, or asks again.
/// A request that is given up goes on at Canyon, so it is short rather than dropped.
const BRIEF_SECONDS: u32 = 1;

/// What follows a session.
pub(crate) enum Next {
    /// The process ends.
    Exit(Exit),
    /// Another session.
    Reopen,
    /// Another session, once the process that has superseded this one is gone.
    StandBy(String),
}

/// What ended a wait for work.
enum Event {
    Answer(Result<Work, LineError>),
    Lost(JobKey),
    Look,
}

/// Since when the agent finishes, and since when it has nothing left to run.
#[derive(Default)]
struct Finishing {
    since: Option<Instant>,
    idle_since: Option<Instant>,
}

impl Desk {
    /// Works in this session until it is over.
    pub(crate) async fn work(&mut self, session: u64) -> Next {
        let (mut backoff, mut finishing) = (Backoff::default(), Finishing::default());
        loop {
            self.status.turned();
            self.reap();
            if let Err(next) = self.take(session).await {
                return next;
            }
            if self.stop.count() > 1 {
                tracing::info!("leaves at once; its jobs go on, and the next start finds them");
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
                Event::Look => continue,
            };
            let pause = match answer {
                Ok(work) => {
                    backoff.reset();
                    self.status.heard(Some(session));
                    self.status.polled();
                    let asked = Duration::from_millis(work.pause_ms).min(LONGEST_PAUSE);
                    match self.handle(work, draining) {
                        Ok(news) if news || asked_at.elapsed() > NOTHING_NEW => asked,
                        Ok(_) => asked.max(NOTHING_NEW),
                        Err(next) => return next,
                    }
                }
                Err(error) => match self.not_answered(&error) {
                    Some(next) => return next,
                    None => backoff.pause_of(self.bearable(error.pause())),
                },
            };
            self.rest(pause).await;
        }
    }

    /// The pause that was asked for; a short one if some jobs may be this agent's by now, whose time to start runs.
    fn bearable(&self, asked: Option<Duration>) -> Option<Duration> {
        let longest = if self.in_doubt.jobs.is_empty() { LONGEST_PAUSE } else { OFFER };
        asked.map(|pause| pause.min(longest))
    }

    /// Whether it may go: nothing runs and nothing is left to say or to clear away, or its time is over.
    fn is_finished(&self, finishing: &mut Finishing) -> bool {
        let asked = self.stop.count() > 0;
        if finishing.since.is_none() {
            let patience = asked.then_some(self.settings.drain.as_secs());
            tracing::info!(
                running = self.running(),
                patience,
                "takes nothing further, and finishes what it has"
            );
        }
        let since = *finishing.since.get_or_insert_with(Instant::now);
        if asked && since.elapsed() >= self.settings.drain {
            if self.running() > 0 {
                tracing::warn!(
                    running = self.running(),
                    "leaves; its jobs go on, and the next start finds them"
                );
            }
            return true;
        }
        let is_busy = self.running() > 0 || !self.in_doubt.jobs.is_empty();
        if is_busy || *self.undelivered.borrow() > 0 {
            finishing.idle_since = None;
            return false;
        }
        let idle_since = *finishing.idle_since.get_or_insert_with(Instant::now);
        self.jobs.is_empty() || idle_since.elapsed() > CLEARING
    }

    async fn wait_for_work(&mut self, session: u64, draining: bool) -> Event {
        let running = self.running();
        let full = running >= self.concurrency();
        let is_brief = draining || !self.in_doubt.jobs.is_empty();
        let poll = Poll {
            running,
            draining,
            wait_seconds: if is_brief { BRIEF_SECONDS } else { MAX_WAIT },
            last_error: self.status.last_trouble(),
        };
        let (line, stop, freed) = (self.line.clone(), self.stop.clone(), self.freed.clone());
        let signals = stop.count();
        tokio::select! {
            answer = line.poll(session, &poll) => Event::Answer(answer),
            Some(job) = self.lost.recv() => Event::Lost(job),
            () = stop.asked(signals + 1) => Event::Look,
            () = freed.notified(), if full || draining => Event::Look,
        }
    }

    /// `Err` ends the session; otherwise whether anything was new.
    fn handle(&mut self, work: Work, draining: bool) -> Result<bool, Next> {
        let mut news = !work.tails.is_empty();
        for held in work.held {
            // Said even if there is no news of the job: Canyon tells of it until it is.
            let (job, observation, handle) = (held.job, None, None);
            self.reporter.tell(JobReport { job, observation, handle, done: None, tail: None });
            news |= self.resume(held);
        }
        let mut unknown = Vec::new();
        for wanted in &work.wishes {
            if self.tell(wanted) {
                news = true;
            } else if *self.undelivered.borrow() == 0 {
                unknown.push(wanted.job);
            }
        }
        // It holds a job that this process knows nothing of: a new session tells what it is. The first such word may
        // have crossed with the report that the job is cleared away.
        if let Some(job) = unknown.iter().find(|job| self.unknown.contains(job)) {
            tracing::info!(job = %crate::job::name(job), "is held and not known");
            return Err(Next::Reopen);
        }
        self.unknown = unknown;
        for tail in work.tails {
            self.ask(tail);
        }
        let room = if draining { 0 } else { self.concurrency().saturating_sub(self.running()) };
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(MAX_TAKEN);
        let doubted = &self.in_doubt.jobs;
        let room = room.saturating_sub(doubted.len());
        let new = |job: &JobKey| !self.jobs.contains_key(job) && !doubted.contains(job);
        let offered: Vec<_> = work.offers.into_iter().filter(new).take(room).collect();
        news |= !offered.is_empty();
        // Before those that may never have an answer: these lapse.
        self.in_doubt.jobs.splice(0..0, offered);
        Ok(news)
    }

    /// What follows an error; nothing for those that pass.
    pub(crate) fn not_answered(&self, error: &LineError) -> Option<Next> {
        if self.may_stand_by(error) {
            return Some(Next::StandBy(error.to_string()));
        }
        if error.is_superseded() {
            return Some(Next::Exit(Exit::Superseded(error.to_string())));
        }
        if error.is_rejection() {
            return Some(Next::Exit(Exit::Rejected(error.to_string())));
        }
        self.status.trouble(&error.to_string());
        tracing::warn!("{error}; trying again");
        // An agent that was forgotten, and has asked anew, waits in its next opening.
        (error.is_stranger() || error.is_pending()).then_some(Next::Reopen)
    }

    /// A pause that a signal ends.
    pub(crate) async fn rest(&mut self, pause: Duration) {
        let signals = self.stop.count();
        if !pause.is_zero() {
            let finishing = Duration::from_secs(BRIEF_SECONDS.into());
            let pause = if signals > 0 { pause.min(finishing) } else { pause };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stop.asked(signals + 1) => {}
            }
        }
    }
}
