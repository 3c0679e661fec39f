//! Whether the run shall go on, and if not, why. Many may ask to stop; it is asked once.

use canyon_domain::failure::{Failure, FailureClass};
use std::io;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// How long the run waits for Canyon to say why it was signalled. The platform kills it before long.
const REASON_TIME: Duration = Duration::from_secs(3);

/// Whether the run shall go on. Later is stronger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// Go on.
    #[default]
    Run,
    /// Save the state, free the lock, deliver a result.
    Stop,
    /// The attempt is over: stop, and deliver nothing.
    Leave,
}

/// Where the switch stands.
#[derive(Clone, Debug, Default)]
struct Position {
    wish: Wish,
    /// When it was first to stop.
    since: Option<Instant>,
    /// The signal that asked to stop, if one did.
    signal: Option<&'static str>,
    /// Canyon's reason.
    reason: Option<Failure>,
    /// Canyon has answered a report that was sent after the signal, and does not stop the run.
    denied: bool,
}

impl Position {
    fn turn(&mut self, wish: Wish) {
        self.wish = self.wish.max(wish);
        if self.wish != Wish::Run {
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// Canyon stops jobs through their platforms too, so a signal alone does not tell who asks.
    fn is_explained(&self) -> bool {
        self.wish == Wish::Run || self.signal.is_none() || self.reason.is_some() || self.denied
    }
}

/// A switch that is only ever turned further.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<Position>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(Position::default()))
    }
}

impl Stop {
    /// A switch that SIGTERM and SIGINT turn to [`Wish::Stop`].
    ///
    /// # Errors
    ///
    /// When the process cannot have signal handlers.
    pub fn on_signals() -> io::Result<Self> {
        let stop = Self::default();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let switch = stop.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    Some(()) = terminate.recv() => switch.signalled("SIGTERM"),
                    Some(()) = interrupt.recv() => switch.signalled("SIGINT"),
                    else => return,
                }
            }
        });
        Ok(stop)
    }

    fn signalled(&self, name: &'static str) {
        self.0.send_modify(|position| {
            position.turn(Wish::Stop);
            position.signal.get_or_insert(name);
        });
    }

    /// Turns it to `wish`, or leaves it where it is further.
    pub fn turn(&self, wish: Wish) {
        self.0.send_if_modified(|position| {
            let further = wish > position.wish;
            position.turn(wish);
            further
        });
    }

    /// Canyon has answered a report that was sent when the switch stood at `then`: whether the run
    /// shall stop, and why.
    pub fn answered(&self, then: Wish, stop: bool, reason: Option<Failure>) {
        self.0.send_modify(|position| {
            if stop {
                position.turn(Wish::Stop);
                position.reason = reason.or_else(|| position.reason.take()).or_else(|| {
                    Some(Failure::new(FailureClass::Cancelled, "Canyon asked the run to stop"))
                });
            } else if then >= Wish::Stop {
                position.denied = true;
            }
        });
    }

    /// Where it stands.
    pub fn wish(&self) -> Wish {
        self.0.borrow().wish
    }

    /// When it was first turned.
    pub fn since(&self) -> Option<Instant> {
        self.0.borrow().since
    }

    /// Whether Canyon is still to be asked why the run was signalled.
    pub fn needs_reason(&self) -> bool {
        !self.0.borrow().is_explained()
    }

    /// Why the run stops. After a signal it waits for an answer of Canyon, but not for long.
    pub async fn reason(&self) -> Failure {
        let mut switch = self.0.subscribe();
        let explained = switch.wait_for(Position::is_explained);
        // Without an answer the signal is all that is known.
        let _ = timeout(REASON_TIME, explained).await;
        let Position { wish, signal, reason, denied, .. } = self.0.borrow().clone();
        if wish == Wish::Leave {
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

    /// Returns once it stands at `wish` or further.
    pub async fn reached(&self, wish: Wish) {
        let mut switch = self.0.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = switch.wait_for(|current| current.wish >= wish).await;
    }
}
