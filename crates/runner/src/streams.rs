//! The two streams of a run: what of them is on disk and not yet shipped.
//!
//! Both are files, so an outage of the control plane of an hour costs disk and no memory.

use crate::{mask::Mask, workspace};
use base64::{Engine, engine::general_purpose::STANDARD};
use canyon_api::attempt::{Chunk, Offsets, Stream};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The most bytes in one chunk. The API accepts no more.
pub const CHUNK: u64 = 128 * 1024;
/// The fewest: with one of each stream, a report is smaller than the 8 KiB that some gateways take.
const LEAST_CHUNK: u64 = 2 * 1024;
/// After so many reports with chunks that arrived, they become larger again.
const STEADY: u32 = 16;
/// The most chunks of each stream in one report.
const CHUNKS: usize = 2;

/// Both streams of a run.
#[derive(Debug)]
pub struct Streams {
    log: StreamFile,
    events: StreamFile,
    /// The present limits: bytes in one chunk, and chunks of each stream.
    limit: (u64, usize),
    /// Reports with chunks that have arrived since the limit has changed.
    passed: u32,
}

/// A file that is shipped while the run appends to it.
#[derive(Debug)]
struct StreamFile {
    stream: Stream,
    file: File,
    /// The offset of the file's first byte in the shipped stream.
    base: u64,
    /// The position in the file up to which Canyon has it.
    shipped: u64,
    mask: Mask,
}

impl Streams {
    /// Opens the files in the job's folder, which begin at `base` in the shipped streams. The log is masked when it is
    /// written. OpenTofu writes the events, so they are masked here.
    ///
    /// # Errors
    ///
    /// When a file cannot be opened.
    pub fn open(workspace: &workspace::Workspace, base: Offsets, mask: Mask) -> io::Result<Self> {
        let open = |stream, name, base, mask| {
            workspace.append(name)?;
            let file = File::open(workspace.path(name))?;
            io::Result::Ok(StreamFile { stream, file, base, shipped: 0, mask })
        };
        Ok(Self {
            log: open(Stream::Log, workspace::LOG, base.log, Mask::default())?,
            events: open(Stream::Events, workspace::EVENTS, base.events, mask)?,
            limit: (CHUNK, CHUNKS),
            passed: 0,
        })
    }

    /// The next chunks to ship. With `ended`, nothing more is written, and the last line may be incomplete.
    ///
    /// # Errors
    ///
    /// When a file cannot be read.
    pub fn next(&self, ended: bool) -> io::Result<Vec<Chunk>> {
        let mut chunks = Vec::new();
        for file in [&self.log, &self.events] {
            let mut position = file.shipped;
            let (chunk, chunks_of_each) = self.limit;
            for _ in 0..chunks_of_each {
                let bytes = file.read(position, chunk, ended)?;
                if bytes.is_empty() {
                    break;
                }
                let offset = file.base + position;
                position += bytes.len() as u64;
                chunks.push(Chunk { stream: file.stream, offset, data: STANDARD.encode(bytes) });
            }
        }
        Ok(chunks)
    }

    /// Whether one more report, or the result, can carry the rest.
    ///
    /// # Errors
    ///
    /// When the size of a file cannot be read.
    pub fn are_nearly_shipped(&self) -> io::Result<bool> {
        let (chunk, chunks) = self.limit;
        let most = chunk * chunks as u64;
        Ok(self.log.left()? <= most && self.events.left()? <= most)
    }

    /// From here on a report is half as large: something on the way takes less than Canyon, or is slow.
    pub fn shrink(&mut self) {
        let (chunk, _) = self.limit;
        self.limit = ((chunk / 2).max(LEAST_CHUNK), 1);
        self.passed = 0;
    }

    /// A report with chunks has arrived. After some of them the next ones are twice as large.
    pub fn passed(&mut self) {
        self.passed += 1;
        if self.passed >= STEADY {
            let (chunk, _) = self.limit;
            self.limit = ((chunk * 2).min(CHUNK), if chunk < CHUNK { 1 } else { CHUNKS });
            self.passed = 0;
        }
    }

    /// Records that Canyon has everything before `offsets`. That holds only for the streams in `sent`; an answer says
    /// nothing about other streams. Returns whether Canyon has more than before.
    pub fn confirm(&mut self, offsets: Offsets, sent: &[Stream]) -> bool {
        let log = sent.contains(&Stream::Log) && self.log.confirm(offsets.log);
        let events = sent.contains(&Stream::Events) && self.events.confirm(offsets.events);
        log || events
    }
}

