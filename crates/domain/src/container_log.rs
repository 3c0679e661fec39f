//! The format of a runner's standard output in a container.
//!
//! If a container is killed, only its output remains, where the platform keeps it: in the node's files or in
//! `CloudWatch`. So the runner writes there what it could not upload: its log, readable as it is, and the
//! events that name the resources it creates. A reader may get only the newest part: the kubelet begins a new
//! file every 10 MiB (`containerLogMaxSize`) and returns the last one.
//!
//! The output consists of lines of little more than [`LONGEST`] bytes: runtimes cut at 16 KiB (the CRI's log
//! format), and some collectors drop empty lines. A line belongs to the log, unless it begins with `~canyon
//! `:
//!
//! | line | what |
//! |---|---|
//! | `~canyon at 65536` | the log's next byte has this offset |
//! | `~canyon line TEXT` | a line of the log that would otherwise be misread |
//! | `~canyon part TEXT` | the same without its end: the line continues |
//! | `~canyon bytes BASE64` | a piece of a log that is not text, such as an encrypted one |
//! | `~canyon event JSON` | an event |
//! | `~canyon note TEXT` | a note for users that is not part of the log |
//!
//! A line of the log that begins with the prefix is written as `line`, so no log can forge the other kinds. A
//! part of the output may begin in the middle of a line, at a forged prefix. So readers skip the first line,
//! and the runner begins with a note. The last line counts if it is complete.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Maximum length of a piece of the log in one line, in bytes.
pub const LONGEST: usize = 6 * 1024;
/// Maximum length of output between two offsets, in bytes.
const MARK_EVERY: usize = 64 * 1024;

const PREFIX: &str = "~canyon ";

/// A stream within the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The log.
    Log,
    /// The events that name created resources.
    Events,
}

/// Writes the output of one attempt.
#[derive(Clone, Debug)]
pub struct Encoder {
    /// Length of the log so far, in bytes.
    offset: u64,
    /// Length of the output since the last offset, in bytes.
    unmarked: usize,
}

impl Encoder {
    /// The encoder at the start of an attempt, and the first two lines.
    pub fn begin(greeting: &str) -> (Self, Vec<u8>) {
        let mut encoder = Self { offset: 0, unmarked: 0 };
        let mut output = note(greeting);
        encoder.mark(&mut output);
        (encoder, output)
    }

    /// Encodes the next bytes of the log. They may be binary, and need not end with a newline.
    pub fn log(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut output = Vec::with_capacity(bytes.len() + bytes.len() / 16);
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') => {
                for line in text.split_inclusive('\n') {
                    self.text(line, &mut output);
                }
            }
            _ => {
                for piece in bytes.chunks(LONGEST) {
                    self.line("bytes ", &STANDARD.encode(piece), piece.len(), &mut output);
                }
            }
        }
        output
    }

    /// Encodes a line of the log, or the beginning of one.
    fn text(&mut self, line: &str, output: &mut Vec<u8>) {
        let (mut rest, ended) = line.strip_suffix('\n').map_or((line, false), |text| (text, true));
        while rest.len() > LONGEST || (!ended && !rest.is_empty()) {
            let (part, after) = rest.split_at(rest.floor_char_boundary(LONGEST));
            self.line("part ", part, part.len(), output);
            rest = after;
        }
        if ended && (rest.trim().is_empty() || rest.starts_with(PREFIX)) {
            self.line("line ", rest, rest.len() + 1, output);
        } else if ended {
            self.put(&[rest], rest.len() + 1, output);
        }
    }

    /// Encodes an event: JSON text without a newline.
    pub fn event(&mut self, json: &str) -> Vec<u8> {
        let mut output = Vec::new();
        if !json.contains('\n') {
            self.line("event ", json, 0, &mut output);
        }
        output
    }

    /// Encodes the end: the offset shows that nothing is missing before it.
    pub fn end(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        self.mark(&mut output);
        output
    }

    fn line(&mut self, kind: &str, text: &str, length: usize, output: &mut Vec<u8>) {
        self.put(&[PREFIX, kind, text], length, output);
    }

    fn put(&mut self, parts: &[&str], length: usize, output: &mut Vec<u8>) {
        let before = output.len();
        for part in parts {
            output.extend_from_slice(part.as_bytes());
        }
        output.push(b'\n');
        self.offset += length as u64;
        self.unmarked += output.len() - before;
        if self.unmarked >= MARK_EVERY {
            self.mark(output);
        }
    }

    fn mark(&mut self, output: &mut Vec<u8>) {
        output.extend_from_slice(format!("{PREFIX}at {}\n", self.offset).as_bytes());
        self.unmarked = 0;
    }
}

