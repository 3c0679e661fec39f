//! Other processes of this host that may hold a state lock.
//!
//! Where jobs are processes of a machine, a person may run OpenTofu on that machine too, with the same
//! `user@host`. So before a lock of this host is broken, no OpenTofu process may live that is older than the
//! lock, unless it works on another state. In a container only the job's own processes exist.

use crate::workspace::Workspace;
use canyon_api::attempt::JudgeLockBody;
use canyon_domain::ids::EnvUuid;
use jiff::{SignedDuration, Timestamp};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The names of the programs that take locks.
const PROGRAMS: [&str; 2] = ["tofu", "terraform"];
/// The kernel counts in ticks of this many milliseconds, on every machine that Linux supports today.
const TICK: i64 = 10;
/// A process writes its lock, with the time, a moment after its start.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);

/// Whether the lock was made on this host: in a container, by this job.
pub fn is_of_this_host(lock: &JudgeLockBody) -> bool {
    let host = lock.who.rsplit_once('@').map_or("", |(_, host)| host);
    rustix::system::uname().nodename().to_str() == Ok(host)
}

/// A living process of this host, not of a job, that may have made the lock on the state of
/// `environment`.
pub fn possible_holder(
    lock: &JudgeLockBody,
    workspace: &Workspace,
    environment: EnvUuid,
) -> Option<u32> {
    if !is_of_this_host(lock) {
        return None;
    }
    let jobs = jobs_folder(&workspace.path(""));
    let latest = lock.created.saturating_add(ROUNDING).unwrap_or(Timestamp::MAX);
    let names =
        fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let may_hold = |process: &Process| {
        PROGRAMS.contains(&process.name.as_str())
            && process.started.is_none_or(|at| at <= latest)
            && !process.is_of_a_job(jobs.as_deref())
            && !process.works_elsewhere(&environment.to_string())
    };
    names
        .filter_map(|name| Process::read(name.parse().ok()?))
        .find(may_hold)
        .map(|process| process.pid)
}

/// The folder of all jobs, `<jobs>`, if Canyon runs jobs on this machine: their folders are `<jobs>/<job>/work`.
fn jobs_folder(root: &Path) -> Option<PathBuf> {
    let jobs = root.parent()?.parent()?;
    jobs.ends_with("jobs").then(|| jobs.to_owned())
}

/// A living process.
struct Process {
    pid: u32,
    name: String,
    parent: u32,
    started: Option<Timestamp>,
}

impl Process {
    /// Reads `/proc/<pid>/stat`; see `proc_pid_stat(5)`.
    fn read(pid: u32) -> Option<Self> {
        let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (front, fields) = line.rsplit_once(')')?;
        let fields: Vec<_> = fields.split_whitespace().collect();
        if matches!(*fields.first()?, "Z" | "X") {
            return None;
        }
        let ticks: i64 = fields.get(19)?.parse().ok()?;
        let started = boot().and_then(|boot| {
            boot.checked_add(SignedDuration::from_millis(ticks.checked_mul(TICK)?)).ok()
        });
        let name = front.split_once('(')?.1.to_owned();
        Some(Self { pid, name, parent: fields.get(1)?.parse().ok()?, started })
    }

    /// Jobs do not count: two of one environment never run at once, and Canyon decides about their locks.
    fn is_of_a_job(&self, jobs: Option<&Path>) -> bool {
        let cwd = fs::read_link(format!("/proc/{}/cwd", self.pid));
        let parent = Self::read(self.parent).map(|parent| parent.name);
        parent.as_deref() == Some("canyon-runner")
            || jobs.zip(cwd.ok()).is_some_and(|(jobs, cwd)| cwd.starts_with(jobs))
    }

    /// Whether the backend in the process's folder belongs to another state: the location of a state contains its
    /// environment's uuid. If the file cannot be read, the answer is no.
    fn works_elsewhere(&self, environment: &str) -> bool {
        let about = |name: &str| PathBuf::from(format!("/proc/{}/{name}", self.pid));
        let Ok(variables) = fs::read(about("environ")) else { return false };
        let data = variable(&variables, b"TF_DATA_DIR").unwrap_or(OsStr::new(".terraform"));
        let backend = about("cwd").join(data).join("terraform.tfstate");
        fs::read_to_string(backend).is_ok_and(|text| !text.contains(environment))
    }
}

/// The value of a variable in a block of `name=value` pairs, each ended by a NUL.
fn variable<'a>(block: &'a [u8], name: &[u8]) -> Option<&'a OsStr> {
    let value = |pair: &'a [u8]| pair.strip_prefix(name)?.strip_prefix(b"=");
    block.split(|byte| *byte == 0).find_map(value).map(OsStr::from_bytes)
}

fn boot() -> Option<Timestamp> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    Timestamp::from_second(seconds.trim().parse().ok()?).ok()
}
