//! What the commands of a module really did: each writes a line at its begin and its end, through
//! the shell.

use std::fs;
use std::path::Path;

/// A line: what happened, in which round, to which resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) what: String,
    pub(crate) round: u32,
    pub(crate) index: u32,
}

/// Every line, in order.
pub(crate) fn read(path: &Path) -> Vec<Entry> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let entry = |line: &str| -> Option<Entry> {
        let mut words = line.split_whitespace();
        let what = words.next()?.to_owned();
        Some(Entry { what, round: words.next()?.parse().ok()?, index: words.next()?.parse().ok()? })
    };
    text.lines().map(|line| entry(line).unwrap_or_else(|| panic!("odd line {line:?}"))).collect()
}

/// The resources with a line `what` in `round`, sorted.
pub(crate) fn indexes(path: &Path, what: &str, round: u32) -> Vec<u32> {
    let wanted = |entry: &Entry| entry.what == what && entry.round == round;
    let mut found: Vec<u32> =
        read(path).into_iter().filter(wanted).map(|entry| entry.index).collect();
    found.sort_unstable();
    found
}

/// Asserts that every resource ran in `round` exactly once.
pub(crate) fn assert_once(path: &Path, round: u32, count: u32) {
    let all: Vec<u32> = (0..count).collect();
    assert_eq!(indexes(path, "begin", round), all, "begun in round {round}");
    assert_eq!(indexes(path, "end", round), all, "ended in round {round}");
}
