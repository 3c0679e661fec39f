//! Processes beside an agent.

use crate::act_scripts;
use crate::agent::Agent;
use crate::behaviour::{Act, behaves};
use crate::canyon::Canyon;
use crate::check;
use crate::far::{Bed, Far, Place, settings};
use canyon_dispatch::JobRef;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The program in the place of the runner, and a script for each job. The jobs end with the test.
struct Scripts(TempDir);

impl Scripts {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("canyon-runner");
        let acts = folder.path().display();
        // As `exec` keeps the process id, so that signals meet the script.
        let text = format!("#!/bin/sh\nexec sh \"{acts}/$CANYON_DEPLOYMENT_ID-$CANYON_ATTEMPT\"\n");
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }
}

impl Bed for Scripts {
    fn tell(&self, job: &JobRef, act: Act) {
        let file = self.0.path().join(format!("{}-{}", job.deployment, job.attempt));
        fs::write(file, act_scripts::of(act)).unwrap();
    }

    fn noted(&self, (canyon, agent): (&Canyon, &Agent), job: &JobRef, what: &str) -> usize {
        let folder = format!("{}/{}-{}", canyon.runner, job.deployment, job.attempt);
        let notes = agent.work(Path::new(&folder)).join(what);
        fs::read_to_string(notes).map_or(0, |text| text.lines().count())
    }
}

impl Drop for Scripts {
    /// A rule that fails leaves its jobs behind, and those never end by themselves. The agent is gone by now.
    fn drop(&mut self) {
        let folder = self.0.path().display().to_string();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
            // The script of a job is in its command line, and in nobody else's.
            if String::from_utf8_lossy(&words).contains(&folder) {
                let _ = Command::new("kill").arg("-KILL").arg(process.file_name()).output();
            }
        }
    }
}

fn place() -> Place<Scripts> {
    let scripts = Scripts::new();
    let definition = json!({
        "runner_configuration": { "type": "local", "agents": { "ids": ["companion"] } },
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
async fn a_check_finds_all_good_here_and_names_what_is_wrong_elsewhere() {
    let place = place();
    check::finds_all_good(&place).await;
    let nowhere = [("CANYON_AGENT_RUNNER_PROGRAM", "/nowhere/canyon-runner")];
    check::names_what_is_wrong(&place, &nowhere, "CANYON_AGENT_RUNNER_PROGRAM").await;
    check::names_what_is_wrong(&place, &[("PATH", "/usr/bin:/bin")], "neither `tofu` nor").await;
    let token = [("CANYON_TOKEN", "cya_nobody-has-this-token")];
    check::names_what_is_wrong(&place, &token, "does not take the token").await;
}
