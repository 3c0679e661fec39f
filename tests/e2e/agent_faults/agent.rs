//! `canyon-agent`, in a process of its own.

use super::clock;
use crate::harness::processes::{self, Process};
use crate::harness::programs;
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Prefixes of secrets: Canyon's tokens, claim codes, tokens of jobs, and signed tokens of a key or an issuer.
const SECRETS: [&str; 4] = ["cya_", "cyc_", "cyj_", "eyJ"];

/// How to start an agent.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// Its name.
    pub(crate) name: String,
    /// The agent's folder, which holds its key, its id of the machine and its jobs.
    pub(crate) folder: PathBuf,
    /// Its settings.
    pub(crate) variables: Vec<(String, String)>,
    /// What stands before the program on the command line, such as `faketime`.
    pub(crate) prefix: Vec<OsString>,
}

/// A running agent. Dropping it ends the process and its jobs.
pub(crate) struct Agent {
    spec: Spec,
    child: Child,
}

impl Spec {
    /// The file of the agent's log.
    fn log_file(&self) -> PathBuf {
        self.folder.with_extension("log")
    }
}

impl Agent {
    /// Starts the process without waiting for it.
    pub(crate) fn start(spec: Spec) -> Self {
        let child = spawn(&spec);
        Self { spec, child }
    }

    /// Kills the process as `kill -9` does. Its jobs go on.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the process again with the same folder.
    pub(crate) fn start_again(&mut self) {
        self.child = spawn(&self.spec);
    }

    /// Asks the process to end.
    pub(crate) fn ask_to_end(&self) {
        processes::signal(self.child.id().cast_signed(), Signal::TERM);
    }

    /// Waits until the process has ended by itself.
    pub(crate) async fn ended(&mut self, within: Duration) -> ExitStatus {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it has not ended\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until another process has superseded this one, which then stands by.
    pub(crate) async fn stands_by(&mut self) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !self.said().contains("This process stands by") {
            assert!(self.lives(), "it has ended\n{}", self.log());
            assert!(Instant::now() < deadline, "it does not stand by\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether the process lives.
    pub(crate) fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The names of the folders of its jobs.
    pub(crate) fn jobs(&self) -> Vec<String> {
        let entries = self.jobs_folders().into_iter().filter_map(|jobs| fs::read_dir(jobs).ok());
        entries.flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
    }

    /// The first process of each job: deployment and process id.
    pub(crate) fn runners(&self) -> Vec<(String, i32)> {
        self.jobs_folders().iter().flat_map(|jobs| processes::runners_in(jobs)).collect()
    }

    /// The processes of a deployment's jobs, and their working folders: processes that a job starts outlive its
    /// folder.
    pub(crate) fn working_for(&self, id: &str) -> Vec<(PathBuf, Process)> {
        let mut working = processes::working_in(&self.jobs_folder());
        working.retain(|(folder, _)| folder.to_string_lossy().contains(id));
        working
    }

    fn jobs_folder(&self) -> PathBuf {
        self.spec.folder.join("jobs")
    }

    /// Each runner has a folder of its own for its jobs.
    fn jobs_folders(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.jobs_folder()) else { return Vec::new() };
        entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
    }

    /// The agent's log, from all of its processes.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.spec.log_file()).unwrap_or_default()
    }

    /// The end of the log, for the message of a failing test.
    pub(crate) fn log(&self) -> String {
        let text = self.said();
        let start = text.char_indices().rev().nth(20_000).map_or(0, |(at, _)| at);
        format!("--- the log of agent `{}`\n{}", self.spec.name, &text[start..])
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for jobs in self.jobs_folders() {
            processes::kill_jobs_in(&jobs);
        }
        if std::thread::panicking() {
            println!("{}", self.log());
            return;
        }
        let said = self.said();
        for secret in SECRETS {
            assert!(!said.contains(secret), "`{secret}…` stands in the log of an agent");
        }
    }
}

/// The agent's program with its settings and its folder.
pub(crate) fn command(spec: &Spec) -> Command {
    let program = programs::built().join("canyon-agent");
    assert!(
        program.exists(),
        "`{}` is missing; run `cargo build -p canyon-agent`",
        program.display()
    );
    fs::create_dir_all(&spec.folder).unwrap();
    if !spec.prefix.is_empty() {
        clock::clear_away_what_killed_ones_left();
    }
    // The process ends with the thread of its test, even if the whole test run is killed.
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .args(&spec.prefix)
        .arg(program)
        .env_clear()
        .env("PATH", programs::search_path(None))
        .env("HOME", &spec.folder)
        // At this level the log would show a secret that the agent logs.
        .env("CANYON_LOG", "debug")
        .env("CANYON_AGENT_NAME", &spec.name)
        .env("CANYON_AGENT_STATE_DIR", &spec.folder)
        .env("CANYON_AGENT_RUNNER_PROGRAM", programs::built().join("canyon-runner"))
        .env("CANYON_JOB_DISPATCHER_TYPE", "local")
        .envs(spec.variables.iter().map(|(name, value)| (name, value)));
    command
}

fn spawn(spec: &Spec) -> Child {
    let mut command = command(spec);
    let log = OpenOptions::new().create(true).append(true).open(spec.log_file()).unwrap();
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start canyon-agent: {error}"))
}
