//! PID 1 inherits every orphan of its container and must take their exit codes, or they stay as
//! zombies until the table of processes is full.

use rustix::process::{Pid, WaitOptions, getpid, waitpid};
use std::collections::BTreeSet;
use std::fs;
use std::sync::{Mutex, PoisonError};
use tokio::signal::unix::{SignalKind, signal};

/// The children that somebody else waits for.
static OWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Leaves the child `pid` to whoever started it, for as long as the guard lives.
#[derive(Debug)]
pub struct Own(Option<u32>);

impl Own {
    /// To be called right after the start, without waiting in between.
    pub fn child(pid: Option<u32>) -> Self {
        OWN.lock().unwrap_or_else(PoisonError::into_inner).extend(pid);
        Self(pid)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            OWN.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
        }
    }
}

/// Reaps orphans from now on, if this process is PID 1.
pub fn start_if_init() {
    if getpid() != Pid::INIT {
        return;
    }
    let Ok(mut child_ended) = signal(SignalKind::child()) else { return };
    tokio::spawn(async move {
        while child_ended.recv().await.is_some() {
            reap();
        }
    });
}

/// Takes the exit codes of all children that nobody waits for.
fn reap() {
    let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let orphans = children
        .split_whitespace()
        .filter_map(|pid| pid.parse::<u32>().ok())
        .filter(|pid| !own.contains(pid));
    for pid in orphans.filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
        // Still running, or taken by somebody else: both are fine.
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}
