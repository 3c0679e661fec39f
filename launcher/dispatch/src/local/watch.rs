//! Notices the death of a job, so that the launcher need not ask.
//!
//! For a leader that is our child, Tokio waits by its pidfd: it costs a descriptor and a small task,
//! and tells at once. (A thread that waits for the lock would cost a stack, and would not see that
//! a leader died whose children live on.) Then the lock is asked again and again, until the last of
//! the tree is gone; nearly always it is free by then. Jobs of an earlier Canyon are nobody's
//! children here, and Tokio has no safe way to wait for a pidfd of one's own: for those, the lock is
//! asked from the beginning.

use super::{
    folder::Folder,
    records,
    tree::{self, State},
};
use std::{io, time::Duration};
use tokio::process::Child;

/// Between two looks, the first and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// Returns when no process of the job lives. `child` is the leader, if it is ours to reap: a dead
/// child stays a zombie until its parent has asked for its end.
pub(super) async fn until_gone(folder: Folder, child: Option<Child>) {
    if let Some(mut child) = child {
        let recorded = match child.wait().await {
            // Only for people; see `super::remains`.
            Ok(status) => records::write(&folder.file("exit"), &status.to_string()),
            Err(error) => Err(error),
        };
        if let Err(error) = recorded {
            tracing::debug!(job = folder.name(), %error, "cannot record how the runner ended");
        }
    }
    let (mut pause, mut warned) = (PAUSE.0, false);
    loop {
        // A few system calls; a scan of `/proc` only while the job has no leader.
        match is_gone(&folder) {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => {
                if !std::mem::replace(&mut warned, true) {
                    tracing::warn!(job = folder.name(), %error, "cannot look at the job");
                }
                if error.kind() == io::ErrorKind::PermissionDenied {
                    // If it fails, so does the next look.
                    let _ = folder.reopen();
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Whether all are dead. Asks orphans to stop.
fn is_gone(folder: &Folder) -> io::Result<bool> {
    match tree::look(folder)? {
        State::Headless(leader) => tree::ask_orphans(folder, &leader).map(|()| false),
        State::Alive(_) | State::Starting => Ok(false),
        State::Dead(_) | State::NeverStarted => Ok(true),
    }
}
