//! One job: started, looked at, stopped by wish, and forgotten.
//!
//! Every step may be repeated, so this knows nothing that a process after it must know: a job that is held
//! without its launch was started before, or never will be.

use crate::reporter::Reporter;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_api::agent::{JobKey, JobReport, TailAnswer, TailBytes, TailRequest};
use canyon_dispatch::{
    DispatchError, Dispatcher, JobRef, Launch, Remains, Started, StopMode, TailStream, Then,
};
use canyon_domain::agent_job::{TAIL_LIMIT, Wish};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, timeout};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// After a start of which nobody can tell whether it happened.
const START_AGAIN: Duration = Duration::from_secs(10);
/// How long one call to the platform may take; a pull of an image goes on without it.
const PATIENCE: Duration = Duration::from_mins(1);
/// A job whose end is recorded ends by itself a moment after. From then on it is asked to stop, and killed.
const FAREWELL: Duration = Duration::from_secs(15);
const MERCY: Duration = Duration::from_mins(1);

/// One of the agent's places for jobs, and who waits for it to be free.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) taken: Arc<AtomicBool>,
    pub(crate) freed: Arc<Notify>,
}

impl Place {
    fn free(&self) {
        self.taken.store(false, Ordering::Relaxed);
        self.freed.notify_one();
    }
}

/// One job.
pub(crate) struct JobLoop {
    pub(crate) key: JobKey,
    pub(crate) reference: JobRef,
    pub(crate) dispatcher: Arc<dyn Dispatcher>,
    /// Present until it was started.
    pub(crate) launch: Option<Launch>,
    pub(crate) wish: watch::Receiver<Wish>,
    pub(crate) tails: mpsc::Receiver<TailRequest>,
    pub(crate) hint: Arc<Notify>,
    pub(crate) place: Place,
    pub(crate) reporter: Reporter,
}

/// What of a job was said.
#[derive(Default)]
struct Said {
    observation: Option<Observation>,
    gone: bool,
    done: Wish,
    forget_since: Option<Instant>,
    asked: bool,
}

impl JobLoop {
    /// Until nothing is left of the job.
    pub(crate) async fn run(mut self) {
        let mut said = Said::default();
        if let Some(launch) = self.launch.take() {
            self.start(&launch, &mut said).await;
        }
        loop {
            if !said.gone {
                self.look(&mut said).await;
            }
            self.carry_out(&mut said).await;
            if said.done == Wish::Forget {
                return;
            }
            let idle = said.gone && *self.wish.borrow() <= said.done;
            self.wait((!idle).then_some(LOOK)).await;
        }
    }

    fn report(&self, report: impl FnOnce(&mut JobReport)) {
        let mut own =
            JobReport { job: self.key, observation: None, handle: None, done: None, tail: None };
        report(&mut own);
        self.reporter.tell(own);
    }

    fn saw(&mut self, said: &mut Said, observation: Observation) {
        if said.observation.as_ref() == Some(&observation) {
            return;
        }
        said.gone = matches!(observation, Observation::Gone(_));
        if said.gone {
            self.place.free();
        }
        // That a job ended without a result of its own is how each one looks from here: it tells Canyon itself.
        let (state, reason) = match &observation {
            Observation::Alive => ("alive", ""),
            Observation::Waiting(reason) | Observation::Queued(reason) => ("waiting", &**reason),
            Observation::Unknown(reason) => ("unknown", &**reason),
            Observation::Gone(Some(why)) if why.class != FailureClass::Lost => {
                ("gone", &*why.message)
            }
            Observation::Gone(_) => ("gone", ""),
        };
        tracing::info!(job = %name(&self.key), state, reason, "looked");
        said.observation = Some(observation.clone());
        let handle = self.reference.handle.clone();
        self.report(|report| {
            report.observation = Some(observation);
            report.handle = handle;
        });
    }

