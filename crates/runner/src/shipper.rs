//! Ships the log and the events to Canyon, and learns from the answers whether the run is to stop.
//!
//! It runs beside OpenTofu and never blocks it. If Canyon does not answer, or something else answers in its
//! place, it retries as long as the run lasts, and [`DELIVERY_TIMEOUT`] longer. Only Canyon's own refusal stops
//! the run.

use crate::outage::{Outage, Outages};
use crate::streams::Streams;
use crate::{backoff::Backoff, session::ApiConnection, stop::Stop, stop::StopRequest};
use canyon_api::attempt::{Chunk, ReportBody};
use canyon_domain::failure::Phase;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// How long the runner tries to deliver after the run's end. The token has expired afterwards.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_mins(10);
/// The pause between two reports while there is something to ship.
const REPORT_PAUSE: Duration = Duration::from_millis(300);

/// How far a run has come. A later phase is more. For an apply, to know that it leaves resources behind is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    phase: Phase,
    forgets: bool,
}

/// How far the run has come, and how far Canyon has acknowledged it.
#[derive(Debug)]
pub struct Progress {
    step: watch::Sender<Step>,
    accepted: watch::Receiver<Option<Step>>,
    ended: watch::Sender<bool>,
    outages: Outages,
}

impl Progress {
    /// Records that the run is in `phase` now.
    pub fn enter(&self, phase: Phase) {
        self.step.send_replace(Step { phase, forgets: false });
    }

    /// Announces the apply, by a plan that leaves resources behind if it `forgets`. Returns `true` once Canyon has accepted
    /// it, and `false` if the run is to stop.
    pub async fn ask_to_apply(&self, forgets: bool, stop: &Stop) -> bool {
        let wanted = Step { phase: Phase::Apply, forgets };
        self.step.send_replace(wanted);
        let mut accepted = self.accepted.clone();
        tokio::select! {
            known = accepted.wait_for(|known| *known >= Some(wanted)) => {
                known.is_ok() && !stop.is_requested()
            }
            () = stop.reached(StopRequest::Stop) => false,
        }
    }

    /// Records that nothing more is written.
    pub fn end(&self) {
        self.ended.send_replace(true);
    }

    /// The text about the last outage of the reports, and forgets it.
    pub fn outage(&self) -> Option<String> {
        self.outages.take()
    }

    /// The phase of the last [`Progress::enter`] or [`Progress::ask_to_apply`].
    pub fn phase(&self) -> Phase {
        self.step.borrow().phase
    }
}

/// Ships the streams of one run.
#[derive(Debug)]
pub struct Shipper {
    api: ApiConnection,
    streams: Streams,
    stop: Stop,
    report_every: Duration,
    step: watch::Receiver<Step>,
    accepted: watch::Sender<Option<Step>>,
    ended: watch::Receiver<bool>,
    outages: Outages,
}

impl Shipper {
    /// A shipper, and the handle with which the run informs it.
    pub fn new(
        api: ApiConnection,
        streams: Streams,
        stop: Stop,
        report_every: Duration,
    ) -> (Self, Progress) {
        let (sender, reached) = watch::channel(Step { phase: Phase::Fetch, forgets: false });
        let (accepted, accepted_receiver) = watch::channel(None);
        let (ended_sender, ended) = watch::channel(false);
        let outages = Outages::default();
        let progress = Progress {
            step: sender,
            accepted: accepted_receiver,
            ended: ended_sender,
            outages: outages.clone(),
        };
        (
            Self { api, streams, stop, report_every, step: reached, accepted, ended, outages },
            progress,
        )
    }

    /// Ships until the run has ended and the rest fits into its result. Returns the rest.
    pub async fn run(mut self) -> Vec<Chunk> {
        let mut backoff = Backoff::default();
        let mut reported: Option<Instant> = None;
        let mut give_up: Option<Instant> = None;
        let mut outage = Outage::default();
        loop {
            let ended = *self.ended.borrow_and_update();
            let step = *self.step.borrow_and_update();
            // If a file cannot be read now, the next round tries again; the result reports an incomplete log.
            let chunks = self.streams.next(ended).unwrap_or_default();
            if ended {
                let deadline = *give_up.get_or_insert_with(|| Instant::now() + DELIVERY_TIMEOUT);
                if self.streams.are_nearly_shipped().unwrap_or(true) || Instant::now() >= deadline {
                    return chunks;
                }
            }
            let silent = reported.is_none_or(|at| at.elapsed() >= self.report_every);
            // Only the beginning of an apply waits for Canyon's acknowledgement.
            let awaited = step.phase == Phase::Apply && *self.accepted.borrow() < Some(step);
            let requested = self.stop.requested();
            if !chunks.is_empty() || silent || awaited || self.stop.needs_reason() {
                let sent: Vec<_> = chunks.iter().map(|chunk| chunk.stream).collect();
                let body = ReportBody { phase: step.phase, forgets: step.forgets, chunks };
                match self.api.report(&body).await {
                    Ok(answer) if answer.phase < step.phase => {
                        // The answer to an earlier report, which the network delivers late. It does not acknowledge this one.
                        self.stop.record_answer(requested, answer.stop, answer.stop_reason);
                        sleep(backoff.pause()).await;
                        continue;
                    }
                    Ok(answer) => {
                        backoff.reset();
                        outage.ends(&self.outages);
                        reported = Some(Instant::now());
                        // Before `accepted`: a run that is to stop must not begin its apply.
                        self.stop.record_answer(requested, answer.stop, answer.stop_reason);
                        self.accepted.send_replace(Some(step));
                        if self.streams.confirm(answer.offsets, &sent) && ended {
                            continue;
                        }
                    }
                    Err(error) if self.api.is_over(&error) => {
                        self.stop.request(StopRequest::StopWithoutResult);
                        return Vec::new();
                    }
                    Err(error) => {
                        if error.is_too_large() {
                            self.streams.shrink();
                        }
                        outage.lasts(&error);
                        sleep(backoff.pause()).await;
                        continue;
                    }
                }
            }
            self.pause(ended).await;
        }
    }

    /// Waits until there may be something to ship. Returns at once if the run ended after `ended` was read, for example
    /// during a report.
    async fn pause(&mut self, ended: bool) {
        let accepted = *self.accepted.borrow();
        let awaited = |step: &Step| step.phase == Phase::Apply && accepted < Some(*step);
        let begins_apply = self.step.wait_for(awaited);
        tokio::select! {
            () = sleep(REPORT_PAUSE) => {}
            _ = begins_apply => {}
            _ = self.ended.changed(), if !ended => {}
        }
    }
}
