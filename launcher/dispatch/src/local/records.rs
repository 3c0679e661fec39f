//! The files of a job's folder, which the job's module can replace, because it runs as the same
//! user.
//!
//! So no read follows a link or waits for a pipe, and a write opens no existing file.

use rustix::{fs::OFlags, io::Errno};
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

/// The maximum number of bytes that are read of a record. Canyon's own have fewer than 100.
const LONGEST_RECORD: u64 = 4 * 1024;

/// The bytes of a file from `offset` on, at most `most`; none if there is no file, or no regular
/// one.
pub(super) fn read_from(path: &Path, offset: u64, most: u64) -> io::Result<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    if !file.metadata()?.is_file() {
        return Ok(Vec::new());
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text that [`write`] wrote; empty if there is no regular file.
pub(super) fn read(path: &Path) -> io::Result<String> {
    match read_from(path, 0, LONGEST_RECORD) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        // A link, or a socket.
        Err(error) if is_of(&error, &[Errno::LOOP, Errno::NXIO]) => Ok(String::new()),
        Err(error) => Err(error),
    }
}

fn is_of(error: &io::Error, kinds: &[Errno]) -> bool {
    kinds.iter().any(|kind| error.raw_os_error() == Some(kind.raw_os_error()))
}

/// Writes a new file and renames it to `path`: a rename replaces a link or a pipe without opening
/// it.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // A unique name, because two processes may record the same leader at once.
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut new = OsString::from(path);
    new.push(format!(".new-{}-{count}", std::process::id()));
    // The name can be guessed. An existing file is removed; if that is impossible, the creation fails.
    let _ = fs::remove_file(&new);
    File::create_new(&new)?.write_all(text.as_bytes())?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;

    #[test]
    fn a_pipe_or_a_link_in_place_of_a_record_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (record, other) = (folder.path().join("exit"), folder.path().join("other"));
        fs::write(&other, "another file").unwrap();
        let pipe = || mknodat(CWD, &record, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let link = || symlink(&other, &record).unwrap();
        for replace in [&pipe as &dyn Fn(), &link] {
            replace();
            assert_eq!(read(&record).unwrap(), "");
            write(&record, "the record\n").unwrap();
            assert_eq!(read(&record).unwrap(), "the record\n");
            assert_eq!(fs::read_to_string(&other).unwrap(), "another file");
            fs::remove_file(&record).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the new file was renamed");
    }

    #[test]
    fn a_record_is_read_only_up_to_its_maximum_size() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("pid");
        assert_eq!(read(&record).unwrap(), "");
        File::create(&record).unwrap().set_len(LONGEST_RECORD * 1000).unwrap();
        assert_eq!(read(&record).unwrap().len() as u64, LONGEST_RECORD);
    }
}
