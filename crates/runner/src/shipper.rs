//! Ships the log and the events to Canyon, and learns from the answers whether the run is to stop.
//!
//! It runs beside OpenTofu and never blocks it. If Canyon does not answer, or something else answers in its
//! place, it retries as long as the run lasts, and [`DELIVERY_TIMEOUT`] longer. Only Canyon's own refusal stops
//! the run.

use crate::outage::{Outage, Outages};
use crate::{
    backoff::Backoff, session::ApiConnection, stop::Stop, stop::StopRequest, streams::Streams,
};
use canyon_api::attempt::{
    Chunk, FetchedModuleBody, ReportAnswer, ReportBody, Stream, UnwrittenStateBody,
};
use canyon_domain::failure::Phase;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// How long delivery is tried after the run's end. The token would be dead afterwards.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_mins(10);
/// The same for the streams of a run that was to stop, before its result: its job is killed soon.
const AFTER_STOP: Duration = Duration::from_secs(3);
/// How long a result waits for streams that do not come on, although Canyon answers.
const STUCK: Duration = Duration::from_secs(15);
/// The pause between two reports while there is something to ship, and before the first one: a short run then needs none
/// beside that of its apply and its result.
const REPORT_PAUSE: Duration = Duration::from_millis(300);
/// The most bytes of the streams, in base64, in the report that an apply waits for.
const WITH_APPLY: usize = 2 * 1024;

/// How far a run has come. A later phase is more. For an apply, to know that it leaves resources behind is more, and
/// that its state is unwritten is more still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    phase: Phase,
    is_unwritten: bool,
    forgets: bool,
}

impl Step {
    fn of(phase: Phase) -> Self {
        Self { phase, is_unwritten: false, forgets: false }
    }
}

/// How far the run has come, and how far Canyon has acknowledged it.
#[derive(Debug)]
pub struct Progress {
    step: watch::Sender<Step>,
    accepted: watch::Receiver<Option<Step>>,
    unwritten: Arc<OnceLock<UnwrittenStateBody>>,
    fetched: Arc<OnceLock<FetchedModuleBody>>,
    ended: watch::Sender<bool>,
    outages: Outages,
}

impl Progress {
    /// Records that the run is in `phase` now.
    pub fn enter(&self, phase: Phase) {
        self.step.send_replace(Step::of(phase));
    }

    /// Announces the apply, by a plan that leaves resources behind if it `forgets`. Returns `true` once Canyon has accepted
    /// it, and `false` if the run is to stop.
    pub async fn ask_to_apply(&self, forgets: bool, stop: &Stop) -> bool {
        let wanted = Step { forgets, ..Step::of(Phase::Apply) };
        self.step.send_replace(wanted);
        let mut accepted = self.accepted.clone();
        tokio::select! {
            known = accepted.wait_for(|known| *known >= Some(wanted)) => {
                known.is_ok() && !stop.is_requested()
            }
            () = stop.reached(StopRequest::Stop) => false,
        }
    }

    /// Records that OpenTofu could not write the state, so that the next report says so, at once.
    pub fn could_not_write_state(&self, state: UnwrittenStateBody) {
        // A run applies once, so there is no other.
        let _ = self.unwritten.set(state);
        self.step.send_modify(|step| step.is_unwritten = true);
    }

    /// Records the module that the run has fetched. Each report says so from then on.
    pub fn has_fetched(&self, module: FetchedModuleBody) {
        // A run fetches once, so there is no other.
        let _ = self.fetched.set(module);
    }

