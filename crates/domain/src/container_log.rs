//! What a runner writes on its standard output in a container.
//!
//! Of a container that is killed, only its output is left, where the platform keeps it: in the node's
//! files, in `CloudWatch`. So the runner writes there what it could not ship: its log, for people as it
//! is, and the events that name the resources it creates. Whoever reads may have only the newest part:
//! the kubelet begins a new file every 10 MiB (`containerLogMaxSize`) and shows the last one.
//!
//! The output consists of lines of at most [`LONGEST`] bytes and a bit: runtimes cut at 16 KiB (the
//! CRI's log format), and some collectors drop empty ones. A line is the log's own, unless it begins
//! with `~canyon `:
//!
//! | line | what |
//! |---|---|
//! | `~canyon at 65536` | the log's next byte has this offset |
//! | `~canyon line TEXT` | a line of the log that would be misread as it is |
//! | `~canyon part TEXT` | the same without its end: the line goes on |
//! | `~canyon bytes BASE64` | a piece of a log that is not text, as an encrypted one |
//! | `~canyon event JSON` | an event |
//! | `~canyon note TEXT` | for people, and not of the log |
//!
//! A line of the log that begins like this is written as `line`, so no log can forge the others. A part
//! of the output may begin in the middle of a line, where a forged one might lie. So nobody reads the
//! first line, and the runner begins with one that says nothing. The last line is read if it is whole.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The most bytes of the log in one line.
pub const LONGEST: usize = 6 * 1024;
/// At most so many bytes of output later, the offset is told again.
const MARK_EVERY: usize = 64 * 1024;

const PREFIX: &str = "~canyon ";

/// What the output carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The log that people read.
    Log,
    /// The events that name what is created.
    Events,
}

/// Writes the output of one attempt.
#[derive(Clone, Debug)]
pub struct Encoder {
    /// Bytes of the log so far.
    offset: u64,
    /// Bytes of output since the offset was told.
    unmarked: usize,
}

impl Encoder {
    /// The encoder at the begin of an attempt, and the first two lines.
    pub fn begin(greeting: &str) -> (Self, Vec<u8>) {
        let mut encoder = Self { offset: 0, unmarked: 0 };
        let mut output = note(greeting);
        encoder.mark(&mut output);
        (encoder, output)
    }

    /// The next bytes of the log. To be read again as they are, they need not be text, nor end with a
    /// line.
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

    /// A line of the log, or the begin of one.
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

    /// An event, which is text without a line's end.
    pub fn event(&mut self, json: &str) -> Vec<u8> {
        let mut output = Vec::new();
        if !json.contains('\n') {
            self.line("event ", json, 0, &mut output);
        }
        output
    }

    /// The end: proves that nothing is missing before it.
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

/// A line for people that belongs to no stream.
pub fn note(text: &str) -> Vec<u8> {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{PREFIX}note {text}\n").into_bytes()
}

/// What a part of the output holds.
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
    /// What `output` holds of `stream`, from `offset` as far as it is there without a gap. The offset
    /// of the log is that of the attempt. That of events counts the bytes that this output has of them,
    /// so it is good for the same output alone.
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
        // The piece since the last mark, and where that was.
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
                    // Of another length, it has lost a line or has one of user else.
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
        // Notes, and what later versions add.
        _ => Line::Other,
    }
}

#[cfg(test)]
#[path = "container_log_tests.rs"]
mod tests;
