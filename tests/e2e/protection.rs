//! What a module of a local job can read of other processes of the same user.

use crate::agent::AgentSite;
use crate::deploy_local;
use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::module::inline;
use crate::harness::probe;
use crate::harness::processes::runners;
use crate::harness::site::{ENV, Site};
use std::fs;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_mins(1);

async fn finds_nothing(site: &Site, starter: &str) {
    let id = site.deploy(probe::module("")).await.id.to_string();
    probe::assert_found_nothing(&site.log(&id).await, Some(starter));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_finds_nothing_of_its_runner_or_of_the_canyon_that_started_it() {
    finds_nothing(&Site::new().await, "canyon").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_finds_nothing_of_its_runner_or_of_the_agent_that_started_it() {
    finds_nothing(&AgentSite::new().await.site, "canyon-agent").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_finds_nothing_of_its_runner_or_of_the_command_line_that_started_it() {
    let site = Site::new().await;
    let text = probe::module("").source_code.unwrap();
    let module = deploy_local::module(&site, "module", &text);
    let (code, said) = deploy_local::end(deploy_local::start(&site, ENV, &module)).await;
    assert_eq!(code, Some(0), "{said}");
    let deployments = site.client.list(&["deployments"], &[]).await.unwrap();
    let id = deployments[0]["id"].as_str().unwrap();
    probe::assert_found_nothing(&site.log(id).await, Some("canyon"));
}

/// The record of a process is written after the start, so its starter can die in between. The runner hides its files,
/// also from the next Canyon.
#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_nothing_records_is_found_although_it_hides() {
    let mut site = Site::new().await;
    let go = site.server.path("go");
    let command = format!("while ! [ -e '{}' ]; do sleep 0.05; done", go.display());
    let module = format!(
        "resource \"terraform_data\" \"waits\" {{\n  provisioner \"local-exec\" {{\n    command = \"{command}\"\n  }}\n}}"
    );
    let id = site.accept(&request(ENV, Some(inline(module)))).await;
    site.until(&id, "apply", |deployment| {
        deployment.attempts.first().is_some_and(|attempt| attempt.phase == "apply")
    })
    .await;
    let data = site.server.data();
    let recorded = runners(&data);
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    site.server.kill();
    fs::remove_file(data.join("jobs").join(&recorded[0].0).join("pid")).unwrap();
    site.server.restart().await;
    let deadline = Instant::now() + LIMIT;
    while runners(&data) != recorded {
        assert!(Instant::now() < deadline, "{:?}\n{}", runners(&data), site.server.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fs::write(go, "").unwrap();
    let ended = site.end(&id).await;
    assert_succeeded(&ended);
    assert_eq!(ended.attempts.len(), 1, "{ended:#?}");
}
