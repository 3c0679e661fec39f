//! Reads a file while another process appends to it, line by line.

use crate::lines::Lines;
use std::fs::File;
use std::io::{self, Read};

/// A growing file, read up to a position.
#[derive(Debug)]
pub struct Tail {
    file: File,
    lines: Lines,
}

impl Tail {
    /// Reads `file` from its present position.
    pub fn new(file: File) -> Self {
        Self { file, lines: Lines::default() }
    }

    /// Calls `each` for every line that was completed since the last call.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn lines(&mut self, mut each: impl FnMut(&str)) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        loop {
            let count = self.file.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            self.lines.add(&buffer[..count], &mut each);
        }
    }

    /// Calls `each` with the text after the last complete line, once the writer has ended.
    pub fn rest(&mut self, each: impl FnOnce(&str)) {
        self.lines.rest(each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_are_complete_in_whatever_pieces_they_were_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = file.reopen().unwrap();
        let mut tail = Tail::new(file.reopen().unwrap());
        let mut seen = Vec::new();
        for piece in ["a", "b\nc", "\n\nd\u{c3}", "e"] {
            writer.write_all(piece.as_bytes()).unwrap();
            tail.lines(|line| seen.push(line.to_owned())).unwrap();
        }
        tail.rest(|line| seen.push(line.to_owned()));
        assert_eq!(seen, ["ab", "c", "", "d\u{c3}e"]);
    }
}
