//! Other processes of this host that may hold a state lock.
//!
//! Where jobs are processes of a machine, a person may run OpenTofu on that machine too, with the same
//! `user@host`. So before a lock of this host is broken, no OpenTofu process may live that is older than the
//! lock, unless it works on another state. In a container only the job's own processes exist.

use crate::lock_owner_name;
use canyon_api::attempt::JudgeLockBody;
use canyon_domain::ids::EnvUuid;
use jiff::{SignedDuration, Timestamp};
use rustix::process::{Uid, getuid};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

/// The names of the programs that take locks.
const PROGRAMS: [&str; 2] = ["tofu", "terraform"];
/// The kernel counts in ticks of this many milliseconds, on every machine that Linux supports today.
const TICK: i64 = 10;
/// A process writes its lock, with the time, a moment after its start.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);

/// A process that ends has no folder and no variables any more, a moment before the kernel shows that it has ended.
const END: Duration = Duration::from_millis(200);
/// The most ancestors of a process that are looked at.
const MAX_ANCESTORS: usize = 16;

/// A living process of this host, not of a job, that may have made the lock on the state of
/// `environment`.
pub async fn possible_holder(lock: &JudgeLockBody, environment: EnvUuid) -> Option<u32> {
    let (owner, host) = lock.who.rsplit_once('@')?;
    if host != lock_owner_name::host() {
        return None;
    }
    // The processes of other users have other locks, if this user's locks can be told from theirs.
    let uid = (lock_owner_name::user().as_deref() == Some(owner)).then(getuid);
    let latest = lock.created.saturating_add(ROUNDING).unwrap_or(Timestamp::MAX);
    let environment = environment.to_string();
    possible_holder_now(latest, &environment, uid)?;
    tokio::time::sleep(END).await;
    possible_holder_now(latest, &environment, uid)
}

fn possible_holder_now(latest: Timestamp, environment: &str, uid: Option<Uid>) -> Option<u32> {
    let names =
        fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let may_hold = |process: &Process| {
        PROGRAMS.contains(&process.name.as_str())
            && process.started.is_none_or(|at| at <= latest)
            && uid.is_none_or(|uid| process.may_be_of(uid))
            && !process.is_of_a_job()
            && !process.works_elsewhere(environment)
    };
    names
        .filter_map(|name| Process::read(name.parse().ok()?))
        .find(may_hold)
        .map(|process| process.pid)
}

/// Whether a path is in the folder of a job of any Canyon on this machine: `jobs/<job>/work`, or
/// `jobs/<runner>/<job>/work` of an agent. The kernel adds ` (deleted)` to the path of a folder that was removed.
fn is_in_a_job(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let parts: Vec<&str> = text.trim_end_matches(" (deleted)").split('/').collect();
    let is_uuid = |part: &str| part.parse::<Uuid>().is_ok();
    let is_job = |part: &str| {
        part.rsplit_once('-')
            .is_some_and(|(id, number)| is_uuid(id) && number.parse::<u32>().is_ok())
    };
    parts.iter().enumerate().filter(|(_, part)| **part == "jobs").any(|(at, _)| {
        match parts.get(at + 1..).unwrap_or_default() {
            [job, "work", ..] => is_job(job),
            [runner, job, "work", ..] => is_uuid(runner) && is_job(job),
            _ => false,
        }
    })
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

    /// Whether the process may belong to a user: its real user id is that, or cannot be read.
    fn may_be_of(&self, uid: Uid) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let real = line.and_then(|ids| ids.split_whitespace().next()?.parse().ok());
        real.is_none_or(|real: u32| real == uid.as_raw())
    }

    /// Jobs do not count: two of one environment never run at once, and Canyon decides about their locks.
    fn is_of_a_job(&self) -> bool {
        let cwd = fs::read_link(format!("/proc/{}/cwd", self.pid));
        cwd.is_ok_and(|cwd| is_in_a_job(&cwd)) || self.descends_from_a_runner()
    }

    fn descends_from_a_runner(&self) -> bool {
        let ancestors = std::iter::successors(Self::read(self.parent), |of| Self::read(of.parent));
        ancestors.take(MAX_ANCESTORS).any(|ancestor| ancestor.name == "canyon-runner")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_job_is_recognized_also_when_it_was_removed() {
        let job = "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000-2";
        let runner = "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
        let is_in_a_job = |path: String| is_in_a_job(Path::new(&path));
        assert!(is_in_a_job(format!("/srv/a/.canyon/jobs/{job}/work/module")));
        assert!(is_in_a_job(format!("/data/jobs/{job}/work (deleted)")));
        assert!(is_in_a_job(format!("/var/lib/canyon/jobs/{runner}/{job}/work/module (deleted)")));
        assert!(is_in_a_job(format!("/srv/jobs/canyon/jobs/{job}/work")));
        for other in [
            format!("/srv/jobs/{job}"),
            format!("/srv/jobs/{runner}/work"),
            format!("/srv/{job}/work"),
        ] {
            assert!(!is_in_a_job(other.clone()), "{other}");
        }
    }
}