impl StreamFile {
    fn left(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len().saturating_sub(self.shipped))
    }

    fn confirm(&mut self, offset: u64) -> bool {
        let before = self.shipped;
        let length = self.file.metadata().map_or(before, |found| found.len());
        // A late answer may have a smaller offset than an earlier one; Canyon keeps what it has.
        self.shipped = offset.saturating_sub(self.base).min(length).max(before);
        self.shipped > before
    }

    /// Up to one chunk from `position`, masked. It reads a little more on both sides, to find a secret that the cut
    /// divides. At the end of a growing file it stops after a complete line.
    fn read(&self, position: u64, chunk: u64, ended: bool) -> io::Result<Vec<u8>> {
        let length = self.file.metadata()?.len();
        let end = length.min(position + chunk);
        if end <= position {
            return Ok(Vec::new());
        }
        let reach = self.mask.reach() as u64;
        let from = position.saturating_sub(reach);
        let to = length.min(end + reach);
        let mut bytes = vec![0; usize::try_from(to - from).unwrap_or_default()];
        self.file.read_exact_at(&mut bytes, from)?;
        let grows = !ended && end == length && self.stream == Stream::Events;
        self.mask.apply(&mut bytes);
        bytes.truncate(usize::try_from(end - from).unwrap_or_default());
        bytes.drain(..usize::try_from(position - from).unwrap_or_default());
        if grows && (bytes.len() as u64) < chunk {
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            bytes.truncate(whole);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{EVENTS, LOG, Workspace};
    use std::collections::BTreeMap;
    use std::io::Write;

    fn text(chunks: &[Chunk], stream: Stream) -> String {
        let wanted = chunks.iter().filter(|chunk| chunk.stream == stream);
        let bytes = wanted.flat_map(|chunk| STANDARD.decode(&chunk.data).unwrap()).collect();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_secret_is_masked_wherever_a_chunk_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(folder.path().to_owned());
        let secret = "0123456789-secret";
        let mask = Mask::new([secret], &BTreeMap::new());
        for before in 0..=secret.len() {
            let _ = std::fs::remove_file(workspace.path(EVENTS));
            let padding = "x".repeat(usize::try_from(CHUNK).unwrap() - before);
            let line = format!("{padding}{secret} y\n");
            workspace.append(EVENTS).unwrap().write_all(line.as_bytes()).unwrap();
            let base = Offsets { log: 5, events: 7 };
            let mut streams = Streams::open(&workspace, base, mask.clone()).unwrap();
            let first = streams.next(false).unwrap();
            assert_eq!(first.iter().map(|chunk| chunk.offset).collect::<Vec<_>>(), [7, 7 + CHUNK]);
            let expected = line.replace(secret, &"*".repeat(secret.len()));
            assert!(text(&first, Stream::Events) == expected, "cut {before} bytes into the secret");
            assert!(streams.confirm(Offsets { log: 0, events: 7 + CHUNK }, &[Stream::Events]));
            let second = text(&streams.next(false).unwrap(), Stream::Events);
            assert!(expected.ends_with(&second) && !second.contains("secret"), "{second}");
        }
    }

    #[test]
    fn chunks_become_smaller_than_any_gateway_takes_and_large_again_when_they_pass() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(folder.path().to_owned());
        let log = "x".repeat(3 * usize::try_from(CHUNK).unwrap());
        workspace.append(LOG).unwrap().write_all(log.as_bytes()).unwrap();
        let mut streams = Streams::open(&workspace, Offsets::default(), Mask::default()).unwrap();
        let size = |streams: &Streams| -> usize {
            streams.next(true).unwrap().iter().map(|chunk| chunk.data.len()).sum()
        };
        let largest = size(&streams);
        for _ in 0..7 {
            streams.shrink();
        }
        assert!(size(&streams) < 3_000, "{}", size(&streams));
        for _ in 0..STEADY - 1 {
            streams.passed();
        }
        assert!(size(&streams) < 3_000, "one success says little");
        for _ in 0..8 * STEADY {
            streams.passed();
        }
        assert_eq!(size(&streams), largest);
    }

    #[test]
    fn an_unfinished_line_of_events_waits_and_a_log_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(folder.path().to_owned());
        let streams = Streams::open(&workspace, Offsets::default(), Mask::default()).unwrap();
        assert_eq!(streams.next(false).unwrap(), []);
        workspace.append(EVENTS).unwrap().write_all(b"{}\n{\"a").unwrap();
        workspace.append(LOG).unwrap().write_all(b"a\nb").unwrap();
        let growing = streams.next(false).unwrap();
        assert_eq!(
            (text(&growing, Stream::Log), text(&growing, Stream::Events)),
            ("a\nb".into(), "{}\n".into())
        );
        assert_eq!(text(&streams.next(true).unwrap(), Stream::Events), "{}\n{\"a");
    }
}
