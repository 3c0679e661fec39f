//! Whether the run shall go on. Many may ask to stop; it is asked once.

use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

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

/// A switch that is only ever turned further.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<Wish>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(Wish::Run))
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
                    Some(()) = terminate.recv() => switch.turn(Wish::Stop),
                    Some(()) = interrupt.recv() => switch.turn(Wish::Stop),
                    else => return,
                }
            }
        });
        Ok(stop)
    }

    /// Turns it to `wish`, or leaves it where it is further.
    pub fn turn(&self, wish: Wish) {
        self.0.send_if_modified(|current| {
            let further = wish > *current;
            *current = wish.max(*current);
            further
        });
    }

    /// Where it stands.
    pub fn wish(&self) -> Wish {
        *self.0.borrow()
    }

    /// Returns once it stands at `wish` or further.
    pub async fn reached(&self, wish: Wish) {
        let mut switch = self.0.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = switch.wait_for(|current| *current >= wish).await;
    }
}
