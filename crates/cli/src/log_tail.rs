//! The last lines of a log.

use std::collections::VecDeque;

/// Keeps the last lines of a log that comes in parts.
#[derive(Debug)]
pub(crate) struct LogTail {
    lines: VecDeque<Vec<u8>>,
    count: usize,
    /// Whether the last kept line has no end yet.
    is_open: bool,
}

impl LogTail {
    /// Keeps `count` lines.
    pub(crate) fn new(count: usize) -> Self {
        Self { lines: VecDeque::new(), count, is_open: false }
    }

    /// Adds a part, which may end anywhere in a line.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match self.lines.back_mut().filter(|_| self.is_open) {
                Some(line) => line.extend(piece),
                None => self.lines.push_back(piece.to_vec()),
            }
            self.is_open = !piece.ends_with(b"\n");
            if self.lines.len() > self.count {
                self.lines.pop_front();
            }
            // With no lines to keep, the rest of an open line is dropped with its beginning.
            self.is_open &= self.count > 0;
        }
    }

    /// The kept lines.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.lines.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_the_same_however_the_log_is_cut() {
        let log = b"one\ntwo\nthree\nfour";
        for (count, expected) in [
            (0, ""),
            (1, "four"),
            (2, "three\nfour"),
            (4, "one\ntwo\nthree\nfour"),
            (9, "one\ntwo\nthree\nfour"),
        ] {
            for cut in 1..=log.len() {
                let mut tail = LogTail::new(count);
                log.chunks(cut).for_each(|part| tail.feed(part));
                assert_eq!(
                    String::from_utf8(tail.into_bytes()).unwrap(),
                    expected,
                    "{count}, cut at {cut}"
                );
            }
        }
    }
}
