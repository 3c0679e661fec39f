//! Ctrl-C and the other signals that ask this process to end.

use crate::error::CliError;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that ask this process to end: after the first it ends in order, after the second at once.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    seen: u32,
}

impl Interrupts {
    /// From now on they end nothing by themselves.
    pub(crate) fn listen() -> Result<Self, CliError> {
        let of = |kind| signal(kind).map_err(CliError::Runtime);
        Ok(Self {
            interrupt: of(SignalKind::interrupt())?,
            terminate: of(SignalKind::terminate())?,
            hangup: of(SignalKind::hangup())?,
            seen: 0,
        })
    }

    /// Waits for the next signal, and returns how many there were with it.
    pub(crate) async fn next(&mut self) -> u32 {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
        self.seen += 1;
        self.seen
    }

    /// Whether the user asked twice, and so does not want to wait any longer.
    pub(crate) fn is_hurried(&self) -> bool {
        self.seen > 1
    }
}
