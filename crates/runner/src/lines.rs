//! Splits the output of a program into lines, in whatever pieces it arrives.

/// A longer line is dropped. OpenTofu writes none, but a program of the module can print on OpenTofu's own standard
/// output.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// The output after the last complete line.
#[derive(Debug, Default)]
pub struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Adds `output`, and calls `each` for every line that it completes.
    pub fn add(&mut self, output: &[u8], mut each: impl FnMut(&str)) {
        let mut pieces = output.split(|byte| *byte == b'\n').peekable();
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

    /// Calls `each` with the text after the last complete line, once the writer has ended.
    pub fn rest(&mut self, each: impl FnOnce(&str)) {
        let rest = std::mem::take(&mut self.partial);
        if !rest.is_empty() {
            each(&String::from_utf8_lossy(&rest));
        }
    }
}