    /// Starts it, however often that takes, unless it is not wanted any more.
    async fn start(&mut self, launch: &Launch, said: &mut Said) {
        let mut may_have_started = false;
        loop {
            if *self.wish.borrow_and_update() > Wish::Run {
                if !may_have_started {
                    self.saw(said, Observation::Gone(None));
                }
                return;
            }
            let answer = timeout(PATIENCE, self.dispatcher.start(launch)).await;
            let error = match answer {
                Ok(Ok(Started::Now(handle) | Started::Already(handle))) => {
                    tracing::info!(job = %name(&self.key), "started");
                    self.reference.handle = handle;
                    return;
                }
                Ok(Err(error)) => error,
                Err(_) => {
                    let message = "the platform does not answer a start";
                    DispatchError::unknown(FailureClass::Throttled, message)
                }
            };
            tracing::warn!(job = %name(&self.key), %error, "not started");
            self.reporter.trouble(&error.to_string());
            let pause = match error.then {
                Then::End => {
                    self.saw(said, Observation::Gone(Some(error.failure)));
                    return;
                }
                Then::Observe => {
                    may_have_started = true;
                    self.saw(said, Observation::Unknown(error.failure.message));
                    START_AGAIN
                }
                Then::Again(pause) => {
                    self.saw(said, Observation::Waiting(error.failure.message));
                    pause
                }
            };
            let until = Instant::now() + pause;
            while Instant::now() < until && *self.wish.borrow() == Wish::Run {
                self.wait(Some(until - Instant::now())).await;
            }
        }
    }

    async fn look(&mut self, said: &mut Said) {
        let observation = match timeout(PATIENCE, self.dispatcher.observe(&self.reference)).await {
            Ok(observation) => observation,
            Err(_) => Observation::Unknown("the platform does not answer".to_owned()),
        };
        self.saw(said, observation);
    }

    /// Does what Canyon wants next; what fails is done again at the next look.
    async fn carry_out(&mut self, said: &mut Said) {
        let wish = *self.wish.borrow_and_update();
        if wish <= said.done {
            return;
        }
        let done = match wish {
            Wish::Run => true,
            Wish::Stop => said.gone || self.stop(StopMode::Graceful).await,
            Wish::Kill => said.gone || self.stop(StopMode::Kill).await,
            Wish::Forget => self.forget(said).await,
        };
        if done {
            said.done = wish;
            self.report(|report| report.done = Some(wish));
        }
    }

    async fn stop(&self, how: StopMode) -> bool {
        let answer = timeout(PATIENCE, self.dispatcher.stop(&self.reference, how)).await;
        let problem = match answer {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the platform does not answer a stop".to_owned(),
        };
        tracing::warn!(job = %name(&self.key), ?how, problem, "not stopped; trying again");
        self.reporter.trouble(&problem);
        false
    }

    /// Clears away what is left. One that still lives is given time to end, but not for ever.
    async fn forget(&self, said: &mut Said) -> bool {
        if !said.gone {
            let since = *said.forget_since.get_or_insert_with(Instant::now);
            if since.elapsed() > MERCY {
                self.stop(StopMode::Kill).await;
            } else if since.elapsed() > FAREWELL && !said.asked {
                said.asked = self.stop(StopMode::Graceful).await;
            }
            return false;
        }
        match timeout(PATIENCE, self.dispatcher.forget(&self.reference)).await {
            Ok(remains) => remains == Remains::Nothing,
            Err(_) => false,
        }
    }

    /// For `pause`, or until somebody wants something; without one, only until then. Answers who asks for
    /// output.
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
                // Whoever knew of the job has dropped it: it is to be left alone, and this task is aborted.
                changed = self.wish.changed() => match changed {
                    Ok(()) => return,
                    Err(_) => std::future::pending().await,
                },
                Some(tail) = self.tails.recv() => self.answer(tail).await,
            }
        }
    }

    async fn answer(&self, tail: TailRequest) {
        let stream = if tail.stream == "events" { TailStream::Events } else { TailStream::Log };
        let read = timeout(PATIENCE, self.dispatcher.tail(&self.reference, stream, tail.offset));
        let bytes = match read.await {
            Ok(Ok(mut bytes)) => {
                bytes.truncate(TAIL_LIMIT);
                TailBytes::Bytes(STANDARD.encode(bytes))
            }
            Ok(Err(error)) => TailBytes::Failed(error.to_string()),
            Err(_) => TailBytes::Failed("the platform does not answer".to_owned()),
        };
        self.report(|report| report.tail = Some(TailAnswer { id: tail.id, bytes }));
    }
}

/// For the log.
pub(crate) fn name(key: &JobKey) -> String {
    format!("{}-{}", key.deployment, key.attempt)
}
