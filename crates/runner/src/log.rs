//! The log that people read.
//!
//! Lines are buffered in memory. [`Log::flush`], called a few times a second, writes them to the file that
//! is shipped. If the log has a recipient, each flush is one encrypted frame: nothing in clear is on disk.

use crate::{mask::Mask, seal::Seal};
use canyon_domain::failure::Failure;
use canyon_domain::job::LogLevel;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};

/// The buffer is flushed when it has this many bytes, and longer text is cut into pieces of this size: a frame
/// must be much smaller than one report.
const PIECE: usize = 64 * 1024;

/// The log that people read.
#[derive(Debug)]
pub struct Log {
    file: File,
    waiting: String,
    mask: Mask,
    seal: Option<Seal>,
    level: LogLevel,
    broken: Option<io::Error>,
}

impl Log {
    /// A log that appends to `file`.
    pub fn new(file: File, mask: Mask, seal: Option<Seal>, level: LogLevel) -> Self {
        Self { file, waiting: String::new(), mask, seal, level, broken: None }
    }

    /// A step of the runner.
    pub fn step(&mut self, text: &str) {
        if matches!(self.level, LogLevel::Debug | LogLevel::Info) {
            self.line(&format!("==> {text}"));
        }
    }

    /// A warning: the run goes on, but the reader should know.
    pub fn warn(&mut self, text: &str) {
        if self.level != LogLevel::Error {
            self.line(&format!("==> warning: {text}"));
        }
    }

    /// An error.
    pub fn error(&mut self, text: &str) {
        self.line(&format!("==> error: {text}"));
    }

    /// Output of a program: one or more lines.
    pub fn line(&mut self, text: &str) {
        let shown = self.shown(text);
        self.waiting.push_str(&shown);
        self.waiting.push('\n');
        if self.waiting.len() >= PIECE {
            self.flush();
        }
    }

    /// Writes the buffer to the file. A write error, such as a full disk, is kept for the end of the log: it must not
    /// stop a run that may be creating a resource.
    pub fn flush(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        if let Err(error) = self.write(&waiting) {
            self.broken.get_or_insert(error);
        }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        match &self.seal {
            None => self.file.write_all(text.as_bytes()),
            Some(seal) => text
                .as_bytes()
                .chunks(PIECE)
                .try_for_each(|piece| self.file.write_all(&seal.frame(piece)?)),
        }
    }

    /// `text` without known secrets, for text that is shipped outside of the log.
    pub fn masked(&self, text: &str) -> String {
        self.mask.text(text)
    }

    /// `text` as the log shows it: without known secrets and control characters.
    pub fn shown(&self, text: &str) -> String {
        // Masked before escaping, because escapes would hide a secret with control characters from the mask. Masked
        // again afterwards, because escaping may have produced a secret from other text.
        self.mask.text(&escaped(&self.mask.text(text)))
    }

    /// What the log is encrypted with.
    pub fn seal(&self) -> Option<&Seal> {
        self.seal.as_ref()
    }

    /// Whether the log is encrypted, so that nothing of it may leave the job in clear.
    pub fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    /// The first write error, if the log is incomplete.
    pub fn broken(&self) -> Option<&io::Error> {
        self.broken.as_ref()
    }

    /// Writes the last lines, of a run that failed or not.
    pub fn end(&mut self, failure: Option<&Failure>) {
        match failure {
            None => self.step("done"),
            Some(failure) => self.error(&format!("{}: {}", failure.class, failure.message)),
        }
        if let Some(error) = &self.broken {
            let text = format!("this log is incomplete: {error}");
            self.error(&text);
        }
        self.flush();
    }
}

/// Escapes control characters, with which a module's output could forge lines or move a reader's cursor.
fn escaped(text: &str) -> String {
    let mut target = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => target.push(c),
            c if c.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(target, "\\x{:02x}", u32::from(c));
            }
            c => target.push(c),
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;
    use canyon_api::sealed_log::decode_frames;
    use std::collections::BTreeMap;

    #[test]
    fn the_log_escapes_control_characters_and_masks_secrets() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let secrets = ["hush-hush", "bell\u{7}-\u{1b}-rung", "as\\x07escaped"];
        let mask = Mask::new(secrets, &BTreeMap::new());
        let mut log = Log::new(file.reopen().unwrap(), mask, None, LogLevel::Info);
        log.step("fetch hush-hush");
        log.line("\x1b[31mred\r\n\ttab \u{7}");
        log.line("a bell\u{7}-\u{1b}-rung b\u{7}");
        log.line("as\u{7}escaped");
        log.flush();
        let text = std::fs::read_to_string(file.path()).unwrap();
        let lines =
            ["==> fetch *********", "\\x1b[31mred\\x0d", "\ttab \\x07", "a ************ b\\x07"];
        assert_eq!(text, format!("{}\n*************\n", lines.join("\n")));
    }

    #[test]
    fn an_encrypted_log_is_never_in_clear_on_disk() {
        let identity = age::x25519::Identity::generate();
        let seal = Seal::new("x", &identity.to_public().to_string()).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut log = Log::new(file.reopen().unwrap(), Mask::default(), Some(seal), LogLevel::Info);
        let wide = "long ".repeat(30_000);
        for text in ["one", "two", &wide] {
            log.line(text);
            log.flush();
        }
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(!bytes.windows(5).any(|window| window == b"long "));
        let (frames, rest) = decode_frames(&bytes).unwrap();
        let clear: Vec<u8> =
            frames.iter().flat_map(|frame| age::decrypt(&identity, frame).unwrap()).collect();
        assert!(rest.is_empty());
        assert_eq!(String::from_utf8(clear).unwrap(), format!("one\ntwo\n{wide}\n"));
    }
}
