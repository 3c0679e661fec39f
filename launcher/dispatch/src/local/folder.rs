//! A job's folder contains everything that Canyon knows of the job, so that a Canyon that is
//! restarted or killed at any moment loses nothing.

use super::process::{Inode, Process, boot_id, started_with};
use super::records;
use crate::JobRef;
use rustix::{
    fd::OwnedFd,
    fs::{FlockOperation, Mode, OFlags, flock},
    io::Errno,
    process::{Pid, getpgrp, getpid},
};
use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// The prefix of folders that are being removed.
const REMOVAL_PREFIX: &str = ".removed-";

/// A job's folder, which need not exist.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    jobs: PathBuf,
    name: String,
}

/// The first process of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leader {
    pub(super) process: Process,
    boot: String,
}

impl Leader {
    /// Whether it was started after the machine's last boot.
    pub(super) fn is_of_this_boot(&self) -> io::Result<bool> {
        Ok(boot_id()? == self.boot)
    }

    pub(super) fn is_alive(&self) -> io::Result<bool> {
        Ok(self.is_of_this_boot()? && self.process.is_alive())
    }
}

impl Folder {
    pub(super) fn of(jobs: &Path, job: &JobRef) -> Self {
        Self { jobs: jobs.to_owned(), name: format!("{}-{}", job.deployment, job.attempt) }
    }

    /// The jobs that have a folder. Also completes every interrupted [`Self::remove`].
    pub(super) fn all(jobs: &Path) -> io::Result<Vec<JobRef>> {
        let mut found = Vec::new();
        let entries = match fs::read_dir(jobs) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(REMOVAL_PREFIX) {
                if let Err(error) = remove_all(&entry.path()) {
                    tracing::warn!(folder = %entry.path().display(), %error, "cannot remove the rest of a job's folder");
                }
                continue;
            }
            let Some((deployment, attempt)) = name.rsplit_once('-') else { continue };
            if let (Ok(deployment), Ok(attempt)) = (deployment.parse(), attempt.parse()) {
                found.push(JobRef { deployment, attempt, handle: None });
            }
        }
        Ok(found)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn path(&self) -> PathBuf {
        self.jobs.join(&self.name)
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Creates the folder, accessible to this user only, because states and plans contain secrets.
    pub(super) fn create(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true);
        ["work", "tmp"].iter().try_for_each(|part| builder.create(self.file(part)))
    }

    fn open_lock(&self, makes_it: bool) -> io::Result<Option<OwnedFd>> {
        // The module can replace the lock: by a link or a socket, which cannot be locked, or by a pipe, on which an open blocks.
        let plain = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let path = self.file("lock");
        let open = |flags| rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR);
        let opened = match open(plain) {
            Err(Errno::NOENT) if makes_it => open(plain | OFlags::CREATE),
            Err(Errno::LOOP | Errno::NXIO) if makes_it => {
                fs::remove_file(&path)?;
                open(plain | OFlags::CREATE)
            }
            opened => opened,
        };
        match opened {
            Ok(lock) => Ok(Some(lock)),
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the job's lock; `None` if another process has it, or if the folder was removed
    /// meanwhile.
    ///
    /// The lock belongs to the open file (`flock(2)`): every process that inherits the file holds
    /// the lock too, and the kernel frees it when the last of them is dead.
    pub(super) fn lock(&self) -> io::Result<Option<OwnedFd>> {
        let Some(lock) = self.open_lock(true)? else { return Ok(None) };
        if !try_flock(&lock, FlockOperation::NonBlockingLockExclusive)? {
            return Ok(None);
        }
        // Between the open and the lock, the folder may have been removed.
        let locked = Inode::of(&File::from(lock.try_clone()?).metadata()?);
        Ok((self.lock_inode() == Some(locked)).then_some(lock))
    }

    /// Whether a process holds the job's lock. The check takes the lock for an instant, shared, so
    /// that concurrent checks do not disturb each other.
    pub(super) fn is_locked(&self) -> io::Result<bool> {
        match self.open_lock(false)? {
            Some(lock) => Ok(!try_flock(&lock, FlockOperation::NonBlockingLockShared)?),
            None => Ok(false),
        }
    }

    pub(super) fn lock_inode(&self) -> Option<Inode> {
        fs::symlink_metadata(self.file("lock")).ok().map(|file| Inode::of(&file))
    }

    /// The first process of the job, dead or alive, if it was ever started.
    pub(super) fn leader(&self) -> io::Result<Option<Leader>> {
        Ok(parse_leader(&records::read(&self.file("pid"))?))
    }

    /// Whether the process was started for this job, whatever its lock shows. A module can replace
    /// the lock, and can record another process of this user as the job's first one.
    pub(super) fn was_started_for_job(&self, process: Process) -> io::Result<bool> {
        Ok(started_with(&self.path())?.iter().any(|stat| stat.process == process))
    }

    /// Restores Canyon's permissions on the folder, which a module may have removed.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let path = self.path();
        if fs::symlink_metadata(&path)?.is_dir() {
            fs::set_permissions(&path, PermissionsExt::from_mode(0o700))?;
        }
        Ok(())
    }

