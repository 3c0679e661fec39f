//! Also writes the log and the events to standard output, if the runner is in a container: if the platform
//! kills the container, its output is all that remains. The format is [`canyon_domain::container_log`].
//!
//! A thread of its own reads the files that the run writes. So a platform that does not read the output
//! blocks only this thread. The output is masked, or encrypted, in the same way as what the runner ships.

use crate::{event::begun, mask::Mask, tail::Tail, workspace, workspace::Workspace};
use canyon_domain::container_log::{Encoder, note};
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How often the thread reads the files.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long [`ContainerLog::end`] waits until the rest is written.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The most bytes that the thread reads of the log at once.
const PIECE: usize = 64 * 1024;

/// The thread that writes to standard output.
#[derive(Debug)]
pub struct ContainerLog {
    /// Dropped to end the thread.
    more: Sender<()>,
    done: Receiver<()>,
}

struct Writer {
    log: File,
    events: Tail,
    mask: Mask,
    /// Whether the log is encrypted: then it has no lines.
    sealed: bool,
    encoder: Encoder,
}

impl ContainerLog {
    /// Starts to write what the run adds to the files of `workspace`. `mask` is for the events: the log is masked
    /// already, or `sealed`.
    ///
    /// # Errors
    ///
    /// When the files cannot be opened, or the thread cannot start.
    pub fn start(
        workspace: &Workspace,
        mask: Mask,
        sealed: bool,
        greeting: &str,
    ) -> io::Result<Self> {
        let open = |name| {
            workspace.append(name)?;
            File::open(workspace.path(name))
        };
        let (log, events) = (open(workspace::LOG)?, Tail::new(open(workspace::EVENTS)?));
        let (encoder, begin) = Encoder::begin(greeting);
        let mut writer = Writer { log, events, mask, sealed, encoder };
        let (more, ended) = channel::<()>();
        let (finished, done) = channel();
        std::thread::Builder::new().name("container-log".to_owned()).spawn(move || {
            // If the platform does not read the output, that is no reason to stop the run.
            let _ = put(&begin).and_then(|()| writer.run(&ended));
            let _ = finished.send(());
        })?;
        Ok(Self { more, done })
    }

    /// Writes the rest, as far as the platform reads it within `END_TIMEOUT`.
    pub fn end(self) {
        drop(self.more);
        let _ = self.done.recv_timeout(END_TIMEOUT);
    }
}

/// Writes panics as notes to standard output. The platform merges standard error into the output, and the output
/// may have only lines of the documented format. No program of the module can write there: see
/// [`crate::protection`].
pub fn redirect_panics() {
    std::panic::set_hook(Box::new(|panic| write_note(&format!("canyon-runner: {panic}"))));
}

/// Writes a line for people that does not belong to the run's log.
pub fn write_note(text: &str) {
    let _ = put(&note(text));
}

/// Writes whole lines at once, so that no other output comes between.
fn put(output: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(output)?;
    stdout.flush()
}

impl Writer {
    fn run(&mut self, ended: &Receiver<()>) -> io::Result<()> {
        let mut waiting = Vec::new();
        loop {
            // Read before the files, so that the last read comes after the last write.
            let is_end = ended.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Disconnected);
            self.events()?;
            while self.read(&mut waiting)? > 0 {
                self.log(&mut waiting, false)?;
            }
            if is_end {
                self.log(&mut waiting, true)?;
                return put(&self.encoder.end());
            }
        }
    }

    /// Comes before the log: only the events say which resources OpenTofu has begun to create.
    fn events(&mut self) -> io::Result<()> {
        let (encoder, mask) = (&mut self.encoder, &self.mask);
        let mut output = Vec::new();
        self.events.lines(|line| {
            if let Some(known) = begun(line) {
                output.extend(encoder.event(&mask.text(&known.to_string())));
            }
        })?;
        if output.is_empty() { Ok(()) } else { put(&output) }
    }

    fn read(&mut self, waiting: &mut Vec<u8>) -> io::Result<u64> {
        let most = PIECE.saturating_sub(waiting.len()).max(1);
        (&mut self.log).take(most as u64).read_to_end(waiting).map(|count| count as u64)
    }

    /// Writes whole lines. The rest waits for its end, unless it is longer than [`PIECE`].
    fn log(&mut self, waiting: &mut Vec<u8>, all: bool) -> io::Result<()> {
        let whole = waiting.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let all = all || self.sealed || whole == 0 && waiting.len() >= PIECE;
        let count = if all { waiting.len() } else { whole };
        let lines: Vec<u8> = waiting.drain(..count).collect();
        if lines.is_empty() { Ok(()) } else { put(&self.encoder.log(&lines)) }
    }
}
