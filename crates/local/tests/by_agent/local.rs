//! Processes beside an agent.

use crate::act_scripts;
use crate::behaviour::{Act, behaves};
use crate::canyon::AGENT;
use crate::check;
use crate::far::{Bed, Far, Place, settings};
use crate::restart;
use canyon_dispatch::JobRef;
use serde_json::json;
use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// The program in the place of the runner, and for each job a script and what it notes. The jobs end with the test.
struct Scripts(TempDir);

impl Scripts {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("canyon-runner");
        let acts = folder.path().display();
        // What a job notes in its work folder outlives that folder. `exec` keeps the process id, so that signals meet the
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
    fn tell(&self, job: &JobRef, act: Act) {
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
    /// A rule that fails leaves its jobs behind, and those never end by themselves. The agent is gone by now.
    fn drop(&mut self) {
        for process in processes_with(&self.0.path().display().to_string()) {
            let _ = Command::new("kill").arg("-KILL").arg(process).output();
        }
    }
}

/// The ids of the processes that have `path` in their command line: the script of a job is in its own, and in nobody
/// else's. One that has ended has none any more.
fn processes_with(path: &str) -> Vec<OsString> {
    let has_path = |process: &DirEntry| {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(path)
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter(has_path).map(|process| process.file_name()).collect()
}

fn place() -> Place<Scripts> {
    let scripts = Scripts::new();
    let definition = json!({
        "runner_configuration": { "type": "local", "agents": { "ids": [AGENT] } },
        "state_storage_configuration": { "type": "local", "path": "/var/lib/state" },
    });
    let program = scripts.0.path().join("canyon-runner").to_str().unwrap().to_owned();
    // Of what jobs run, `canyon-agent check` wants to see that it is there.
    fs::write(scripts.0.path().join("tofu"), "").unwrap();
    let path = format!("/usr/bin:/bin:{}", scripts.0.path().display());
    let mut variables = settings("local", None, &[]);
    variables.push(("PATH".to_owned(), path));
    variables.push(("CANYON_AGENT_RUNNER_PROGRAM".to_owned(), program));
    Place { bed: scripts, definition, variables }
}

behaves! { Far::at(place()).await }

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_was_killed_goes_on_with_its_job_when_it_is_back() {
    restart::it_goes_on_with_its_job(&mut Far::at(place()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_finds_all_good_here_and_names_what_is_wrong_elsewhere() {
    let place = place();
    check::finds_all_good(&place).await;
    let nowhere = [("CANYON_AGENT_RUNNER_PROGRAM", "/nowhere/canyon-runner")];
    check::names_what_is_wrong(&place, &nowhere, "CANYON_AGENT_RUNNER_PROGRAM").await;
    check::names_what_is_wrong(&place, &[("PATH", "/usr/bin:/bin")], "neither `tofu` nor").await;
    let token = [("CANYON_TOKEN", "cya_nobody-has-this-token")];
    check::names_what_is_wrong(&place, &token, "refuses the token").await;
}
