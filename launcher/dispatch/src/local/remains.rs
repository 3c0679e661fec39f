//! What a dead job left in its folder.

use super::{
    folder::{Folder, Leader},
    records,
};
use canyon_domain::failure::{Failure, FailureClass};
use std::{fs, io};

/// The most that is read of the end of what the runner said, in bytes.
const END: u64 = 4 * 1024;
/// The most that is quoted of a record or of a dead runner's last line, in characters.
const LAST_WORDS: usize = 300;

/// What can be told of a job that is dead.
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
    let said = end.lines().map(str::trim).rfind(|line| !line.is_empty()).map_or_else(
        || "it said nothing".to_owned(),
        |line| format!("it last said: {}", printable(line)),
    );
    let message = format!("the runner ended without a result{exit}; {said}");
    Ok(Failure::new(FailureClass::Lost, message))
}

/// The beginning of a text that the job can have written, for a message.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(LAST_WORDS).collect()
}
