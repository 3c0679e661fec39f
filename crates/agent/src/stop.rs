//! Signals: the first asks the agent to finish, the second to exit at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Counts the requests to end. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<u32>);

impl Stop {
    /// Uses the count of `receiver`.
    pub fn of(receiver: watch::Receiver<u32>) -> Self {
        Self(receiver)
    }

    /// Counts SIGTERM and SIGINT from now on.
    ///
    /// # Errors
    ///
    /// When this process cannot have signal handlers.
    pub fn on_signals() -> std::io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (sender, receiver) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                sender.send_modify(|count| *count += 1);
            }
        });
        Ok(Self(receiver))
    }

    /// How often the agent was asked to end.
    pub fn count(&self) -> u32 {
        *self.0.borrow()
    }

    /// Returns once the agent was asked to end at least `times` times.
    pub async fn asked(&self, times: u32) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|count| *count >= times).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
