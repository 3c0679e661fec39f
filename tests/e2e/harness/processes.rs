//! Processes of this machine, as `/proc` shows them.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) name: String,
    pub(crate) parent: i32,
    pub(crate) group: i32,
}

/// All of them, without zombies.
pub(crate) fn all() -> Vec<Process> {
    let names = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).filter_map(read).collect()
}

fn read(pid: i32) -> Option<Process> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (front, fields) = line.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let name = front.split_once('(')?.1.to_owned();
    (!matches!(state, "Z" | "X")).then_some(Process { pid, name, parent, group })
}

/// Sends a signal; a process that has ended is no error.
pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// The first processes of the jobs in a data folder: deployment and process id.
pub(crate) fn runners(data: &Path) -> Vec<(String, i32)> {
    runners_in(&data.join("jobs"))
}

/// The same for a folder of jobs.
pub(crate) fn runners_in(jobs: &Path) -> Vec<(String, i32)> {
    let Ok(jobs) = fs::read_dir(jobs) else { return Vec::new() };
    let pid = |folder: PathBuf| -> Option<(String, i32)> {
        let name = folder.file_name()?.to_str()?.to_owned();
        let text = fs::read_to_string(folder.join("pid")).ok()?;
        Some((name, text.split_whitespace().next()?.parse().ok()?))
    };
    jobs.filter_map(|entry| pid(entry.ok()?.path())).collect()
}

/// Kills every process of the jobs in a data folder.
pub(crate) fn kill_jobs(data: &Path) {
    kill_jobs_in(&data.join("jobs"));
}

/// The same for a folder of jobs.
pub(crate) fn kill_jobs_in(jobs: &Path) {
    for (_, pid) in runners_in(jobs) {
        // The id of a dead leader may belong to another process by now; a group outlives its leader.
        let ours = |process: &Process| process.group == pid && works_in(process, jobs).is_some();
        if all().iter().any(ours)
            && let Some(group) = Pid::from_raw(pid)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Every process that works in `folder` or below it, and its folder, which may be deleted by now.
pub(crate) fn working_in(folder: &Path) -> Vec<(PathBuf, Process)> {
    // The kernel shows a folder's path with symbolic links resolved.
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let working = |process: Process| Some((works_in(&process, &folder)?, process));
    all().into_iter().filter_map(working).collect()
}

/// Where a process works, if that is `folder` or below it.
fn works_in(process: &Process, folder: &Path) -> Option<PathBuf> {
    let shown = fs::read_link(format!("/proc/{}/cwd", process.pid)).ok()?;
    let shown = shown.as_os_str().as_bytes();
    // The kernel adds this to the path of a deleted folder (proc(5)).
    let path = shown.strip_suffix(b" (deleted)").unwrap_or(shown);
    Path::new(OsStr::from_bytes(path)).starts_with(folder).then(|| OsStr::from_bytes(path).into())
}
