//! The loop of one job: starts it, observes it, stops it when Canyon asks, and removes it.
//!
//! Every step may be repeated, so the loop keeps nothing that a later process would need. If the agent holds a job but
//! not its launch data, the job was started before, or will never be.

use crate::job_name::job_name;
use crate::places::Place;
use crate::reporter::Reporter;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_api::agent::{JobKey, JobReport, TailAnswer, TailBytes, TailRequest};
use canyon_dispatch::{
    DispatchError, Dispatcher, JobRef, Launch, OnFailure, RemovalOutcome, Started, StopMode,
    TailStream,
};
use canyon_domain::agent_job::{DesiredState, MAX_TAIL_BYTES};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, timeout};

/// The time between two observations.
const OBSERVE_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a start whose result is unknown.
const START_RETRY: Duration = Duration::from_secs(10);
/// How often it asks for the digest of a job's image.
const MAX_IMAGE_REQUESTS: u32 = 5;
/// How long one call to the platform may take. The platform continues to pull an image without it.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// A job whose end is recorded normally ends by itself a moment later. After this time the agent asks it to stop.
const STOP_AFTER: Duration = Duration::from_secs(15);
/// After this time the agent kills it.
const KILL_AFTER: Duration = Duration::from_mins(1);

/// The place of one job, until it has ended. An orphaned job has none.
#[derive(Clone, Default)]
pub(crate) struct JobSlot(Arc<Mutex<Option<Place>>>);

