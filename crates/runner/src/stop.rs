//! Whether the run is to stop, and why. A run may receive several requests to stop, and stops once.

use canyon_domain::failure::{Failure, FailureClass};
use std::io;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// How long the run waits for Canyon's reason after a signal. The platform kills the job soon after the signal.
const REASON_TIMEOUT: Duration = Duration::from_secs(3);

/// How long after a request to stop the program of a run works, of the `seconds` that the platform gives. What is left of the
/// time is for the result and the log.
pub fn grace(seconds: u32) -> Duration {
    let time = Duration::from_secs(seconds.into());
    time.saturating_sub((time / 4).min(Duration::from_secs(10)))
}

/// Whether the run is to stop. A later variant is stronger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// The run goes on.
    #[default]
    Continue,
    /// Save the state, free the lock, deliver a result.
    Stop,
    /// The attempt is over: stop, and deliver no result.
    StopWithoutResult,
}

/// The requests so far, with their sources.
#[derive(Clone, Debug, Default)]
struct Requests {
    strongest: StopRequest,
    /// When the run was first asked to stop.
    since: Option<Instant>,
    /// The first signal that asked to stop.
    signal: Option<&'static str>,
    /// Canyon's reason.
    reason: Option<Failure>,
    /// Whether Canyon has answered a report that was sent after the signal, without a request to stop.
    denied: bool,
}

impl Requests {
    fn add(&mut self, request: StopRequest) {
        self.strongest = self.strongest.max(request);
        if self.strongest != StopRequest::Continue {
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// Whether the reason is known. Canyon also stops jobs through their platforms, so a signal alone is no reason.
    fn is_explained(&self) -> bool {
        self.strongest == StopRequest::Continue
            || self.signal.is_none()
            || self.reason.is_some()
            || self.denied
    }
}

/// The request to stop, shared by all parts of a run. It only becomes stronger.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<Requests>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(Requests::default()))
    }
}

impl Stop {
    /// A value that SIGTERM and SIGINT set to [`StopRequest::Stop`].
    ///
    /// # Errors
    ///
    /// When the process cannot have signal handlers.
    pub fn on_signals() -> io::Result<Self> {
        let stop = Self::default();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shared = stop.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    Some(()) = terminate.recv() => shared.signalled("SIGTERM"),
                    Some(()) = interrupt.recv() => shared.signalled("SIGINT"),
                    else => return,
                }
            }
        });
        Ok(stop)
    }

    fn signalled(&self, name: &'static str) {
        self.0.send_modify(|requests| {
            requests.add(StopRequest::Stop);
            requests.signal.get_or_insert(name);
        });
    }

    /// Records `request`, unless a stronger one is recorded already.
    pub fn request(&self, request: StopRequest) {
        self.0.send_if_modified(|requests| {
            let is_stronger = request > requests.strongest;
            requests.add(request);
            is_stronger
        });
    }

    /// Records Canyon's answer to a report: whether the run is to stop, and why. `before` is what was requested when
    /// the report was sent.
    pub fn record_answer(&self, before: StopRequest, stop: bool, reason: Option<Failure>) {
        self.0.send_modify(|requests| {
            if stop {
                requests.add(StopRequest::Stop);
                requests.reason = reason.or_else(|| requests.reason.take()).or_else(|| {
                    Some(Failure::new(FailureClass::Cancelled, "Canyon asked the run to stop"))
                });
            } else if before >= StopRequest::Stop {
                requests.denied = true;
            }
        });
    }

    /// The strongest request so far.
    pub fn requested(&self) -> StopRequest {
        self.0.borrow().strongest
    }

    /// Whether the run is to stop.
    pub fn is_requested(&self) -> bool {
        self.requested() != StopRequest::Continue
    }

    /// When the run was first asked to stop.
    pub fn since(&self) -> Option<Instant> {
        self.0.borrow().since
    }

    /// Whether Canyon must still be asked for the reason of a signal.
    pub fn needs_reason(&self) -> bool {
        !self.0.borrow().is_explained()
    }

    /// Why the run stops. After a signal it waits up to `REASON_TIMEOUT` for Canyon's answer.
    pub async fn reason(&self) -> Failure {
        let mut receiver = self.0.subscribe();
        let explained = receiver.wait_for(Requests::is_explained);
        // Without an answer only the signal is known.
        let _ = timeout(REASON_TIMEOUT, explained).await;
        let Requests { strongest, signal, reason, denied, .. } = self.0.borrow().clone();
        if strongest == StopRequest::StopWithoutResult {
            return Failure::new(FailureClass::Lost, "Canyon has ended this attempt");
        }
        reason.unwrap_or_else(|| {
            let signal = signal.unwrap_or("a signal");
            let message = if denied {
                // A module that runs as the same user can send a signal too.
                format!(
                    "something other than Canyon asked the job to stop ({signal}): the platform, or a program on its \
                     machine"
                )
            } else {
                format!("the platform asked the job to stop ({signal})")
            };
            Failure::new(FailureClass::Evicted, message)
        })
    }

    /// Returns once `request` or a stronger one is recorded.
    pub async fn reached(&self, request: StopRequest) {
        let mut receiver = self.0.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = receiver.wait_for(|current| current.strongest >= request).await;
    }
}
