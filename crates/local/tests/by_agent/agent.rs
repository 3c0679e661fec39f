//! `canyon-agent`, in a process of its own.

use crate::behaviour::until;
use crate::canyon::{AGENT, Canyon, ORG, RUNNER};
use secrecy::ExposeSecret as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub(crate) type Variables = Vec<(String, String)>;

/// The command of an agent that ends with the thread of its test, even if the whole test run is killed.
pub(crate) async fn command(canyon: &Canyon, folder: &Path, variables: Variables) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("CANYON_API_URL", &canyon.url)
        .env("CANYON_RUNNER_PATH", format!("{ORG}/{RUNNER}"))
        .env("CANYON_TOKEN", canyon.agents_token().await.expose_secret())
        .env("CANYON_AGENT_NAME", AGENT)
        // Enough for twenty starts at once, and jobs that have not ended yet.
        .env("CANYON_AGENT_CONCURRENCY", "30")
        .env("CANYON_AGENT_STATE_DIR", folder.join("state"))
        .envs(variables);
    command
}

/// A running agent. It ends with this value; its jobs belong to the test bed.
pub(crate) struct Agent {
    folder: TempDir,
    /// Has the one token of the agent: with another token it would be another agent.
    command: Command,
    child: Child,
}

impl Agent {
    /// Starts an agent of Canyon's one runner.
    pub(crate) async fn start(canyon: &Canyon, variables: Variables) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = command(canyon, folder.path(), variables).await;
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        Self { folder, command, child }
    }

    /// Kills it like `kill -9`, starts it again, and waits for its next session.
    pub(crate) async fn restart(&mut self, canyon: &Canyon) {
        let before = canyon.sessions().await;
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = self.command.spawn().unwrap();
        until("the agent is back", async || canyon.sessions().await > before).await;
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            eprintln!("--- the agent's log\n{log}");
        }
    }
}

fn program() -> PathBuf {
    let missing = "CANYON_TEST_BIN_DIR must name the folder of `canyon-agent`; run `cargo build -p canyon-agent`";
    let folder = std::env::var_os("CANYON_TEST_BIN_DIR").unwrap_or_else(|| panic!("{missing}"));
    let program = PathBuf::from(folder).join("canyon-agent");
    assert!(program.is_file(), "{missing}");
    program
}
