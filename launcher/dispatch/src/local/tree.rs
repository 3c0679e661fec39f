//! The processes of a job: whether any lives, and how they are stopped.
//!
//! A job's tree is whoever holds its lock as standard input: the runner, the OpenTofu that it
//! starts, and OpenTofu's providers (go-plugin hands its own standard input down). Besides, all are
//! in the process group of the first. The runner is not dumpable, so the kernel does not show its standard
//! input to other processes of the same user: it is known by the job's record, or by its argument.

use super::{
    folder::{Folder, Leader},
    process::{Stat, reading_from, started_with, working_in},
};
use rustix::{
    io::Errno,
    process::{Signal, kill_process_group},
};
use std::io;

/// What a job is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No process of it was ever started.
    NeverStarted,
    /// Somebody is about to start it.
    Starting,
    /// Its first process lives.
    Alive(Leader),
    /// Its first process is dead, others live.
    Headless(Leader),
    /// All are dead.
    Dead(Leader),
}

/// Looks at the job.
pub(super) fn look(folder: &Folder) -> io::Result<State> {
    // The lock first: if it is free now and the leader is recorded, then it is not a start that is
    // under way.
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
        (true, false) if folder.was_given_to(leader.process)? => State::Alive(leader),
        (false, true) => State::Headless(leader),
        (_, false) => State::Dead(leader),
    })
}

/// Finds and records the leader of a job whose starter died before it could. The runner hides what its
/// standard input is, also from us; another program in its place may not pass on its arguments.
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
pub(super) fn ask(folder: &Folder, state: &State) -> io::Result<()> {
    match state {
        // It passes one signal on to OpenTofu.
        State::Alive(leader) if folder.note_asked(leader.process)? => {
            leader.process.signal(Signal::TERM)
        }
        State::Headless(leader) => ask_orphans(folder, leader),
        State::Alive(_) | State::NeverStarted | State::Starting | State::Dead(_) => Ok(()),
    }
}

/// Asks what a dead leader left behind to stop, each process once.
///
/// Only those whose parent is not of the job: OpenTofu, and not the providers that it still needs
/// to finish what it has begun. (Their library ignores SIGINT, but SIGTERM ends them at once.)
/// When OpenTofu is dead as well, its providers have become orphans themselves.
///
/// If the leader had been asked, it may have passed that on before it died, and a second signal
/// makes OpenTofu exit without saving: then it is left to end, or to the kill that follows each
/// stop.
pub(super) fn ask_orphans(folder: &Folder, leader: &Leader) -> io::Result<()> {
    if folder.was_asked(leader.process) {
        return Ok(());
    }
    let holders = holders(folder)?;
    let is_of_the_job =
        |pid: i32| holders.iter().any(|stat| stat.process.pid.as_raw_nonzero().get() == pid);
    for orphan in holders.iter().filter(|stat| !is_of_the_job(stat.parent)) {
        if folder.note_asked(orphan.process)? {
            orphan.process.signal(Signal::TERM)?;
        }
    }
    Ok(())
}

/// Kills what a dead job's commands left behind: a command of the module that started others without
/// waiting for them. They have another standard input than OpenTofu, so they do not count as the job,
/// and nobody else ends them.
pub(super) fn kill_left(folder: &Folder, leader: &Leader) -> io::Result<()> {
    let left = working_in(&folder.path(), leader.process.pid)?;
    left.iter().try_for_each(|stat| stat.process.signal(Signal::KILL))
}

/// Kills every process of the job.
pub(super) fn kill(folder: &Folder, state: &State) -> io::Result<()> {
    let (State::Alive(leader) | State::Headless(leader)) = state else { return Ok(()) };
    let group = leader.process.pid;
    let holders = holders(folder)?;
    // A group's id is not given again while the group has a member: one that holds the lock, or the
    // leader itself, proves that the group is still the job's.
    let is_ours = holders.iter().any(|stat| stat.group == group.as_raw_nonzero().get());
    if is_ours || leader.is_alive()? {
        match kill_process_group(group, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // Those that made a group of their own.
    holders.iter().try_for_each(|stat| stat.process.signal(Signal::KILL))
}
