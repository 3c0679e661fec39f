//! Ships what is written, and hears whether the run shall stop.
//!
//! It runs beside OpenTofu and never holds it up. When Canyon does not answer, it tries again for as
//! long as the run lasts, and [`AFTERWARDS`] longer.

use crate::{
    backoff::Backoff, session::Line, session::is_over, stop::Stop, stop::Wish, streams::Streams,
};
use canyon_api::attempt::{Chunk, ReportBody};
use canyon_domain::failure::Phase;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// How long delivery is tried after the run's end. The token would be dead afterwards.
pub const AFTERWARDS: Duration = Duration::from_mins(10);
/// The pause between two reports while there is something to ship.
const BATCH: Duration = Duration::from_millis(300);

/// How far the run has come, and how far Canyon knows.
#[derive(Debug)]
pub struct Progress {
    phase: watch::Sender<Phase>,
    accepted: watch::Receiver<Option<Phase>>,
    ended: watch::Sender<bool>,
}

impl Progress {
    /// The run is in `phase` now.
    pub fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// The run wants to enter `phase`. Returns once Canyon has accepted that, or the run is to stop.
    pub async fn ask(&self, phase: Phase, stop: &Stop) -> bool {
        self.enter(phase);
        let mut accepted = self.accepted.clone();
        tokio::select! {
            known = accepted.wait_for(|known| *known >= Some(phase)) => known.is_ok() && stop.wish() == Wish::Run,
            () = stop.reached(Wish::Stop) => false,
        }
    }

    /// Nobody writes any more.
    pub fn end(&self) {
        self.ended.send_replace(true);
    }

    /// The phase that was entered last.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }
}

/// Ships the streams of one run.
#[derive(Debug)]
pub struct Shipper {
    line: Line,
    streams: Streams,
    stop: Stop,
    report_every: Duration,
    phase: watch::Receiver<Phase>,
    accepted: watch::Sender<Option<Phase>>,
    ended: watch::Receiver<bool>,
}

impl Shipper {
    /// A shipper, and what the run tells it.
    pub fn new(
        line: Line,
        streams: Streams,
        stop: Stop,
        report_every: Duration,
    ) -> (Self, Progress) {
        let (phase_sender, phase) = watch::channel(Phase::Fetch);
        let (accepted, accepted_receiver) = watch::channel(None);
        let (ended_sender, ended) = watch::channel(false);
        let progress =
            Progress { phase: phase_sender, accepted: accepted_receiver, ended: ended_sender };
        (Self { line, streams, stop, report_every, phase, accepted, ended }, progress)
    }

    /// Ships until the run has ended and what is left fits into its result. Returns that.
    pub async fn run(mut self) -> Vec<Chunk> {
        let mut backoff = Backoff::default();
        let mut reported: Option<Instant> = None;
        let mut give_up: Option<Instant> = None;
        loop {
            let ended = *self.ended.borrow_and_update();
            let phase = *self.phase.borrow_and_update();
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
            let awaited = phase == Phase::Apply && *self.accepted.borrow() < Some(phase);
            if !chunks.is_empty() || silent || awaited {
                match self.line.report(&ReportBody { phase, chunks }).await {
                    Ok(answer) => {
                        backoff.reset();
                        reported = Some(Instant::now());
                        self.accepted.send_replace(Some(phase));
                        if answer.stop {
                            self.stop.turn(Wish::Stop);
                        }
                        if self.streams.confirm(answer.offsets) && ended {
                            continue;
                        }
                    }
                    Err(error) if is_over(&error) => {
                        self.stop.turn(Wish::Leave);
                        return Vec::new();
                    }
                    Err(_) => {
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
        let begins_apply = self.phase.wait_for(|phase| *phase == Phase::Apply);
        let waits = *self.accepted.borrow() < Some(Phase::Apply);
        tokio::select! {
            () = sleep(BATCH) => {}
            _ = begins_apply, if waits => {}
            _ = self.ended.changed(), if !ended => {}
        }
    }
}
