//! Deployments through a network that delays, drops, duplicates and cuts requests, and answers in
//! Canyon's place: between the command line and Canyon, and between the runner and Canyon.

use crate::harness::deployments::assert_succeeded;
use crate::harness::hostile::{Fate, Hostile};
use crate::harness::ledger;
use crate::harness::programs;
use crate::harness::server::Server;
use crate::harness::site::{PROJECT, Site};
use canyon_api::deployment::{Deployment, DeploymentQuery};
use canyon_api::page::PageQuery;
use serde_json::json;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Each deployment has a network of its own, so that its faults follow from its seed.
const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];
/// Resources of each deployment.
const COUNT: u32 = 3;
/// Lines that each resource writes into the log.
const LINES: u32 = 20;

/// The real runner, which reaches Canyon only through the network of its job's environment.
fn wrapper(networks: &Path) -> String {
    let runner = programs::built().join("canyon-runner");
    format!(
        "CANYON_API_URL=$(cat '{}')\nexport CANYON_API_URL\nexec '{}'\n",
        networks.display(),
        runner.display()
    )
}

/// Resources that each write a line of the ledger, and many of the log.
fn module(folder: &Path, seed: u64) -> std::path::PathBuf {
    let (module, ledger) = (folder.join(format!("module-{seed}")), ledger_of(folder, seed));
    std::fs::create_dir(&module).unwrap();
    let code = format!(
        r#"
resource "terraform_data" "step" {{
  count = {COUNT}
  provisioner "local-exec" {{
    command = "echo begin 1 ${{count.index}} >> '{ledger}'; for i in $(seq {LINES}); do echo \"line $i of step ${{count.index}}.\"; sleep 0.05; done; echo end 1 ${{count.index}} >> '{ledger}'"
  }}
}}
output "word" {{ value = "whole" }}
"#,
        ledger = ledger.display()
    );
    std::fs::write(module.join("main.tf"), code).unwrap();
    module
}

fn ledger_of(folder: &Path, seed: u64) -> std::path::PathBuf {
    folder.join(format!("ledger-{seed}"))
}

/// The one deployment of an environment.
async fn only(site: &Site, env: &str) -> Deployment {
    let filter = DeploymentQuery {
        project_id: Some(PROJECT.to_owned()),
        env_id: Some(env.to_owned()),
        ..DeploymentQuery::default()
    };
    let page = site.client.deployments(&filter, &PageQuery::default()).await.unwrap();
    assert_eq!(page.items.len(), 1, "{:#?}", page.items);
    // The list does not contain the attempts.
    site.client.deployment(&page.items[0].id.to_string()).await.unwrap()
}

/// What the command of a resource wrote, without white space: OpenTofu breaks a line in two if it waits 100 ms for the line's
/// end (<https://github.com/mitchellh/go-linereader>).
fn written(log: &str, index: u32) -> String {
    let prefix = format!("terraform_data.step[{index}]: (local-exec):");
    let parts = log.lines().filter_map(|line| line.strip_prefix(&prefix));
    let of_command = parts.filter(|part| !part.starts_with(" Executing:"));
    of_command.flat_map(str::split_whitespace).collect()
}

async fn assert_whole(site: &Site, folder: &Path, seed: u64, network: &Hostile) {
    let deployment = only(site, &format!("env-{seed}")).await;
    let story = network.story();
    assert_succeeded(&deployment);
    assert_eq!(deployment.attempts.len(), 1, "{deployment:#?}\n{story}");
    ledger::assert_once(&ledger_of(folder, seed), 1, COUNT);
    let log = site.log(&deployment.id.to_string()).await;
    for index in 0..COUNT {
        let lines: Vec<_> =
            (1..=LINES).map(|number| format!("line{number}ofstep{index}.")).collect();
        assert_eq!(written(&log, index), lines.concat(), "step {index} in {log}\n{story}");
    }
    assert!(log.ends_with("==> done\n"), "{log}\n{story}");
}

#[tokio::test(flavor = "multi_thread")]
async fn through_a_hostile_network_each_deployment_succeeds_once_and_its_log_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (address, current) = (Arc::new(Mutex::new(String::new())), folder.path().join("network"));
    programs::with_runner(folder.path(), &wrapper(&current));
    let server = Server::start_with(folder.path(), programs::search_path(None)).await;
    *address.lock().unwrap() = server.url();
    let site = Site::on(server, &json!({})).await;
    let mut met = Vec::new();
    for seed in SEEDS {
        let network = Hostile::start(seed, address.clone()).await;
        std::fs::write(&current, &network.url).unwrap();
        let env = format!("env-{seed}");
        site.environment(&env).await;
        let module = module(folder.path(), seed);
        let call = ["deploy", PROJECT, &env, "--module", module.to_str().unwrap()];
        let way = [("CANYON_API_URL", network.url.as_str())];
        let said = tokio::task::block_in_place(|| site.server.canyon_with(&call, "", &way));
        assert_eq!(said.code, 0, "seed {seed}: {said:?}\n{}", network.story());
        assert!(said.stdout.contains("whole"), "seed {seed}: {said:?}");
        assert!(!said.stdout.contains("Blocked"), "seed {seed}: {said:?}");
        assert_whole(&site, folder.path(), seed, &network).await;
        for step in ["/claim", "/bundle", "/report", "/results"] {
            met.extend(network.met(step));
        }
    }
    let spoiled = met.iter().filter(|fate| !matches!(fate, Fate::Passes | Fate::Delayed)).count();
    assert!(spoiled >= SEEDS.len() * 4, "the network was not hostile: {met:?}");
}
