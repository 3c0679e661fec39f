//! The processes of a job: whether any lives, and how they are stopped.
//!
//! The processes of a job are those that hold its lock as standard input: the runner, its OpenTofu,
//! and OpenTofu's providers (go-plugin passes its own standard input on). All are also in the
//! process group of the first. The runner is not dumpable, so the kernel does not show its standard
//! input to other processes of the same user: it is found by the job's record, or by its argument.

use super::{
    folder::{Folder, Leader},
    process::{Stat, reading_from, started_with, working_in},
};
use rustix::{
    io::Errno,
    process::{Signal, kill_process_group},
};
use std::io;

/// The state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// None of its processes was ever started.
    NeverStarted,
    /// Another call is starting it.
    Starting,
    /// Its first process lives.
    Alive(Leader),
    /// Its first process is dead, but others live.
    Leaderless(Leader),
    /// All are dead.
    Dead(Leader),
}

/// Determines the state of the job.
pub(super) fn state(folder: &Folder) -> io::Result<State> {
    // Check the lock first: if it is free now and a leader is recorded later, no start was running.
    let locked = folder.is_locked()?;
    let leader = match folder.leader()? {
        Some(leader) => leader,
        None if !locked => return Ok(State::NeverStarted),
        None => match find_leader(folder)? {
            Some(leader) => leader,
            None => return Ok(State::Starting),
        },
    };
    Ok(match (leader.is_alive()?, locked) {
        (true, true) => State::Alive(leader),
        (true, false) if folder.was_started_for_job(leader.process)? => State::Alive(leader),
        (false, true) => State::Leaderless(leader),
        (_, false) => State::Dead(leader),
    })
}

/// Finds and records the leader of a job whose starter died before it could. The runner hides its
/// standard input, also from Canyon; another program in its place may not pass on its arguments.
fn find_leader(folder: &Folder) -> io::Result<Option<Leader>> {
    let mut found = holders(folder)?;
    found.extend(started_with(&folder.path())?);
    let leads = |stat: &&Stat| stat.group == stat.process.pid.as_raw_nonzero().get();
    match found.iter().find(leads) {
        Some(stat) => folder.record_leader(stat.process).map(Some),
        None => Ok(None),
    }
}

fn holders(folder: &Folder) -> io::Result<Vec<Stat>> {
    folder.lock_inode().map_or(Ok(Vec::new()), reading_from)
}

/// Asks the job to stop.
pub(super) fn request_stop(folder: &Folder, state: &State) -> io::Result<()> {
    match state {
        // The leader passes one signal on to OpenTofu.
        State::Alive(leader) if folder.note_stop_request(leader.process)? => {
            leader.process.signal(Signal::TERM)
        }
        State::Leaderless(leader) => stop_orphans(folder, leader),
        State::Alive(_) | State::NeverStarted | State::Starting | State::Dead(_) => Ok(()),
    }
}

/// Asks the processes that a dead leader left behind to stop, each once.
///
/// Only processes whose parent is not of the job get a signal: OpenTofu, but not the providers that
/// it still needs to finish its work. (The providers' library ignores SIGINT, but SIGTERM ends them
/// at once.) When OpenTofu is dead as well, its providers have become orphans themselves.
///
/// If the leader was asked, it may have passed the signal on before it died, and a second signal
/// makes OpenTofu exit without saving. Then the processes are left until they end, or until the
/// kill that follows each stop.
pub(super) fn stop_orphans(folder: &Folder, leader: &Leader) -> io::Result<()> {
    if folder.was_asked_to_stop(leader.process) {
        return Ok(());
    }
    let holders = holders(folder)?;
    let is_of_the_job =
        |pid: i32| holders.iter().any(|stat| stat.process.pid.as_raw_nonzero().get() == pid);
    for orphan in holders.iter().filter(|stat| !is_of_the_job(stat.parent)) {
        if folder.note_stop_request(orphan.process)? {
            orphan.process.signal(Signal::TERM)?;
        }
    }
    Ok(())
}

/// Kills the processes that a dead job's commands left behind, because a command of the module
/// started them without waiting. Their standard input is not OpenTofu's, so they do not count as
/// the job, and nothing else ends them.
pub(super) fn kill_leftovers(folder: &Folder, leader: &Leader) -> io::Result<()> {
    let left = working_in(&folder.path(), leader.process.pid)?;
    left.iter().try_for_each(|stat| stat.process.signal(Signal::KILL))
}

/// Kills every process of the job.
pub(super) fn kill(folder: &Folder, state: &State) -> io::Result<()> {
    let (State::Alive(leader) | State::Leaderless(leader)) = state else { return Ok(()) };
    let group = leader.process.pid;
    let holders = holders(folder)?;
    // The kernel does not reuse a group's id while the group has a member: a member that holds the lock,
    // or the leader itself, proves that the group is still the job's.
    let is_ours = holders.iter().any(|stat| stat.group == group.as_raw_nonzero().get());
    if is_ours || leader.is_alive()? {
        match kill_process_group(group, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The processes that created their own group.
    holders.iter().try_for_each(|stat| stat.process.signal(Signal::KILL))
}
