//! The resources that an invocation used.

use std::fs;
use std::time::Duration;

/// The facts of Lambda's `REPORT` line, and a few more.
#[derive(Clone, Debug)]
pub struct Report {
    /// The invocation.
    pub request_id: String,
    /// The position of the invocation, from 1.
    pub number: u64,
    /// From the start of the process to its first `GET .../invocation/next`; `None` if it was warm.
    pub init: Option<Duration>,
    /// From the delivery of the event until the function asked for the next one.
    pub duration: Duration,
    /// The processor time of its threads during the invocation. Threads that ended meanwhile are
    /// not counted.
    pub cpu: Option<Duration>,
    /// The peak of the process's resident memory.
    pub max_memory_kib: Option<u64>,
    /// The error, if it failed.
    pub error: Option<String>,
}

/// Whether a process lives, rather than its remains. A killed process leaves remains that are
/// visible before they can be waited for: its other threads die after its first.
pub(super) fn lives(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// The processor time of the living threads of a process.
pub(super) fn cpu_time(pid: i32) -> Option<Duration> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut nanoseconds: u64 = 0;
    for task in tasks {
        // "time spent on the cpu (in nanoseconds)" comes first (proc_pid_schedstat).
        let line = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        nanoseconds += line.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(nanoseconds))
}

/// The peak of a process's resident memory, in KiB.
pub(super) fn max_memory(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