    /// The module that the run has fetched.
    pub fn fetched(&self) -> Option<FetchedModuleBody> {
        self.fetched.get().cloned()
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

/// What is left to ship after the run's end. Its result waits for that.
#[derive(Debug, Default)]
struct Backlog {
    begun: Option<Instant>,
    /// Since when reports arrive, and none has brought the streams on.
    stuck: Option<Instant>,
    /// The last report with chunks did not arrive, and one without did.
    is_refused: bool,
}

impl Backlog {
    /// A report has arrived; `is_more` of the streams with it.
    fn answered(&mut self, is_more: bool, ended: bool) {
        if is_more {
            self.stuck = None;
        } else if ended {
            self.stuck.get_or_insert_with(Instant::now);
        }
    }

    /// Whether the result waits no longer. A job that is to stop has little time left.
    fn is_given_up(&mut self, wish: StopRequest) -> bool {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let most = if wish == StopRequest::Continue { DELIVERY_TIMEOUT } else { AFTER_STOP };
        begun.elapsed() >= most || self.stuck.is_some_and(|since| since.elapsed() >= STUCK)
    }
}

/// How the shipping goes.
#[derive(Debug, Default)]
struct Course {
    backoff: Backoff,
    /// When Canyon took a report last.
    reported: Option<Instant>,
    outage: Outage,
    backlog: Backlog,
    /// A report with chunks did not arrive, and none has since.
    chunks_failed: bool,
}

/// A report on its way.
struct Sent {
    step: Step,
    /// Where the switch stood.
    wish: StopRequest,
    /// The streams of which it has chunks.
    streams: Vec<Stream>,
    /// The run had ended.
    ended: bool,
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
    unwritten: Arc<OnceLock<UnwrittenStateBody>>,
    fetched: Arc<OnceLock<FetchedModuleBody>>,
}

impl Shipper {
    /// A shipper, and the handle with which the run informs it.
    pub fn new(
        api: ApiConnection,
        streams: Streams,
        stop: Stop,
        report_every: Duration,
    ) -> (Self, Progress) {
        let (sender, reached) = watch::channel(Step::of(Phase::Fetch));
        let (accepted, accepted_receiver) = watch::channel(None);
        let (ended_sender, ended) = watch::channel(false);
        let (outages, unwritten) = (Outages::default(), Arc::default());
        let fetched = Arc::default();
        let progress = Progress {
            step: sender,
            accepted: accepted_receiver,
            unwritten: Arc::clone(&unwritten),
            fetched: Arc::clone(&fetched),
            ended: ended_sender,
            outages: outages.clone(),
        };
        let shipper = Self {
            api,
            streams,
            stop,
            report_every,
            step: reached,
            accepted,
            ended,
            outages,
            unwritten,
            fetched,
        };
        (shipper, progress)
    }

    /// Ships until the run has ended and what is left fits into its result. Returns that.
    ///
    /// The sign of life and the phase do not depend on the log for longer than one report: if one with chunks fails, the next
    /// ones have none until one arrives, and chunks become smaller. A stop's reason and an unwritten state never do.
    pub async fn run(mut self) -> Vec<Chunk> {
        // The claim was the first sign of life.
        let mut course = Course { reported: Some(Instant::now()), ..Course::default() };
        self.pause(false).await;
        loop {
            let ended = *self.ended.borrow_and_update();
            let step = *self.step.borrow_and_update();
            // A file that cannot be read now is tried again; the result tells of a broken log.
            let mut chunks = self.streams.next(ended).unwrap_or_default();
            if ended {
                let fits = self.streams.are_nearly_shipped().unwrap_or(true);
                let is_refused = course.backlog.is_refused;
                // What is refused in a report would be refused in the result too.
                if chunks.is_empty() || (fits && !course.chunks_failed && !is_refused) {
                    return chunks;
                }
                if course.backlog.is_given_up(self.stop.requested()) {
                    return if is_refused { Vec::new() } else { chunks };
                }
            }
            let silent = course.reported.is_none_or(|at| at.elapsed() >= self.report_every);
            // Only the begin of an apply is waited for.
            let awaited = step.phase == Phase::Apply && *self.accepted.borrow() < Some(step);
            let needs_reason = self.stop.needs_reason();
            if chunks.is_empty() && !silent && !awaited && !needs_reason {
                self.pause(ended).await;
                continue;
            }
            let large = chunks.iter().map(|chunk| chunk.data.len()).sum::<usize>() > WITH_APPLY;
            // Of a state that is not written, Canyon must know even if the object store hangs.
            let alone = needs_reason || awaited && (large || step.is_unwritten);
            if course.chunks_failed || alone {
                chunks.clear();
            }
            let streams: Vec<_> = chunks.iter().map(|chunk| chunk.stream).collect();
            let sent = Sent { step, wish: self.stop.requested(), streams, ended };
            let unwritten = self.unwritten.get().filter(|_| step.is_unwritten).cloned();
            let unwritten = unwritten.filter(|_| self.api.knows_unwritten_states());
            let fetched = self.fetched.get().filter(|_| self.api.knows_fetched_modules()).cloned();
            let (phase, forgets) = (step.phase, step.forgets);
            let body = ReportBody { phase, forgets, unwritten, fetched, chunks };
            let answer = tokio::select! {
                answer = self.api.report(&body) => answer,
                () = self.must_end(), if !sent.streams.is_empty() => return Vec::new(),
            };
            match answer {
                Ok(answer) if answer.phase < step.phase => {
                    // To an earlier report: the network brings it now, and says nothing of this one.
                    self.stop.record_answer(sent.wish, answer.stop, answer.stop_reason);
                    sleep(course.backoff.pause()).await;
                }
                Ok(answer) => {
                    if !(self.took(&mut course, &sent, answer) && ended) {
                        self.pause(ended).await;
                    }
                }
                Err(error) if self.api.is_over(&error) => {
                    self.stop.request(StopRequest::StopWithoutResult);
                    return Vec::new();
                }
                Err(error) => {
                    if !sent.streams.is_empty() {
                        self.streams.shrink();
                        course.chunks_failed = true;
                    }
                    course.outage.lasts(&error);
                    sleep(course.backoff.pause()).await;
                }
            }
        }
    }

    /// Canyon has taken a report. Returns whether that brought the streams on.
    fn took(&mut self, course: &mut Course, sent: &Sent, answer: ReportAnswer) -> bool {
        course.backoff.reset();
        course.outage.ends(&self.outages);
        course.reported = Some(Instant::now());
        // Record a stop request before the step counts as accepted.
        self.stop.record_answer(sent.wish, answer.stop, answer.stop_reason);
        self.accepted.send_replace(Some(sent.step));
        if !sent.streams.is_empty() {
            self.streams.passed();
            course.backlog.is_refused = false;
        } else if course.chunks_failed {
            course.backlog.is_refused = true;
        }
        course.chunks_failed = false;
        let is_more = self.streams.confirm(answer.offsets, &sent.streams);
        course.backlog.answered(is_more, sent.ended);
        is_more
    }

    /// Returns when a run that was to stop has ended, and its result waits no longer for the streams.
    async fn must_end(&self) {
        // Without its sender the run has ended, too.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
        self.stop.reached(StopRequest::Stop).await;
        sleep(AFTER_STOP).await;
    }

    /// Until there may be something to ship. An end that came after `ended` was read, as during a
    /// report, is not waited out.
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
