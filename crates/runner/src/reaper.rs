//! Reaps zombies. PID 1 becomes the parent of every orphaned process of its container and must wait for it;
//! otherwise zombies fill the process table.

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use std::collections::BTreeSet;
use std::fs;
use std::sync::{Mutex, PoisonError};
use tokio::signal::unix::{SignalKind, signal};

/// The child processes that other code of the runner waits for.
static OWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Excludes the child `pid` from reaping while this guard lives: the code that started it waits for it.
#[derive(Debug)]
pub struct OwnChild(Option<u32>);

impl OwnChild {
    /// Call it right after the start, without an `await` in between.
    pub fn new(pid: Option<u32>) -> Self {
        OWN.lock().unwrap_or_else(PoisonError::into_inner).extend(pid);
        Self(pid)
    }
}

impl Drop for OwnChild {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            OWN.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
        }
    }
}

/// Starts to reap orphaned processes, if this process is PID 1.
pub fn start_if_init() {
    if getpid() == Pid::INIT {
        start();
    }
}

/// Becomes the parent of every orphaned process below this one, and reaps these, also where this process is not PID 1: some
/// platforms put an init of their own before it.
pub fn adopt_orphans() {
    if getpid() != Pid::INIT && set_child_subreaper(Some(getpid())).is_ok() {
        start();
    }
}

fn start() {
    let Ok(mut child_ended) = signal(SignalKind::child()) else { return };
    tokio::spawn(async move {
        while child_ended.recv().await.is_some() {
            reap();
        }
    });
}

/// Reaps all children that no other code waits for.
fn reap() {
    let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let orphans = children
        .split_whitespace()
        .filter_map(|pid| pid.parse::<u32>().ok())
        .filter(|pid| !own.contains(pid));
    for pid in orphans.filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
        // The child still runs, or other code has reaped it: both are fine.
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}
