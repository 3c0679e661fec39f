//! A program that ends with its test, however the test ends.

use super::processes;
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// A running program. Dropping it ends the program and every process that works in its folder.
pub(crate) struct Running {
    pub(crate) child: Child,
    folder: PathBuf,
}

impl Running {
    /// Processes that `child` starts work in `folder`.
    pub(crate) fn new(child: Child, folder: PathBuf) -> Self {
        Self { child, folder }
    }

    /// Waits until it has ended; after `within` it is killed, and so has no exit code.
    pub(crate) async fn ended(&mut self, within: Duration) -> ExitStatus {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            if Instant::now() > deadline {
                self.kill();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for (_, process) in processes::working_in(&self.folder) {
            processes::signal(process.pid, Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // If the program ended by itself, its leftover processes stay for the test to see.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill();
        }
    }
}
