//! Containers of a real Docker engine, through an agent.

use crate::bed::{ACT_IMAGE, Facts, act_image};
use crate::behaviour::{Act, behaves};
use crate::check;
use crate::notes::Notes;
use crate::restart;
use crate::through_agent::{Bed, Setup, ThroughAgent, settings};
use canyon_dispatch::JobRef;
use serde_json::json;
use std::process::Command;
use std::sync::OnceLock;

/// The engine. The runner's containers are removed at the end of the test.
struct Engine {
    notes: Notes,
    label: OnceLock<String>,
}

impl Bed for Engine {
    fn prepare(&self, job: &JobRef, act: Act) {
        self.notes.prepare_job(job, act);
    }

    fn noted(&self, job: &JobRef, what: &str) -> usize {
        self.notes.noted_by(job, what)
    }

    fn lives(&self, job: &JobRef) -> bool {
        let label = format!("label=canyon.dev/deployment={}", job.deployment);
        // Without `--all`, the command lists only running containers.
        let answer = Command::new("docker")
            .args(["ps", "--quiet", "--filter", &label])
            .env("DOCKER_HOST", Facts::of_cluster().get("DOCKER_HOST"))
            .output()
            .unwrap();
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        !answer.stdout.is_empty()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Some(label) = self.label.get() else { return };
        let script = "docker ps -aq --filter label=$1 | xargs -r docker rm -fv";
        let _ = Command::new("sh")
            .args(["-c", script, "sh", label])
            .env("DOCKER_HOST", Facts::of_cluster().get("DOCKER_HOST"))
            .output();
    }
}

async fn setup() -> Setup<Engine> {
    let facts = Facts::of_cluster();
    tokio::task::spawn_blocking(|| act_image(facts)).await.unwrap();
    let notes = Notes::at(facts.get("NODE_ADDRESS"));
    let definition = json!({
        "runner_configuration": { "type": "docker-agent" },
        "state_storage_configuration": { "type": "s3", "bucket": "states" },
    });
    let data = [("HOST", facts.get("DOCKER_HOST")), ("IMAGE", ACT_IMAGE), ("LOCAL_IMAGE", "true")];
    let variables = settings("docker", Some(&notes), &data);
    Setup { bed: Engine { notes, label: OnceLock::new() }, definition, variables }
}

async fn through_agent() -> ThroughAgent<Engine> {
    let through_agent = ThroughAgent::start(setup().await).await;
    let label = format!("canyon.dev/runner={}", through_agent.canyon.runner);
    through_agent.bed.label.set(label).unwrap();
    through_agent
}

behaves! { through_agent().await }

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_was_killed_goes_on_with_its_job_when_it_is_back() {
    restart::the_agent_finds_its_job(&mut through_agent().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_succeeds_and_reports_each_wrong_setting() {
    let setup = setup().await;
    check::succeeds(&setup).await;
    let cases = [
        ("CANYON_JOB_DISPATCHER_DATA_IMAGE", "canyon.test/absent:1", "`image`"),
        ("CANYON_JOB_DISPATCHER_DATA_NETWORK", "no-such-network", "`network`"),
        ("CANYON_JOB_DISPATCHER_DATA_BIND_PATH", "/no/such/folder:/a", "`bind_path`"),
        ("CANYON_JOB_DISPATCHER_DATA_HOST", "unix:///nowhere/docker.sock", "`host`"),
    ];
    for (name, value, expected) in cases {
        check::reports_the_fault(&setup, &[(name, value)], expected).await;
    }
}
