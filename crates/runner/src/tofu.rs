//! One process of OpenTofu (or Terraform) at a time.
//!
//! Its output goes into files and not into pipes: if the runner dies, OpenTofu must not die of a
//! broken pipe in the middle of an apply. Its standard input is the runner's, which for a local job
//! is the lock by which the launcher sees that somebody of the job still lives.

use crate::reaper::Own;
use crate::stop::{Stop, Wish};
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

/// How often the output is looked at.
const TICK: Duration = Duration::from_millis(50);
/// A platform that signals every process of a job has reached OpenTofu by itself. A second signal
/// would make it exit at once and lose the state, so its answer to the first is waited for.
const HEARS_ITSELF: Duration = Duration::from_millis(150);
/// How long a short look at the state may take.
const QUESTION: Duration = Duration::from_secs(20);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It was never started: the run is to stop.
    NotStarted,
}

impl Ended {
    /// Whether it may have ended before it wrote its state: killed, or by a panic, after which it exits with 11
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

/// The program in its folder.
#[derive(Debug)]
pub struct Tofu {
    program: PathBuf,
    environment: Vec<(OsString, OsString)>,
    module: PathBuf,
    workspace: Workspace,
    output_name: &'static str,
    output: Tail,
    errors: Tail,
    /// How long after a wish to stop it is killed.
    grace: Duration,
}

impl Tofu {
    /// `program`, to run in the folder `module`. With `sealed`, its output is not the shipped stream.
    ///
    /// # Errors
    ///
    /// As the file system says.
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

    /// From here on it runs in `environment`.
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

    /// Runs it to its end. When the run is to stop it gets one SIGTERM, and SIGKILL after the grace.
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
        if stop.wish() != Wish::Run {
            return Ok(Ended::NotStarted);
        }
        let mut child = self
            .command(arguments)
            .stdout(self.workspace.append(self.output_name)?)
            .stderr(self.workspace.append(workspace::ERRORS)?)
            .spawn()?;
        let _own = Own::child(child.id());
        let mut asked: Option<Instant> = None;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status?,
                () = sleep(TICK) => {}
                () = stop.reached(Wish::Stop), if asked.is_none() => {
                    asked = Some(Instant::now());
                    self.ask_to_stop(&mut child, transcript).await;
                }
            }
            self.listen(transcript);
            transcript.log.flush();
            if asked.is_some_and(|at| at.elapsed() >= self.grace) {
                transcript.log.warn("it did not stop in time and is killed");
                // If it has just ended by itself, there is nothing to kill.
                let _ = child.start_kill();
                asked = Some(Instant::now());
            }
        };
        self.listen(transcript);
        self.output.rest(|line| transcript.heard(line));
        self.errors.rest(|line| transcript.heard_error(line));
        transcript.log.flush();
        Ok(status.into())
    }

    async fn ask_to_stop(&mut self, child: &mut Child, transcript: &mut Transcript) {
        sleep(HEARS_ITSELF).await;
        self.listen(transcript);
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid.filter(|_| !transcript.facts.interrupted) {
            transcript.log.step(&format!("asking {} to stop", self.name()));
            // The child is ours and not yet waited for, so the number is still its own.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Takes in what was written meanwhile. A file that cannot be read is tried again.
    fn listen(&mut self, transcript: &mut Transcript) {
        let _ = self.output.lines(|line| transcript.heard(line));
        let _ = self.errors.lines(|line| transcript.heard_error(line));
    }

    /// Runs a short command whose answer is its standard output; `None` when it fails.
    pub async fn ask(&self, arguments: &[&str]) -> Option<Vec<u8>> {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().ok()?;
        let _own = Own::child(child.id());
        let output = timeout(QUESTION, child.wait_with_output()).await.ok()?.ok()?;
        output.status.success().then_some(output.stdout)
    }

    /// Runs a command whose answer is its standard output, and kills it unless it ends in time.
    ///
    /// # Errors
    ///
    /// What it wrote to standard error, without the frame that OpenTofu draws around it.
    pub async fn answer(&self, arguments: &[&str], within: Duration) -> Result<Vec<u8>, String> {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let child = command.spawn().map_err(|error| error.to_string())?;
        let _own = Own::child(child.id());
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

/// OpenTofu's words to people, without the box that it draws beside them.
fn unframed(words: &[u8]) -> String {
    let words = String::from_utf8_lossy(words);
    let lines = words.lines().map(|line| line.trim_start_matches(['│', '╷', '╵']).trim());
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}
