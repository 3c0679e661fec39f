//! Notices the death of a job, so that the launcher need not poll.
//!
//! If the leader is a child of this process, Tokio waits by its pidfd, which costs a descriptor and
//! a small task, and notices the end at once. (A thread that waits for the lock would cost a stack,
//! and would not notice the death of a leader whose children live on.) Then the lock is polled
//! until the last process of the job is gone; nearly always it is free by then. Jobs of a previous
//! Canyon are not children of this process, and Tokio has no safe way to wait for a pidfd that it
//! did not open: for those, the lock is polled from the beginning.

use super::{
    folder::Folder,
    records,
    tree::{self, State},
};
use std::{io, time::Duration};
use tokio::process::Child;

/// The first and the longest pause between two polls.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// Returns when no process of the job lives. `child` is the leader, if this process must reap it: a
/// dead child stays a zombie until its parent has waited for it.
pub(super) async fn until_gone(folder: Folder, child: Option<Child>) {
    if let Some(mut child) = child {
        let recorded = match child.wait().await {
            // Only for messages; see `super::death`.
            Ok(status) => records::write(&folder.file("exit"), &status.to_string()),
            Err(error) => Err(error),
        };
        if let Err(error) = recorded {
            tracing::debug!(job = folder.name(), %error, "cannot record how the runner ended");
        }
    }
    let (mut pause, mut warned) = (PAUSE.0, false);
    loop {
        // It costs a few system calls; a scan of `/proc` only while the job has no leader.
        match is_gone(&folder) {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => {
                if !std::mem::replace(&mut warned, true) {
                    tracing::warn!(job = folder.name(), %error, "cannot observe the job");
                }
                if error.kind() == io::ErrorKind::PermissionDenied {
                    // If this fails, the next poll fails too.
                    let _ = folder.reopen();
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Whether all processes of the job are dead. Asks orphaned ones to stop.
fn is_gone(folder: &Folder) -> io::Result<bool> {
    match tree::state(folder)? {
        State::Leaderless(leader) => tree::stop_orphans(folder, &leader).map(|()| false),
        State::Alive(_) | State::Starting => Ok(false),
        State::Dead(_) | State::NeverStarted => Ok(true),
    }
}
