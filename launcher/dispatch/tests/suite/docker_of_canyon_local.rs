//! Runners of type `docker` on a real engine, as `canyon local` launches their jobs.

use crate::behaviour::{Act, Platform, behaves, new_job, until};
use crate::docker_bed::{Host, name_of};
use canyon_dispatch::docker::{DockerPlatform, DockerSettings, EngineUser, HostGateway};
use canyon_dispatch::{Dispatcher, JobRef, Launch, Platform as _};
use serde_json::{Value, json};
use std::sync::Arc;

/// The engine of the laptop.
struct Laptop(Host);

impl Laptop {
    async fn new() -> Self {
        Self(Host::new().await)
    }

    fn settings(&self) -> DockerSettings {
        DockerSettings { user: EngineUser::CanyonLocal, ..self.0.settings() }
    }

    fn dispatcher_with(&self, settings: DockerSettings, job: &Value) -> Arc<dyn Dispatcher> {
        let platform = Arc::new(DockerPlatform::new(settings, &|_| None).unwrap());
        platform.dispatcher(&self.0.target_of("docker", job))
    }
}

impl Platform for Laptop {
    type Kind = dyn Dispatcher;

    fn dispatcher(&self) -> Arc<dyn Dispatcher> {
        self.dispatcher_with(self.settings(), &json!({}))
    }

    fn launch(&self, job: JobRef, act: Act) -> Launch {
        self.0.acting(job, act.word())
    }

    fn noted(&self, job: &JobRef, what: &str) -> usize {
        self.0.notes.count(&name_of(job), what)
    }
}

behaves! { Laptop::new().await }

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_a_job_is_that_of_its_runner_also_above_the_default() {
    let laptop = Laptop::new().await;
    let mib = 1024 * 1024;
    for (job, expected) in [
        (json!({}), 4096 * mib),
        (json!({ "memory_limit": 64 }), 64 * mib),
        (json!({ "memory_limit": 8192 }), 8192_i64 * mib),
    ] {
        let kind = laptop.dispatcher_with(laptop.settings(), &job);
        let launch = laptop.0.acting(new_job(), "writes");
        kind.start(&launch).await.unwrap();
        let made = laptop.0.inspect(&launch.job);
        assert_eq!(made["HostConfig"]["Memory"], json!(expected), "{job}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_names_what_the_owner_of_a_laptop_can_change() {
    let laptop = Laptop::new().await;
    let settings = DockerSettings { image: None, ..laptop.settings() };
    let launch = laptop.0.acting(new_job(), "writes");
    let error = laptop.dispatcher_with(settings, &json!({})).start(&launch).await.unwrap_err();
    assert!(error.to_string().contains("--runner-image"), "{error}");

    let host = Some("unix:///nowhere/docker.sock".to_owned());
    let settings = DockerSettings { host, ..laptop.settings() };
    let error = laptop.dispatcher_with(settings, &json!({})).start(&launch).await.unwrap_err();
    for word in ["/nowhere/docker.sock", "systemctl start docker", "DOCKER_HOST"] {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_is_where_a_container_finds_its_machine() {
    let laptop = Laptop::new().await;
    let engine = DockerPlatform::new(laptop.settings(), &|_| None).unwrap();
    let HostGateway::Address(address, Some(interface)) = engine.host_gateway().await.unwrap()
    else {
        panic!("the engine is on this machine");
    };
    assert!(std::path::Path::new(&format!("/sys/class/net/{interface}")).exists(), "{interface}");
    let hosts = json!({ "extra_hosts": ["machine:host-gateway"] });
    let kind = laptop.dispatcher_with(laptop.settings(), &hosts);
    let launch = laptop.0.acting(new_job(), "until-asked");
    kind.start(&launch).await.unwrap();
    let name = name_of(&launch.job);
    until("it runs", async || laptop.0.notes.count(&name, "started") == 1).await;
    let path = laptop.0.inspect(&launch.job)["HostsPath"].as_str().unwrap().to_owned();
    let entries = std::fs::read_to_string(path).unwrap();
    assert!(entries.lines().any(|line| line == format!("{address}\tmachine")), "{entries}");
}