impl JobSlot {
    pub(crate) fn of(place: Place) -> Self {
        Self(Arc::new(Mutex::new(Some(place))))
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(crate) fn free(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// One job.
pub(crate) struct JobLoop {
    pub(crate) key: JobKey,
    pub(crate) reference: JobRef,
    pub(crate) dispatcher: Arc<dyn Dispatcher>,
    /// The launch data, until the job was started.
    pub(crate) launch: Option<Launch>,
    /// Whether it runs an image of its own. Unknown of a job that a former process has started, so that one counts too.
    pub(crate) names_image: bool,
    pub(crate) desired: watch::Receiver<DesiredState>,
    pub(crate) tails: mpsc::Receiver<TailRequest>,
    pub(crate) hint: Arc<Notify>,
    pub(crate) slot: JobSlot,
    pub(crate) reporter: Reporter,
}

/// What was reported about a job, and what was done.
#[derive(Default)]
struct ReportedState {
    observation: Option<Observation>,
    gone: bool,
    done: DesiredState,
    forget_since: Option<Instant>,
    image_requests: u32,
    stop_requested: bool,
}

impl JobLoop {
    /// Runs until the platform has nothing left of the job.
    pub(crate) async fn run(mut self) {
        let mut reported = ReportedState::default();
        if let Some(launch) = self.launch.take() {
            self.start(&launch, &mut reported).await;
        }
        loop {
            if !reported.gone {
                self.observe(&mut reported).await;
            }
            self.carry_out(&mut reported).await;
            if reported.done == DesiredState::Forget {
                return;
            }
            let idle = reported.gone && *self.desired.borrow() <= reported.done;
            self.wait((!idle).then_some(OBSERVE_INTERVAL)).await;
        }
    }

    fn report(&self, report: impl FnOnce(&mut JobReport)) {
        let mut own = JobReport::new(self.key);
        report(&mut own);
        self.reporter.report(own);
    }

    fn record(&mut self, reported: &mut ReportedState, observation: Observation) {
        if reported.observation.as_ref() == Some(&observation) {
            return;
        }
        reported.gone = matches!(observation, Observation::Gone(_));
        if reported.gone {
            self.slot.free();
        }
        // The agent sees every ended job as gone without a result: the job delivers its result to Canyon itself.
        let (state, reason) = match &observation {
            Observation::Alive => ("alive", ""),
            Observation::Waiting(reason) | Observation::Queued(reason) => ("waiting", &**reason),
            Observation::Unknown(reason) => ("unknown", &**reason),
            Observation::Gone(Some(failure)) if failure.class != FailureClass::Lost => {
                ("gone", &*failure.message)
            }
            Observation::Gone(_) => ("gone", ""),
        };
        tracing::info!(job = %job_name(&self.key), state, reason, "observed a new state");
        reported.observation = Some(observation.clone());
        let handle = self.reference.handle.clone();
        self.report(|report| {
            report.observation = Some(observation);
            report.handle = handle;
        });
    }

    /// Starts the job, and retries until it is started, cannot be started, or is not wanted any more.
    async fn start(&mut self, launch: &Launch, reported: &mut ReportedState) {
        let mut may_have_started = false;
        loop {
            if *self.desired.borrow_and_update() > DesiredState::Run {
                if !may_have_started {
                    self.record(reported, Observation::Gone(None));
                }
                return;
            }
            let answer = timeout(CALL_TIMEOUT, self.dispatcher.start(launch)).await;
            let error = match answer {
                Ok(Ok(Started::Now(handle) | Started::Already(handle))) => {
                    tracing::info!(job = %job_name(&self.key), "started");
                    self.reference.handle = handle;
                    return;
                }
                Ok(Err(error)) => error,
                Err(_) => {
                    let message =
                        "the platform did not answer the request to start the job in time";
                    DispatchError::unknown(FailureClass::Throttled, message)
                }
            };
            tracing::warn!(job = %job_name(&self.key), %error, "not started");
            self.reporter.record_error(&error.to_string());
            let pause = match error.on_failure {
                OnFailure::EndAttempt => {
                    self.record(reported, Observation::Gone(Some(error.failure)));
                    return;
                }
                OnFailure::Observe => {
                    may_have_started = true;
                    self.record(reported, Observation::Unknown(error.failure.message));
                    START_RETRY
                }
                OnFailure::RetryAfter(pause) | OnFailure::WaitForTurn(pause) => {
                    self.record(reported, Observation::Waiting(error.failure.message));
                    pause
                }
            };
            let until = Instant::now() + pause;
            while Instant::now() < until && *self.desired.borrow() == DesiredState::Run {
                self.wait(Some(until - Instant::now())).await;
            }
        }
    }

    async fn observe(&mut self, reported: &mut ReportedState) {
        let observed = timeout(CALL_TIMEOUT, self.dispatcher.observe(&self.reference)).await;
        let observation = observed.unwrap_or_else(|_| {
            Observation::Unknown("the platform did not answer in time".to_owned())
        });
        if matches!(observation, Observation::Alive | Observation::Gone(_)) {
            self.report_image(reported).await;
        }
        self.record(reported, observation);
    }

    /// Reports which image the container runs, once: a node tells it some time after the start, and never that of an image
    /// that it has not pulled.
    async fn report_image(&self, reported: &mut ReportedState) {
        if !self.names_image || reported.image_requests == MAX_IMAGE_REQUESTS {
            return;
        }
        reported.image_requests += 1;
        let answer = timeout(CALL_TIMEOUT, self.dispatcher.image_digest(&self.reference)).await;
        if let Ok(Some(digest)) = answer {
            reported.image_requests = MAX_IMAGE_REQUESTS;
            self.report(|report| report.image_digest = Some(digest));
        }
    }

    /// Applies the current desired state. If that fails, the next round retries it.
    async fn carry_out(&mut self, reported: &mut ReportedState) {
        let desired = *self.desired.borrow_and_update();
        if desired <= reported.done {
            return;
        }
        let done = match desired {
            DesiredState::Run => true,
            DesiredState::Stop => reported.gone || self.stop(StopMode::Graceful).await,
            DesiredState::Kill => reported.gone || self.stop(StopMode::Kill).await,
            DesiredState::Forget => self.forget(reported).await,
        };
        if done {
            reported.done = desired;
            self.report(|report| report.done = Some(desired));
        }
    }

    async fn stop(&self, mode: StopMode) -> bool {
        let answer = timeout(CALL_TIMEOUT, self.dispatcher.stop(&self.reference, mode)).await;
        let problem = match answer {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the platform did not answer the request to stop the job in time".to_owned(),
        };
        tracing::warn!(job = %job_name(&self.key), ?mode, problem, "not stopped; retrying");
        self.reporter.record_error(&problem);
        false
    }

    /// Removes what is left of the job. A job that still lives gets time to end, up to [`KILL_AFTER`].
    async fn forget(&self, reported: &mut ReportedState) -> bool {
        if !reported.gone {
            let since = *reported.forget_since.get_or_insert_with(Instant::now);
            if since.elapsed() > KILL_AFTER {
                self.stop(StopMode::Kill).await;
            } else if since.elapsed() > STOP_AFTER && !reported.stop_requested {
                reported.stop_requested = self.stop(StopMode::Graceful).await;
            }
            return false;
        }
        match timeout(CALL_TIMEOUT, self.dispatcher.forget(&self.reference)).await {
            Ok(remains) => remains == RemovalOutcome::Removed,
            Err(_) => false,
        }
    }

    /// Waits for `pause`, or until the desired state changes; without a pause, only until it changes. Answers requests
    /// for output in the meantime.
    async fn wait(&mut self, pause: Option<Duration>) {
        let until = pause.map(|pause| Instant::now() + pause);
        let over = async move {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return,
                () = self.hint.notified(), if until.is_some() => return,
                // The agent has dropped this job, so another process watches it. This task is about to be aborted.
                changed = self.desired.changed() => match changed {
                    Ok(()) => return,
                    Err(_) => std::future::pending().await,
                },
                Some(tail) = self.tails.recv() => self.answer(tail).await,
            }
        }
    }

    async fn answer(&self, tail: TailRequest) {
        let stream = if tail.stream == "events" { TailStream::Events } else { TailStream::Log };
        let read =
            timeout(CALL_TIMEOUT, self.dispatcher.tail(&self.reference, stream, tail.offset));
        let bytes = match read.await {
            Ok(Ok(mut bytes)) => {
                bytes.truncate(MAX_TAIL_BYTES);
                TailBytes::Bytes(STANDARD.encode(bytes))
            }
            Ok(Err(error)) => TailBytes::Failed(error.to_string()),
            Err(_) => TailBytes::Failed("the platform did not answer in time".to_owned()),
        };
        self.report(|report| report.tail = Some(TailAnswer { id: tail.id, bytes }));
    }
}
