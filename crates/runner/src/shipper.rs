//! Ships what is written, and hears whether the run shall stop.
//!
//! It runs beside OpenTofu and never holds it up. When Canyon does not answer, or something else does
//! in its place, it tries again for as long as the run lasts, and [`AFTERWARDS`] longer. Only Canyon's
//! own refusal stops the run.

use crate::outage::{Outage, Outages};
use crate::{backoff::Backoff, session::Line, stop::Stop, stop::Wish, streams::Streams};
use canyon_api::attempt::{Chunk, ReportBody};
use canyon_domain::failure::Phase;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// How long delivery is tried after the run's end. The token would be dead afterwards.
pub const AFTERWARDS: Duration = Duration::from_mins(10);
/// The pause between two reports while there is something to ship.
const BATCH: Duration = Duration::from_millis(300);

/// How far a run has come. A later phase is more, and of an apply to know that it leaves something behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    phase: Phase,
    forgets: bool,
}

/// How far the run has come, and how far Canyon knows.
#[derive(Debug)]
pub struct Progress {
    step: watch::Sender<Step>,
    accepted: watch::Receiver<Option<Step>>,
    ended: watch::Sender<bool>,
    outages: Outages,
}

impl Progress {
    /// The run is in `phase` now.
    pub fn enter(&self, phase: Phase) {
        self.step.send_replace(Step { phase, forgets: false });
    }

    /// The run wants to apply, by a plan that leaves resources behind if it `forgets`. Returns once Canyon has accepted
    /// that, or the run is to stop.
    pub async fn ask_to_apply(&self, forgets: bool, stop: &Stop) -> bool {
        let wanted = Step { phase: Phase::Apply, forgets };
        self.step.send_replace(wanted);
        let mut accepted = self.accepted.clone();
        tokio::select! {
            known = accepted.wait_for(|known| *known >= Some(wanted)) => known.is_ok() && stop.wish() == Wish::Run,
            () = stop.reached(Wish::Stop) => false,
        }
    }

    /// Nobody writes any more.
    pub fn end(&self) {
        self.ended.send_replace(true);
    }

    /// For how long reports did not arrive, said once.
    pub fn outage(&self) -> Option<String> {
        self.outages.take()
    }

    /// The phase that was entered last.
    pub fn phase(&self) -> Phase {
        self.step.borrow().phase
    }
}

/// Ships the streams of one run.
#[derive(Debug)]
pub struct Shipper {
    line: Line,
    streams: Streams,
    stop: Stop,
    report_every: Duration,
    step: watch::Receiver<Step>,
    accepted: watch::Sender<Option<Step>>,
    ended: watch::Receiver<bool>,
    outages: Outages,
}

impl Shipper {
    /// A shipper, and what the run tells it.
    pub fn new(
        line: Line,
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
            Self { line, streams, stop, report_every, step: reached, accepted, ended, outages },
            progress,
        )
    }

    /// Ships until the run has ended and what is left fits into its result. Returns that.
    pub async fn run(mut self) -> Vec<Chunk> {
        let mut backoff = Backoff::default();
        let mut reported: Option<Instant> = None;
        let mut give_up: Option<Instant> = None;
        let mut outage = Outage::default();
        loop {
            let ended = *self.ended.borrow_and_update();
            let step = *self.step.borrow_and_update();
            // A file that cannot be read now is tried again; the result tells of a broken log.
            let chunks = self.streams.next(ended).unwrap_or_default();
            if ended {
                let deadline = *give_up.get_or_insert_with(|| Instant::now() + AFTERWARDS);
                if self.streams.are_nearly_shipped().unwrap_or(true) || Instant::now() >= deadline {
                    return chunks;
                }
            }
            let silent = reported.is_none_or(|at| at.elapsed() >= self.report_every);
            // Only the begin of an apply is waited for.
            let awaited = step.phase == Phase::Apply && *self.accepted.borrow() < Some(step);
            let wish = self.stop.wish();
            if !chunks.is_empty() || silent || awaited || self.stop.needs_reason() {
                let sent: Vec<_> = chunks.iter().map(|chunk| chunk.stream).collect();
                let body = ReportBody { phase: step.phase, forgets: step.forgets, chunks };
                match self.line.report(&body).await {
                    Ok(answer) if answer.phase < step.phase => {
                        // To an earlier report: the network brings it now, and says nothing of this one.
                        self.stop.answered(wish, answer.stop, answer.stop_reason);
                        sleep(backoff.pause()).await;
                        continue;
                    }
                    Ok(answer) => {
                        backoff.reset();
                        outage.ends(&self.outages);
                        reported = Some(Instant::now());
                        // What is told to stop has not been accepted.
                        self.stop.answered(wish, answer.stop, answer.stop_reason);
                        self.accepted.send_replace(Some(step));
                        if self.streams.confirm(answer.offsets, &sent) && ended {
                            continue;
                        }
                    }
                    Err(error) if self.line.is_over(&error) => {
                        self.stop.turn(Wish::Leave);
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

    /// Until there may be something to ship. An end that came after `ended` was read, as during a
    /// report, is not waited out.
    async fn pause(&mut self, ended: bool) {
        let accepted = *self.accepted.borrow();
        let awaited = |step: &Step| step.phase == Phase::Apply && accepted < Some(*step);
        let begins_apply = self.step.wait_for(awaited);
        tokio::select! {
            () = sleep(BATCH) => {}
            _ = begins_apply => {}
            _ = self.ended.changed(), if !ended => {}
        }
    }
}
