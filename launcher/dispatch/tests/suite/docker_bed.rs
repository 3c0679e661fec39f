//! A real Docker engine, with a runner on it.

use crate::bed::{ACT_IMAGE, Facts, act_image};
use crate::behaviour::launch;
use crate::notes::Notes;
use canyon_dispatch::docker::{DockerPlatform, DockerSettings};
use canyon_dispatch::{Dispatcher, JobRef, Launch, Platform as _, Target};
use canyon_domain::ids::{OrgUuid, RunnerUuid};
use canyon_domain::runner::RunnerDefinition;
use secrecy::SecretString;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use uuid::Uuid;

pub(crate) const CODE: &str = "cyc_canary-of-a-claim-code";

pub(crate) fn name_of(job: &JobRef) -> String {
    format!("canyon-{}-{}", job.deployment.0.simple(), job.attempt)
}

/// An engine with a runner, whose containers are removed at the end of the test.
pub(crate) struct Host {
    pub(crate) address: String,
    pub(crate) notes: Notes,
    pub(crate) runner: RunnerUuid,
}

impl Host {
    /// The engine of `scripts/cluster up`.
    pub(crate) async fn new() -> Self {
        let facts = Facts::of_cluster();
        tokio::task::spawn_blocking(|| act_image(facts)).await.unwrap();
        Self::at(facts.get("DOCKER_HOST").to_owned())
    }

    /// The engine at `address`, which has the image of `act.c`.
    pub(crate) fn at(address: String) -> Self {
        let notes = Notes::at(Facts::of_cluster().get("NODE_ADDRESS"));
        Self { address, notes, runner: RunnerUuid(Uuid::now_v7()) }
    }

    /// The settings of the host's owner, for tests to change.
    pub(crate) fn settings(&self) -> DockerSettings {
        DockerSettings {
            host: Some(self.address.clone()),
            image: Some(ACT_IMAGE.to_owned()),
            local_image: true,
            ..DockerSettings::default()
        }
    }

    pub(crate) fn target(&self, job: &Value) -> Arc<Target> {
        self.target_of("docker-agent", job)
    }

    /// A runner of this type.
    pub(crate) fn target_of(&self, kind: &str, job: &Value) -> Arc<Target> {
        let definition = json!({
            "runner_configuration": { "type": kind, "job": job },
            "state_storage_configuration": { "type": "s3", "bucket": "states" },
        });
        Arc::new(Target {
            org: OrgUuid(Uuid::from_u128(7)),
            org_id: "acme".parse().unwrap(),
            agent: None,
            runner: self.runner,
            runner_id: "on-host".parse().unwrap(),
            definition: RunnerDefinition::parse(definition).unwrap(),
        })
    }

    pub(crate) fn dispatcher(&self, settings: DockerSettings, job: &Value) -> Arc<dyn Dispatcher> {
        let platform = Arc::new(DockerPlatform::new(settings, &|_| None).unwrap());
        platform.dispatcher(&self.target(job))
    }

    /// A dispatcher with default settings.
    pub(crate) fn plain(&self) -> Arc<dyn Dispatcher> {
        self.dispatcher(self.settings(), &json!({}))
    }

    pub(crate) fn acting(&self, job: JobRef, act: &str) -> Launch {
        let environment: [(&str, String); 5] = [
            ("CANYON_ACT", act.to_owned()),
            ("CANYON_NOTES", self.notes.address.to_string()),
            ("CANYON_NOTES_KEY", name_of(&job)),
            ("CANYON_API_URL", "https://canyon.example".to_owned()),
            ("CANYON_CLAIM_CODE", CODE.to_owned()),
        ];
        let environment: BTreeMap<String, SecretString> =
            environment.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        launch(job, environment)
    }

    /// Runs Docker's command line and returns its output.
    pub(crate) fn docker(&self, arguments: &[&str]) -> String {
        let answer = Command::new("docker").args(["-H", &self.address]).args(arguments).output();
        let answer = answer.unwrap();
        let errors = String::from_utf8_lossy(&answer.stderr);
        assert!(answer.status.success(), "docker {arguments:?}: {errors}");
        String::from_utf8(answer.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn inspect(&self, job: &JobRef) -> Value {
        let found = self.docker(&["container", "inspect", &name_of(job)]);
        serde_json::from_str::<Value>(&found).unwrap()[0].take()
    }

    /// The process id of a running container on the host.
    pub(crate) fn process(&self, job: &JobRef) -> u64 {
        self.inspect(job)["State"]["Pid"].as_u64().filter(|pid| *pid > 0).unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let script = "docker ps -aq --filter label=canyon.dev/runner=$1 | xargs -r docker rm -fv";
        let _ = Command::new("sh")
            .args(["-c", script, "sh", &self.runner.to_string()])
            .env("DOCKER_HOST", &self.address)
            .output();
    }
}
