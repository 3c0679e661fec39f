//! Runs OpenTofu (or Terraform), one process at a time.
//!
//! Its output goes into files and not into pipes: if the runner dies, OpenTofu must not die of a
//! broken pipe in the middle of an apply. Its standard input is the runner's. For a local job that is
//! the lock by which the launcher sees that a process of the job still lives.

use crate::reaper::OwnChild;
use crate::stop::{Stop, StopRequest};
use crate::{tail::Tail, transcript::Transcript, workspace, workspace::Workspace};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// How often the output is read.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the runner waits, before it signals OpenTofu, whether OpenTofu has received the platform's signal itself: some
/// platforms signal every process of a job. A second signal would make OpenTofu exit at once and lose the state.
const OWN_SIGNAL_WAIT: Duration = Duration::from_millis(150);
/// How long a short command that reads the state may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(20);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
    /// It was not started, because the run is to stop.
    NotStarted,
}

impl Ended {
    /// Whether OpenTofu may have ended before it wrote its state: it was killed, or it panicked, after which it exits with 11
    /// (`internal/logging/panic.go`). An apply that fails exits with 1.
    pub fn is_crash(self) -> bool {
        match self {
            Self::Exited(code) => !matches!(code, 0 | 1),
            Self::Killed(_) => true,
            Self::NotStarted => false,
        }
    }
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, signal) => Self::Killed(signal.unwrap_or_default()),
        }
    }
}

/// OpenTofu or Terraform, with its folder and its environment.
#[derive(Debug)]
pub struct Tofu {
    program: PathBuf,
    environment: Vec<(OsString, OsString)>,
    module: PathBuf,
    workspace: Workspace,
    output_name: &'static str,
    output: Tail,
    errors: Tail,
    /// The time between a request to stop and the kill.
    grace: Duration,
}

impl Tofu {
    /// `program`, to run in the folder `module`. With `sealed`, its output does not go to the shipped stream.
    ///
    /// # Errors
    ///
    /// When a file of the job's folder cannot be opened.
    pub fn new(
        program: PathBuf,
        environment: Vec<(OsString, OsString)>,
        module: PathBuf,
        workspace: &Workspace,
        sealed: bool,
        grace: Duration,
    ) -> io::Result<Self> {
        let output_name = if sealed { workspace::OUTPUT } else { workspace::EVENTS };
        let open = |name| {
            workspace.append(name)?;
            File::open(workspace.path(name)).map(Tail::new)
        };
        let (output, errors) = (open(output_name)?, open(workspace::ERRORS)?);
        let workspace = workspace.clone();
        Ok(Self { program, environment, module, workspace, output_name, output, errors, grace })
    }

    /// The name of the program, for messages.
    pub fn name(&self) -> String {
        self.program.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Uses `environment` for the next processes.
    pub fn set_environment(&mut self, environment: Vec<(OsString, OsString)>) {
        self.environment = environment;
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .current_dir(&self.module)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::inherit());
        command
    }

    /// Runs it to its end. If the run is to stop, it sends one SIGTERM, and SIGKILL after the grace time.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub async fn run(
        &mut self,
        arguments: &[&str],
        transcript: &mut Transcript,
        stop: &Stop,
    ) -> io::Result<Ended> {
        if stop.is_requested() {
            return Ok(Ended::NotStarted);
        }
        let mut child = self
            .command(arguments)
            .stdout(self.workspace.append(self.output_name)?)
            .stderr(self.workspace.append(workspace::ERRORS)?)
            .spawn()?;
        let _own = OwnChild::new(child.id());
        let mut asked: Option<Instant> = None;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status?,
                () = sleep(POLL_INTERVAL) => {}
                () = stop.reached(StopRequest::Stop), if asked.is_none() => {
                    asked = Some(Instant::now());
                    self.ask_to_stop(&mut child, transcript).await;
                }
            }
            self.read_output(transcript);
            transcript.log.flush();
            if asked.is_some_and(|at| at.elapsed() >= self.grace) {
                transcript.log.warn(&format!("{} did not stop in time and is killed", self.name()));
                // If it has just ended, there is nothing to kill.
                let _ = child.start_kill();
                asked = Some(Instant::now());
            }
        };
        self.read_output(transcript);
        self.output.rest(|line| transcript.stdout_line(line));
        self.errors.rest(|line| transcript.stderr_line(line));
        transcript.log.flush();
        Ok(status.into())
    }

    async fn ask_to_stop(&mut self, child: &mut Child, transcript: &mut Transcript) {
        sleep(OWN_SIGNAL_WAIT).await;
        self.read_output(transcript);
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid.filter(|_| !transcript.facts.interrupted) {
            transcript.log.step(&format!("asking {} to stop", self.name()));
            // The child was not yet waited for, so the kernel has not reused its pid.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Adds the new output to the transcript. If a file cannot be read, the next call tries again.
    fn read_output(&mut self, transcript: &mut Transcript) {
        let _ = self.output.lines(|line| transcript.stdout_line(line));
        let _ = self.errors.lines(|line| transcript.stderr_line(line));
    }

    /// Runs a short command and returns its standard output; `None` if it fails or takes longer than `ASK_TIMEOUT`.
    pub async fn ask(&self, arguments: &[&str]) -> Option<Vec<u8>> {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().ok()?;
        let _own = OwnChild::new(child.id());
        let output = timeout(ASK_TIMEOUT, child.wait_with_output()).await.ok()?.ok()?;
        output.status.success().then_some(output.stdout)
    }

    /// Runs a command and returns its standard output. Kills it if it does not end `within` the time.
    ///
    /// # Errors
    ///
    /// Its standard error, without the frame that OpenTofu draws around it.
    pub async fn answer(&self, arguments: &[&str], within: Duration) -> Result<Vec<u8>, String> {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let child = command.spawn().map_err(|error| error.to_string())?;
        let _own = OwnChild::new(child.id());
        let output = timeout(within, child.wait_with_output()).await;
        let output =
            output.map_err(|_| format!("i/o timeout: no end within {} s", within.as_secs()))?;
        let output = output.map_err(|error| error.to_string())?;
        if output.status.success() { Ok(output.stdout) } else { Err(unframed(&output.stderr)) }
    }

    /// The module's folder.
    pub fn module(&self) -> &Path {
        &self.module
    }

    /// Whether the module's folder has a file `name`.
    pub fn has_file(&self, name: &str) -> bool {
        self.module.join(name).is_file()
    }
}

/// OpenTofu's error output, without the frame that it draws beside the text.
fn unframed(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines = text.lines().map(|line| line.trim_start_matches(['│', '╷', '╵']).trim());
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}
