//! A job's folder: everything that is known of the job is in it, so that a Canyon which was
//! restarted, or killed at any moment, knows as much as the one before.

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

/// Folders of this prefix were being removed.
const FORGOTTEN: &str = ".forgotten-";

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
    /// Whether it was started since the machine was.
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

    /// The jobs that have a folder. Also removes what a [`Self::remove`] left that was cut short.
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
            if name.starts_with(FORGOTTEN) {
                if let Err(error) = remove_all(&entry.path()) {
                    tracing::warn!(folder = %entry.path().display(), %error, "cannot remove what a job left");
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

    /// Makes it, for the eyes of this user only: state and plans hold secrets.
    pub(super) fn create(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true);
        ["work", "tmp"].iter().try_for_each(|part| builder.create(self.file(part)))
    }

    fn open_lock(&self, makes_it: bool) -> io::Result<Option<OwnedFd>> {
        // The module can replace it: by a link or a socket, which cannot be held, or by a pipe, for which an open waits.
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

    /// Takes the job's lock; `None` if somebody has it, or if the folder vanished meanwhile.
    ///
    /// The lock belongs to the open file (`flock(2)`): whoever inherits that holds it too, and the
    /// kernel frees it when the last of them is dead.
    pub(super) fn lock(&self) -> io::Result<Option<OwnedFd>> {
        let Some(lock) = self.open_lock(true)? else { return Ok(None) };
        if !try_flock(&lock, FlockOperation::NonBlockingLockExclusive)? {
            return Ok(None);
        }
        // Between the opening and the lock, the folder may have been removed.
        let locked = Inode::of(&File::from(lock.try_clone()?).metadata()?);
        Ok((self.lock_inode() == Some(locked)).then_some(lock))
    }

    /// Whether somebody holds the job's lock. Looking takes it for an instant, shared, so that two
    /// who look do not see each other.
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

    /// Whether the process was started for this job, whatever its lock says. A module can replace the lock, and can
    /// record another process of this user as the first one of the job.
    pub(super) fn was_given_to(&self, process: Process) -> io::Result<bool> {
        Ok(started_with(&self.path())?.iter().any(|stat| stat.process == process))
    }

    /// Gives Canyon its rights on the folder back, which a module may have taken.
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

    /// Notes that `process` is being asked to stop; `false` if it was before. The note comes first:
    /// rather no signal, which the kill makes up for, than two.
    pub(super) fn note_asked(&self, process: Process) -> io::Result<bool> {
        match File::create_new(self.signal_mark(process)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn was_asked(&self, process: Process) -> bool {
        self.signal_mark(process).exists()
    }

    /// Removes it. The caller holds the lock.
    pub(super) fn remove(&self) -> io::Result<()> {
        // At once for whoever looks, in whatever order the files go then.
        let forgotten = self.jobs.join(format!("{FORGOTTEN}{}", self.name));
        fs::rename(self.path(), &forgotten)?;
        remove_all(&forgotten)
    }
}

/// Removes a folder, also where a module has taken the right to write from folders of its own, as programs of Go do
/// with their module cache.
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
        // Not what a link leads to.
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

/// `None` for a text that was cut short, as by a full disk.
fn parse_leader(text: &str) -> Option<Leader> {
    let mut words = text.strip_suffix('\n')?.split(' ');
    // A module can write this record. Neither what its machine began with is a job, whose group stands for all processes
    // in kill(2), nor Canyon itself.
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
    fn a_record_that_names_canyon_itself_or_the_first_process_is_none() {
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
        assert_eq!(parse_leader("4000000 7 boot"), None, "cut short");
    }

    #[test]
    fn a_folder_that_a_module_has_closed_is_removed_and_what_a_link_leads_to_is_not() {
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
        // The superuser is not refused, so this is as it is for others.
        open_up(&job).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&job.join("go/pkg/mod")), mode(&other)), (0o700, 0o500));
        remove_all(&job).unwrap();
        assert!(!job.exists() && other.exists());
    }
}
