//! What a dead job left in its folder.

use super::folder::{Folder, Leader};
use crate::TAIL_LIMIT;
use canyon_domain::failure::{Failure, FailureClass};
use rustix::fs::OFlags;
use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// The most that is quoted of a dead runner's last line, in characters.
const LAST_WORDS: usize = 300;

/// What can be told of a job that is dead.
pub(super) fn reason_of_death(folder: &Folder, leader: &Leader) -> io::Result<Failure> {
    if !leader.is_of_this_boot()? {
        let message = "the machine was restarted while the job ran";
        return Ok(Failure::new(FailureClass::Lost, message));
    }
    let exit = fs::read_to_string(folder.file("exit"))
        .map_or_else(|_| String::new(), |status| format!(" ({status})"));
    let output = folder.file("runner.log");
    let size = fs::metadata(&output).map_or(0, |file| file.len());
    let end = read_from(&output, size.saturating_sub(4096)).unwrap_or_default();
    let end = String::from_utf8_lossy(&end);
    let said = end.lines().map(str::trim).rfind(|line| !line.is_empty()).map_or_else(
        || "it said nothing".to_owned(),
        |line| {
            let line: String = line.chars().filter(|c| !c.is_control()).take(LAST_WORDS).collect();
            format!("it last said: {line}")
        },
    );
    let message = format!("the runner ended without a result{exit}; {said}");
    Ok(Failure::new(FailureClass::Lost, message))
}

/// Never follows a link and never waits for a pipe: the module that ran there may have put either
/// in the file's place.
pub(super) fn read_from(path: &Path, offset: u64) -> io::Result<Vec<u8>> {
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
    file.take(TAIL_LIMIT).read_to_end(&mut bytes)?;
    Ok(bytes)
}