/// A line for users that belongs to no stream.
pub fn note(text: &str) -> Vec<u8> {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{PREFIX}note {text}\n").into_bytes()
}

/// The streams of a part of the output.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    /// Pieces of the log with their offsets, in order.
    log: Vec<(u64, Vec<u8>)>,
    events: Vec<u8>,
}

/// A line of the output.
enum Line<'a> {
    Log(&'a [u8], &'static [u8]),
    Bytes(Vec<u8>),
    Mark(u64),
    Event(&'a [u8]),
    Other,
}

impl Tail {
    /// The bytes of `stream` in `output`, from `offset` to the first gap. The offset of the log counts from
    /// the attempt's start. The offset of events counts from the start of this output, so it is valid only
    /// for the same output.
    pub fn read(output: &[u8], stream: Stream, offset: u64) -> Vec<u8> {
        let tail = Self::parse(output);
        match stream {
            Stream::Log => tail.log_from(offset),
            Stream::Events => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(tail.events.len());
                tail.events[start..].to_vec()
            }
        }
    }

    fn parse(output: &[u8]) -> Self {
        let mut tail = Self::default();
        // The piece since the last offset line, and that offset.
        let (mut piece, mut at): (Vec<u8>, Option<u64>) = (Vec::new(), None);
        let lines = output.split_inclusive(|byte| *byte == b'\n').skip(1);
        for line in lines.filter_map(|line| line.strip_suffix(b"\n")) {
            match read_line(line) {
                Line::Log(text, end) => {
                    piece.extend_from_slice(text);
                    piece.extend_from_slice(end);
                }
                Line::Bytes(bytes) => piece.extend(bytes),
                Line::Event(json) => {
                    tail.events.extend_from_slice(json);
                    tail.events.push(b'\n');
                }
                Line::Mark(mark) => {
                    let length = piece.len() as u64;
                    let start = at.or_else(|| mark.checked_sub(length));
                    // If the length differs, the piece has lost a line or contains a foreign one.
                    if let Some(start) = start.filter(|start| start + length == mark) {
                        tail.log.push((start, std::mem::take(&mut piece)));
                    }
                    piece.clear();
                    at = Some(mark);
                }
                Line::Other => {}
            }
        }
        if let Some(at) = at {
            tail.log.push((at, piece));
        }
        tail
    }

    fn log_from(&self, offset: u64) -> Vec<u8> {
        let mut found = Vec::new();
        let mut next = offset;
        for (start, piece) in &self.log {
            let end = start + piece.len() as u64;
            if (*start..end).contains(&next) {
                let skipped = usize::try_from(next - start).unwrap_or(usize::MAX);
                found.extend_from_slice(piece.get(skipped..).unwrap_or_default());
                next = end;
            }
        }
        found
    }
}

fn read_line(line: &[u8]) -> Line<'_> {
    let Some(ours) = line.strip_prefix(PREFIX.as_bytes()) else {
        return if line.is_empty() { Line::Other } else { Line::Log(line, b"\n") };
    };
    let end = ours.iter().position(|byte| *byte == b' ').unwrap_or(ours.len());
    let text = ours.get(end + 1..).unwrap_or_default();
    let number = || std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    match &ours[..end] {
        b"at" => number().map_or(Line::Other, Line::Mark),
        b"line" => Line::Log(text, b"\n"),
        b"part" => Line::Log(text, b""),
        b"bytes" => STANDARD.decode(text).map_or(Line::Other, Line::Bytes),
        b"event" => Line::Event(text),
        // Notes, and kinds of later versions.
        _ => Line::Other,
    }
}

#[cfg(test)]
#[path = "container_log_tests.rs"]
mod tests;
