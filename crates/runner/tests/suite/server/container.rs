//! Container jobs for tests: the programs are shell scripts of this machine.

use super::{Home, Server, merge};
use canyon_domain::failure::{Failure, FailureClass};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

pub(crate) const IMAGE: &str = "ghcr.io/acme/bucket:1.1.0";

impl Home {
    /// The shared directory of the home's container jobs.
    pub(crate) fn shared(&self) -> PathBuf {
        self.folder.path().join("shared")
    }

    /// A job whose program is the shell script `script`. `changes` are to the container job.
    pub(crate) fn container_job(&self, script: &str, changes: &Value) -> Value {
        let mut container = json!({
            "image": IMAGE, "command": ["/bin/sh", "-c", script], "shared_directory": self.shared(),
        });
        merge(&mut container, changes);
        let task = json!({"resource": "s3#photos", "job": container});
        self.job("", &json!({"bundle": {"container": task}}))
    }

    /// The runner in a container of the job's image.
    pub(crate) fn container(&self, server: &Server) -> Command {
        let mut command = self.command(server);
        command.env("CANYON_JOB_IMAGE", IMAGE);
        command
    }
}

/// Serves `job` to its end. Returns the runner's exit code.
pub(crate) fn run_job(home: &Home, job: Value) -> (i32, Server) {
    let server = Server::start(job);
    let exit = home.container(&server).status().unwrap().code().unwrap();
    (exit, server)
}

/// Runs `script` to its end.
pub(crate) fn run_script(home: &Home, script: &str, changes: &Value) -> (i32, Server) {
    run_job(home, home.container_job(script, changes))
}

/// The class and the message of the failure of a run of `script`.
pub(crate) fn failure_of(script: &str, changes: &Value) -> (FailureClass, String) {
    let (exit, server) = run_script(&Home::new(), script, changes);
    let Failure { class, message } = server.plane().result().failure.clone().unwrap();
    assert_eq!(exit, 1, "{message}");
    (class, message)
}
