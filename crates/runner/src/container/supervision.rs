//! Watches the program of a container job until it has ended: its output, requests to stop, and its time.

use super::{descendants, log_end::LogEnd};
use crate::{lines::Lines, log::Log, reaper::OwnChild, stop, stop::Stop, stop::StopRequest};
use rustix::process::{Pid, Signal, kill_process_group};
use std::future::pending;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Child;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

/// How often the log is written.
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);
/// How long the rest of the output is read after every process was killed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of the output is read at once.
const PIECE: usize = 16 * 1024;

/// What made a program end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Nothing that the runner did.
    Itself,
    /// The run was to stop.
    Stopped,
    /// Its time was over.
    TimedOut,
}

/// How a program ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) cause: Cause,
    /// The runner has killed it, because it did not end within its grace period.
    pub(super) killed: bool,
}

/// The limits of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum duration.
    pub(super) timeout: Duration,
    /// Time from SIGTERM to SIGKILL.
    pub(super) grace: Duration,
    /// Seconds from a request to stop to the end of the job.
    pub(super) stop_seconds: u32,
}

/// A program under supervision, and where its output goes.
pub(super) struct Supervision<'a> {
    pub(super) log: &'a mut Log,
    /// The end of the log, if a failure shows it.
    pub(super) end: Option<&'a mut LogEnd>,
    pub(super) stop: &'a Stop,
    pub(super) limits: Limits,
}

impl Supervision<'_> {
    /// Returns when the program has ended, and every process that it has left was killed.
    ///
    /// # Errors
    ///
    /// When the kernel does not tell how it ended.
    pub(super) async fn watch(&mut self, mut child: Child) -> io::Result<Ended> {
        let _own = OwnChild::new(child.id());
        let group = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let (mut output, mut errors) =
            (Pipe::new(child.stdout.take()), Pipe::new(child.stderr.take()));
        let stop = self.stop;
        let deadline = Instant::now() + self.limits.timeout;
        let (mut cause, mut killed, mut was_asked) = (Cause::Itself, false, false);
        let mut kill_at: Option<Instant> = None;
        let mut flush = interval(FLUSH_INTERVAL);
        flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let status = loop {
            tokio::select! {
                status = child.wait() => break status?,
                () = stop.reached(StopRequest::Stop), if !was_asked => {
                    was_asked = true;
                    if let Some(status) = child.try_wait()? {
                        break status;
                    }
                    let grace = self.limits.grace.min(stop::grace(self.limits.stop_seconds));
                    let end = Instant::now() + grace;
                    kill_at = Some(kill_at.map_or(end, |earlier| earlier.min(end)));
                    if cause == Cause::Itself {
                        cause = Cause::Stopped;
                        self.log.step("asking the program to stop");
                        terminate(group);
                    }
                }
                () = sleep_until(deadline), if cause == Cause::Itself => {
                    if let Some(status) = child.try_wait()? {
                        break status;
                    }
                    cause = Cause::TimedOut;
                    kill_at = Some(Instant::now() + self.limits.grace);
                    self.log.step("the time is over; asking the program to stop");
                    terminate(group);
                }
                () = until(kill_at), if !killed => {
                    killed = true;
                    self.log.warn("the program did not stop in time and is killed");
                    descendants::kill().await;
                }
                count = output.read() => output.take(count, |line| self.line(line)),
                count = errors.read() => errors.take(count, |line| self.line(line)),
                _ = flush.tick() => self.log.flush(),
            }
        };
        descendants::kill().await;
        // Now the pipes have no other end, unless a process cannot be killed.
        let _ = timeout(DRAIN_TIMEOUT, self.drain(&mut output, &mut errors)).await;
        output.end(|line| self.line(line));
        errors.end(|line| self.line(line));
        self.log.flush();
        Ok(Ended { status, cause, killed })
    }

    async fn drain<O, E>(&mut self, output: &mut Pipe<O>, errors: &mut Pipe<E>)
    where
        O: AsyncRead + Unpin,
        E: AsyncRead + Unpin,
    {
        while output.is_open() || errors.is_open() {
            tokio::select! {
                count = output.read() => output.take(count, |line| self.line(line)),
                count = errors.read() => errors.take(count, |line| self.line(line)),
            }
        }
    }

    fn line(&mut self, line: &str) {
        self.log.line(line);
        if let Some(end) = &mut self.end {
            end.push(&self.log.shown(line));
        }
    }
}

fn terminate(group: Option<Pid>) {
    if let Some(group) = group {
        // The child was not yet waited for, so the kernel has not reused its pid.
        let _ = kill_process_group(group, Signal::TERM);
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// One of the program's two streams of output.
struct Pipe<R> {
    reader: Option<R>,
    buffer: Box<[u8]>,
    lines: Lines,
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    fn new(reader: Option<R>) -> Self {
        Self { reader, buffer: vec![0; PIECE].into(), lines: Lines::default() }
    }

    fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    /// Reads into the buffer. Returns the number of bytes, and 0 at the end; never returns afterwards.
    async fn read(&mut self) -> usize {
        match &mut self.reader {
            // A pipe that cannot be read has nothing more.
            Some(reader) => reader.read(&mut self.buffer).await.unwrap_or(0),
            None => pending().await,
        }
    }

    /// Calls `each` for every line that is complete after `count` bytes were read.
    fn take(&mut self, count: usize, each: impl FnMut(&str)) {
        if count == 0 {
            self.end(each);
        } else {
            self.lines.add(&self.buffer[..count], each);
        }
    }

    fn end(&mut self, each: impl FnOnce(&str)) {
        self.reader = None;
        self.lines.rest(each);
    }
}
