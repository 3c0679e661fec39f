//! Why a job died, from the files in its folder.

use super::{
    folder::{Folder, Leader},
    records,
};
use canyon_domain::failure::{Failure, FailureClass};
use std::{fs, io};

/// How much of the end of the runner's output is read, in bytes.
const END: u64 = 4 * 1024;
/// The maximum number of characters quoted of a record or of a dead runner's last line.
const MAX_MESSAGE: usize = 300;

/// The failure of a job that is dead.
pub(super) fn reason_of_death(folder: &Folder, leader: &Leader) -> io::Result<Failure> {
    if !leader.is_of_this_boot()? {
        let message = "the machine was restarted while the job ran";
        return Ok(Failure::new(FailureClass::Lost, message));
    }
    let exit = printable(&records::read(&folder.file("exit")).unwrap_or_default());
    let exit = if exit.is_empty() { exit } else { format!(" ({exit})") };
    let output = folder.file("runner.log");
    let size = fs::symlink_metadata(&output).map_or(0, |file| file.len());
    let end = records::read_from(&output, size.saturating_sub(END), END).unwrap_or_default();
    let end = String::from_utf8_lossy(&end);
    let last = end.lines().map(str::trim).rfind(|line| !line.is_empty()).map_or_else(
        || "it wrote no message".to_owned(),
        |line| format!("its last message: {}", printable(line)),
    );
    let message = format!("the runner ended without a result{exit}; {last}");
    Ok(Failure::new(FailureClass::Lost, message))
}

/// The beginning of a text that the job may have written, for a message.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE).collect()
}
