//! A job's folder: everything that is known of the job is in it, so that a Canyon which was
//! restarted, or killed at any moment, knows as much as the one before.

use super::process::{Inode, Process, boot_id};
use crate::JobRef;
use rustix::{
    fd::OwnedFd,
    fs::{FlockOperation, Mode, OFlags, flock},
    io::Errno,
    process::Pid,
};
use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
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
                fs::remove_dir_all(entry.path())?;
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

    fn open_lock(&self, flags: OFlags) -> io::Result<Option<OwnedFd>> {
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::open(self.file("lock"), flags, Mode::RUSR | Mode::WUSR) {
            Ok(lock) => Ok(Some(lock)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the job's lock; `None` if somebody has it, or if the folder vanished meanwhile.
    ///
    /// The lock belongs to the open file (`flock(2)`): whoever inherits that holds it too, and the
    /// kernel frees it when the last of them is dead.
    pub(super) fn lock(&self) -> io::Result<Option<OwnedFd>> {
        let Some(lock) = self.open_lock(OFlags::CREATE)? else { return Ok(None) };
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
        match self.open_lock(OFlags::empty())? {
            Some(lock) => Ok(!try_flock(&lock, FlockOperation::NonBlockingLockShared)?),
            None => Ok(false),
        }
    }

    pub(super) fn lock_inode(&self) -> Option<Inode> {
        fs::symlink_metadata(self.file("lock")).ok().map(|file| Inode::of(&file))
    }

    /// The first process of the job, dead or alive, if it was ever started.
    pub(super) fn leader(&self) -> io::Result<Option<Leader>> {
        match fs::read_to_string(self.file("pid")) {
            Ok(text) => Ok(parse_leader(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Records the first process of the job.
    pub(super) fn record_leader(&self, process: Process) -> io::Result<Leader> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let leader = Leader { process, boot: boot_id()? };
        let text = format!("{} {} {}\n", process.pid.as_raw_nonzero(), process.start, leader.boot);
        // A name of its own: two who found the same process may write this at once.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let new = self.file(&format!("pid.new-{}-{count}", std::process::id()));
        fs::write(&new, text)?;
        fs::rename(new, self.file("pid"))?;
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
        fs::remove_dir_all(forgotten)
    }
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
    let pid = Pid::from_raw(words.next()?.parse().ok()?)?;
    let start = words.next()?.parse().ok()?;
    Some(Leader { process: Process { pid, start }, boot: words.next()?.to_owned() })
}
