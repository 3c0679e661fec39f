//! The acts of `act.c` as scripts for a process, which notes in files of its work folder.

use crate::behaviour::Act;

pub(crate) const UNTIL_ASKED: &str =
    "trap 'echo x >> asked; exit 0' TERM; echo x >> started; while :; do sleep 0.02; done";
pub(crate) const WRITES: &str =
    "echo 012345678 > log.txt; echo 012345678 > events.jsonl; echo x >> started";
const STUBBORN: &str =
    "trap 'echo x >> asked' TERM; echo x >> started; while :; do sleep 0.02; done";

/// The script of an act.
pub(crate) fn of(act: Act) -> &'static str {
    match act {
        Act::UntilAsked => UNTIL_ASKED,
        Act::Stubborn => STUBBORN,
        Act::Writes => WRITES,
    }
}
