//! Reads a file while another process appends to it, line by line.

use std::fs::File;
use std::io::{self, Read};

/// A longer line is thrown away: OpenTofu writes none, but what a module's program prints on
/// OpenTofu's own standard output is not ours to trust.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// A place in a growing file.
#[derive(Debug)]
pub struct Tail {
    file: File,
    partial: Vec<u8>,
}

impl Tail {
    /// Reads `file` from where it stands.
    pub fn new(file: File) -> Self {
        Self { file, partial: Vec::new() }
    }

    /// Hands on every line that has been completed since the last call.
    ///
    /// # Errors
    ///
    /// As the file system says.
    pub fn lines(&mut self, mut each: impl FnMut(&str)) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        loop {
            let count = self.file.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            let mut pieces = buffer[..count].split(|byte| *byte == b'\n').peekable();
            while let Some(piece) = pieces.next() {
                if self.partial.len() + piece.len() <= LONGEST_LINE {
                    self.partial.extend(piece);
                }
                if pieces.peek().is_some() {
                    each(&String::from_utf8_lossy(&self.partial));
                    self.partial.clear();
                    self.partial.shrink_to(64 * 1024);
                }
            }
        }
    }

    /// Hands on what was written after the last line's end; the writer has gone.
    pub fn rest(&mut self, each: impl FnOnce(&str)) {
        let rest = std::mem::take(&mut self.partial);
        if !rest.is_empty() {
            each(&String::from_utf8_lossy(&rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_come_whole_however_they_were_written() {
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
