//! Processes beside an agent.

use crate::act_scripts;
use crate::agent::Agent;
use crate::behaviour::{self, Act};
use crate::canyon::Canyon;
use crate::check;
use crate::far::{Bed, Far, Place, settings};
use canyon_dispatch::JobRef;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use tempfile::TempDir;

/// The program in the place of the runner, and a script for each job.
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

fn place() -> Place<Scripts> {
    let scripts = Scripts::new();
    let definition = json!({
        "runner_configuration": { "type": "local", "agents": { "ids": ["companion"] } },
        "state_storage_configuration": { "type": "local", "path": "/var/lib/state" },
    });
    let program = scripts.0.path().join("canyon-runner").to_str().unwrap().to_owned();
    let mut variables = settings("local", None, &[]);
    variables.push(("CANYON_AGENT_RUNNER_PROGRAM".to_owned(), program));
    Place { bed: scripts, definition, variables }
}

macro_rules! behaves {
    ($($rule:ident),* $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $rule() {
            behaviour::$rule(&Far::at(place()).await).await;
        })*
    };
}

behaves! {
    a_job_that_was_never_started_is_gone_and_may_be_stopped,
    a_second_start_finds_the_first_dead_or_alive,
    of_many_starts_at_once_one_runs,
    a_job_is_asked_once_and_lives_until_it_ends,
    what_a_dead_job_wrote_is_there_until_it_is_forgotten,
    a_living_job_is_not_forgotten,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_finds_all_good_here_and_names_what_is_wrong_elsewhere() {
    let place = place();
    check::finds_all_good(&place).await;
    let nowhere = [("CANYON_AGENT_RUNNER_PROGRAM", "/nowhere/canyon-runner")];
    check::names_what_is_wrong(&place, &nowhere, "CANYON_AGENT_RUNNER_PROGRAM").await;
}
