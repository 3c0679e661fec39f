//! Writes the log and the events on standard output too, in a container: when that is killed, nothing
//! else of it is left. The form is [`canyon_domain::container_log`].
//!
//! It reads the files that the run writes, on a thread of its own. So a platform that takes no output
//! holds up nothing but this, and what is written here is masked, or encrypted, as what is shipped.

use crate::{event::Event, event::begun, mask::Mask, tail::Tail, workspace, workspace::Workspace};
use canyon_domain::container_log::{Encoder, note};
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How often the files are looked at.
const TICK: Duration = Duration::from_millis(100);
/// How long the end waits for what is not yet written.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The most that is read of the log at once.
const PIECE: usize = 64 * 1024;

/// The thread that writes.
#[derive(Debug)]
pub struct ContainerLog {
    /// Dropped at the end.
    more: Sender<()>,
    done: Receiver<()>,
}

struct Writer {
    log: File,
    events: Tail,
    mask: Mask,
    /// The log is encrypted: it has no lines.
    sealed: bool,
    encoder: Encoder,
}

impl ContainerLog {
    /// Begins to write what `workspace` gets. `mask` is for the events; the log is masked already, or
    /// `sealed`.
    ///
    /// # Errors
    ///
    /// When the files cannot be read, or there is no thread.
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
            // Output that nobody takes is nothing to stop a run for.
            let _ = put(&begin).and_then(|()| writer.run(&ended));
            let _ = finished.send(());
        })?;
        Ok(Self { more, done })
    }

    /// Writes what is left, as far as the platform takes it in time.
    pub fn end(self) {
        drop(self.more);
        let _ = self.done.recv_timeout(LAST_WORDS);
    }
}

/// Nothing but lines of the documented form may be on the output, which standard error is merged into.
/// No program of the module can write there: see [`crate::protection`].
pub fn take_over_output() {
    std::panic::set_hook(Box::new(|panic| say(&format!("canyon-runner: {panic}"))));
}

/// A line for people that is not of the run's log.
pub fn say(text: &str) {
    let _ = put(&note(text));
}

/// Whole lines at once, so that none comes between.
fn put(output: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(output)?;
    stdout.flush()
}

impl Writer {
    fn run(&mut self, ended: &Receiver<()>) -> io::Result<()> {
        let mut waiting = Vec::new();
        loop {
            // Looked at before the files are, so that nothing is written after the last look.
            let is_end = ended.recv_timeout(TICK) == Err(RecvTimeoutError::Disconnected);
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

    /// Before the log: what OpenTofu has just begun is what nobody else may know.
    fn events(&mut self) -> io::Result<()> {
        let (encoder, mask) = (&mut self.encoder, &self.mask);
        let mut output = Vec::new();
        self.events.lines(|line| {
            let known = serde_json::from_str::<Event>(line).ok().and_then(|event| begun(&event));
            if let Some(known) = known {
                output.extend(encoder.event(&mask.text(&known.to_string())));
            }
        })?;
        if output.is_empty() { Ok(()) } else { put(&output) }
    }

    fn read(&mut self, waiting: &mut Vec<u8>) -> io::Result<u64> {
        let most = PIECE.saturating_sub(waiting.len()).max(1);
        (&mut self.log).take(most as u64).read_to_end(waiting).map(|count| count as u64)
    }

    /// Whole lines; the rest waits for its end, unless there is too much of it.
    fn log(&mut self, waiting: &mut Vec<u8>, all: bool) -> io::Result<()> {
        let whole = waiting.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let all = all || self.sealed || whole == 0 && waiting.len() >= PIECE;
        let count = if all { waiting.len() } else { whole };
        let lines: Vec<u8> = waiting.drain(..count).collect();
        if lines.is_empty() { Ok(()) } else { put(&self.encoder.log(&lines)) }
    }
}