    /// Records the first process of the job.
    pub(super) fn record_leader(&self, process: Process) -> io::Result<Leader> {
        let leader = Leader { process, boot: boot_id()? };
        let text = format!("{} {} {}\n", process.pid.as_raw_nonzero(), process.start, leader.boot);
        records::write(&self.file("pid"), &text)?;
        Ok(leader)
    }

    fn signal_mark(&self, process: Process) -> PathBuf {
        self.file(&format!("asked-{}-{}", process.pid.as_raw_nonzero(), process.start))
    }

    /// Notes that `process` is being asked to stop; `false` if it was asked before. The note is
    /// written before the signal: a missing signal is followed by a kill, but a second one would do
    /// harm.
    pub(super) fn note_stop_request(&self, process: Process) -> io::Result<bool> {
        match File::create_new(self.signal_mark(process)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn was_asked_to_stop(&self, process: Process) -> bool {
        self.signal_mark(process).exists()
    }

    /// Removes the folder. The caller holds the lock.
    pub(super) fn remove(&self) -> io::Result<()> {
        // A rename hides the folder at once, in whatever order its files are removed.
        let removed = self.jobs.join(format!("{REMOVAL_PREFIX}{}", self.name));
        fs::rename(self.path(), &removed)?;
        remove_all(&removed)
    }
}

/// Removes a folder, also if a module has removed the write permission from folders in it, as Go
/// does for its module cache.
fn remove_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        removed => removed,
    }
}

fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, PermissionsExt::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Links are not followed.
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

fn try_flock(lock: &OwnedFd, operation: FlockOperation) -> io::Result<bool> {
    match flock(lock, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Parses the record of a leader; `None` if it is incomplete, for example after a full disk.
fn parse_leader(text: &str) -> Option<Leader> {
    let mut words = text.strip_suffix('\n')?.split(' ');
    // A module can write this record. The first process of the machine (whose group means all processes in kill(2))
    // and Canyon itself are never a job.
    let number: i32 = words.next()?.parse().ok()?;
    let pid = Pid::from_raw(Some(number).filter(|number| *number > 1)?)?;
    if [getpid(), getpgrp()].contains(&pid) {
        return None;
    }
    let start = words.next()?.parse().ok()?;
    Some(Leader { process: Process { pid, start }, boot: words.next()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_names_canyon_or_the_machines_first_process_is_ignored() {
        let record = |pid: i32| parse_leader(&format!("{pid} 7 boot\n"));
        assert_eq!(record(4_000_000).unwrap().boot, "boot");
        for forged in [
            0,
            1,
            -1,
            -4_000_000,
            getpid().as_raw_nonzero().get(),
            getpgrp().as_raw_nonzero().get(),
        ] {
            assert_eq!(record(forged), None, "{forged}");
        }
        assert_eq!(parse_leader("4000000 7 boot"), None, "incomplete");
    }

    #[test]
    fn a_folder_without_write_permission_is_removed_and_the_target_of_a_link_is_not() {
        let root = tempfile::tempdir().unwrap();
        let (job, other) = (root.path().join("job"), root.path().join("other"));
        fs::create_dir_all(job.join("go/pkg/mod")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::set_permissions(&other, PermissionsExt::from_mode(0o500)).unwrap();
        fs::write(job.join("go/pkg/mod/file"), "").unwrap();
        std::os::unix::fs::symlink(&other, job.join("go/link")).unwrap();
        for closed in ["go/pkg/mod", "go/pkg", "go"] {
            fs::set_permissions(job.join(closed), PermissionsExt::from_mode(0o500)).unwrap();
        }
        // The superuser is never refused, so the result is compared with that of other users.
        open_up(&job).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&job.join("go/pkg/mod")), mode(&other)), (0o700, 0o500));
        remove_all(&job).unwrap();
        assert!(!job.exists() && other.exists());
    }
}
