//! A person who works on an environment's state with OpenTofu, without Canyon.

use crate::harness::programs;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A folder with the environment's backend configuration.
pub(crate) struct ManualTofu {
    folder: TempDir,
    variables: BTreeMap<String, String>,
}

/// The content of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) serial: u64,
    pub(crate) instances: usize,
}

impl ManualTofu {
    /// Creates a folder with this backend and these variables.
    pub(crate) fn with(backend: &Value, variables: BTreeMap<String, String>) -> Self {
        let folder = tempfile::Builder::new().prefix("canyon-hand-").tempdir().unwrap();
        let write = |name: &str, text: String| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        write("backend.tf.json", backend.to_string());
        write("main.tf", "resource \"terraform_data\" \"by_hand\" {}\n".to_owned());
        let manual = Self { folder, variables };
        let output = manual.tofu(&["init", "-input=false", "-no-color"]);
        assert!(output.status.success(), "{}", said(&output));
        manual
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .args(programs::of_a_user())
            .arg("--")
            .arg(programs::find("tofu").unwrap())
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", programs::search_path(None))
            .env("HOME", self.folder.path())
            .env("CHECKPOINT_DISABLE", "1")
            .envs(&self.variables)
            .stdin(Stdio::null());
        command
    }

    /// Runs OpenTofu by hand.
    pub(crate) fn tofu(&self, arguments: &[&str]) -> Output {
        tokio::task::block_in_place(|| self.command(arguments).output().unwrap())
    }

    /// The content of the state.
    pub(crate) fn state(&self) -> State {
        let output = self.tofu(&["state", "pull"]);
        assert!(output.status.success(), "{}", said(&output));
        let state: Value = serde_json::from_slice(&output.stdout).unwrap();
        let resources = state["resources"].as_array().unwrap().iter();
        let instances = resources.map(|resource| resource["instances"].as_array().unwrap().len());
        State { serial: state["serial"].as_u64().unwrap(), instances: instances.sum() }
    }

    /// The id of the lock on the state, if there is one.
    pub(crate) fn lock(&self) -> Option<String> {
        let output = self.tofu(&["plan", "-no-color", "-input=false", "-lock-timeout=0s"]);
        let said = said(&output);
        if output.status.success() {
            return None;
        }
        assert!(said.contains("Error acquiring the state lock"), "{said}");
        let info = said.split_once("Lock Info:").map_or("", |(_, info)| info).lines();
        let id = info.map(str::trim_start).find_map(|line| line.split_once("ID:"));
        let id = id.map(|(_, id)| id.trim());
        Some(id.unwrap_or_else(|| panic!("no id in {said}")).to_owned())
    }

    /// Holds the lock until it is killed: an apply that waits for a person's confirmation.
    pub(crate) async fn hold(&self) -> Holder {
        let path = self.folder.path().join("held.txt");
        let output = std::fs::File::create(&path).unwrap();
        let mut command = self.command(&["apply", "-no-color"]);
        let errors = output.try_clone().unwrap();
        let child = command.stdin(Stdio::piped()).stdout(output).stderr(errors).spawn().unwrap();
        let holder = Holder(child);
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let text = std::fs::read_to_string(&path).unwrap();
            if text.contains("Enter a value:") {
                return holder;
            }
            assert!(Instant::now() < deadline, "it does not ask: {text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A process that holds a lock, until this value is dropped.
pub(crate) struct Holder(std::process::Child);

impl Holder {
    pub(crate) fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}
