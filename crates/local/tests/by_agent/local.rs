//! Processes, through an agent on this machine.

use crate::act_scripts;
use crate::behaviour::{Act, behaves};
use crate::canyon::AGENT;
use crate::check;
use crate::restart;
use crate::through_agent::{Bed, Setup, ThroughAgent, settings};
use canyon_dispatch::JobRef;
use serde_json::json;
use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A program in the place of the runner, and for each job a script and its notes. The jobs end with the test.
struct Scripts(TempDir);

impl Scripts {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("canyon-runner");
        let acts = folder.path().display();
        // The links let a job's notes outlive its work folder. `exec` keeps the process id, so that signals reach the
        // script.
        let text = format!(
            "#!/bin/sh\njob=\"{acts}/$CANYON_DEPLOYMENT_ID-$CANYON_ATTEMPT\"\n\
             ln -sf \"$job.started\" started\nln -sf \"$job.asked\" asked\nexec sh \"$job\"\n"
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    /// The script of a job.
    fn script(&self, job: &JobRef) -> PathBuf {
        self.0.path().join(format!("{}-{}", job.deployment, job.attempt))
    }
}

impl Bed for Scripts {
    fn prepare(&self, job: &JobRef, act: Act) {
        fs::write(self.script(job), act_scripts::of(act)).unwrap();
    }

    fn noted(&self, job: &JobRef, what: &str) -> usize {
        let notes = self.script(job).with_extension(what);
        fs::read_to_string(notes).map_or(0, |text| text.lines().count())
    }

    fn lives(&self, job: &JobRef) -> bool {
        !processes_with(self.script(job).to_str().unwrap()).is_empty()
    }
}

impl Drop for Scripts {
    /// A test that fails leaves its jobs behind, and those never end by themselves. The agent has ended by now.
    fn drop(&mut self) {
        for process in processes_with(&self.0.path().display().to_string()) {
            let _ = Command::new("kill").arg("-KILL").arg(process).output();
        }
    }
}

/// The ids of the processes that have `path` in their command line: only a job has its script there. A process that has
/// ended has no command line.
fn processes_with(path: &str) -> Vec<OsString> {
    let has_path = |process: &DirEntry| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(path)
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter(has_path).map(|process| process.file_name()).collect()
}

fn setup() -> Setup<Scripts> {
    let scripts = Scripts::new();
    let definition = json!({
        "runner_configuration": { "type": "local", "agents": { "ids": [AGENT] } },
        "state_storage_configuration": { "type": "local", "path": "/var/lib/state" },
    });
    let program = scripts.0.path().join("canyon-runner").to_str().unwrap().to_owned();
    // `canyon-agent check` only checks that OpenTofu exists.
    fs::write(scripts.0.path().join("tofu"), "").unwrap();
    let path = format!("/usr/bin:/bin:{}", scripts.0.path().display());
    let mut variables = settings("local", None, &[]);
    variables.push(("PATH".to_owned(), path));
    variables.push(("CANYON_AGENT_RUNNER_PROGRAM".to_owned(), program));
    Setup { bed: scripts, definition, variables }
}

behaves! { ThroughAgent::start(setup()).await }

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_was_killed_goes_on_with_its_job_when_it_is_back() {
    restart::the_agent_finds_its_job(&mut ThroughAgent::start(setup()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_succeeds_and_reports_each_wrong_setting() {
    let setup = setup();
    check::succeeds(&setup).await;
    let nowhere = [("CANYON_AGENT_RUNNER_PROGRAM", "/nowhere/canyon-runner")];
    check::reports_the_fault(&setup, &nowhere, "CANYON_AGENT_RUNNER_PROGRAM").await;
    check::reports_the_fault(&setup, &[("PATH", "/usr/bin:/bin")], "neither `tofu` nor").await;
    let token = [("CANYON_TOKEN", "cya_no-such-token-exists")];
    check::reports_the_fault(&setup, &token, "refuses the token").await;
}
