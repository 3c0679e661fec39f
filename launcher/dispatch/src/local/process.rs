//! Identifies a process, although the kernel reuses process ids.

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use std::{
    fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

/// One process, and no later one with the same id: no two processes have the same id and start
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    /// Clock ticks from the boot to the start.
    pub(super) start: u64,
}

/// A file, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inode(u64, u64);

impl Inode {
    pub(super) fn of(file: &fs::Metadata) -> Self {
        Self(file.dev(), file.ino())
    }
}

/// A line of `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) process: Process,
    /// Dead, but not yet reaped by its parent.
    pub(super) zombie: bool,
    pub(super) parent: i32,
    pub(super) group: i32,
}

impl Stat {
    /// The current process with this id, if there is one.
    pub(super) fn read(pid: Pid) -> Option<Self> {
        let line = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        Self::parse(pid, &line)
    }

    /// Parses the line, see `proc_pid_stat(5)`. The program's name, in parentheses, may contain any
    /// character.
    fn parse(pid: Pid, line: &str) -> Option<Self> {
        let (_, fields) = line.rsplit_once(')')?;
        let fields: Vec<_> = fields.split_whitespace().collect();
        Some(Self {
            process: Process { pid, start: fields.get(19)?.parse().ok()? },
            zombie: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
        })
    }
}

impl Process {
    /// Whether the process lives. A zombie does not.
    pub(super) fn is_alive(self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| stat.process == self && !stat.zombie)
    }

    /// Sends `signal` to this process and no other; does nothing if it is dead.
    pub(super) fn signal(self, signal: Signal) -> io::Result<()> {
        let descriptor = match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(descriptor) => descriptor,
            Err(Errno::SRCH) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // The descriptor refers to one process forever, so the check below stays true.
        if !self.is_alive() {
            return Ok(());
        }
        match pidfd_send_signal(descriptor, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The processes whose standard input is `file`. Processes of other users are not visible; none of
/// a job belongs to them.
pub(super) fn reading_from(file: Inode) -> io::Result<Vec<Stat>> {
    living(|process| {
        fs::metadata(process.join("fd/0")).is_ok_and(|input| Inode::of(&input) == file)
    })
}

/// The processes of this user whose last argument is `argument`. For a process that is not
/// dumpable, such as the runner, other processes of its user see nothing else that identifies it
/// (`proc(5)`).
pub(super) fn started_with(argument: &Path) -> io::Result<Vec<Stat>> {
    let user = rustix::process::geteuid().as_raw();
    living(|process| {
        fs::metadata(process).is_ok_and(|folder| folder.uid() == user)
            && fs::read(process.join("cmdline"))
                .is_ok_and(|line| last_argument(&line) == Some(argument.as_os_str().as_bytes()))
    })
}

/// The last argument of a command line, in which each argument ends with a zero byte.
fn last_argument(line: &[u8]) -> Option<&[u8]> {
    line.strip_suffix(&[0])?.rsplit(|byte| *byte == 0).next()
}

/// The processes of a group whose working folder is below `folder`. The folder tells them from a
/// later group with the same id.
pub(super) fn working_in(folder: &Path, group: Pid) -> io::Result<Vec<Stat>> {
    let mut found = living(|process| {
        fs::read_link(process.join("cwd")).is_ok_and(|works| works.starts_with(folder))
    })?;
    found.retain(|stat| stat.group == group.as_raw_nonzero().get());
    Ok(found)
}

/// The living processes whose folder in `/proc` satisfies `is_wanted`.
fn living(is_wanted: impl Fn(&Path) -> bool) -> io::Result<Vec<Stat>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| is_wanted(&entry.path())) {
            found.extend(Stat::read(pid).filter(|stat| !stat.zombie));
        }
    }
    Ok(found)
}

/// The machine's boot id, which differs after each boot.
pub(super) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_name_may_contain_any_character() {
        let pid = Pid::from_raw(7).unwrap();
        let line = "7 (a) R 1 (b) Z 5 6 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        let stat = Stat::parse(pid, line).unwrap();
        let expected =
            Stat { process: Process { pid, start: 4711 }, zombie: true, parent: 5, group: 6 };
        assert_eq!(stat, expected);
        assert_eq!(Stat::parse(pid, "7 (a) R 1"), None);
    }

    #[test]
    fn a_process_that_only_has_the_same_id_gets_no_signal() {
        let me = Stat::read(rustix::process::getpid()).unwrap().process;
        assert!(me.is_alive());
        let former = Process { start: me.start - 1, ..me };
        assert!(!former.is_alive());
        former.signal(Signal::KILL).unwrap();
    }
}
