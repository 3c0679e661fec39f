//! Schedules by the command line alone: on the laptop, where Canyon looks each second, and on the functions, where a rule of
//! EventBridge does it.

use crate::harness::deployments::assert_succeeded;
use crate::harness::module::inline;
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_api::deployment::{Deployment, DeploymentQuery};
use canyon_api::page::PageQuery;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const LIMIT: Duration = Duration::from_mins(2);
/// How far ahead a time is, so that it is not in the past when the request arrives.
const SOON: SignedDuration = SignedDuration::from_secs(5);

async fn schedule(site: &Site, id: &str) -> Value {
    site.client.get(&["projects", PROJECT, "envs", ENV, "schedules", id]).await.unwrap()
}

/// The deployment of the schedule's only due time.
async fn deployed(site: &Site, id: &str) -> Deployment {
    let begun = Instant::now();
    loop {
        let found = schedule(site, id).await;
        if let Some(deployment) = found["last"]["deployment_id"].as_str() {
            assert_eq!((&found["enabled"], &found["next_due_at"]), (&json!(false), &json!([])));
            return site.end(deployment).await;
        }
        assert!(begun.elapsed() < LIMIT, "{found:#}\n{}", site.server.log());
        sleep(Duration::from_millis(100)).await;
    }
}

async fn deployments(site: &Site) -> usize {
    let filter = DeploymentQuery::default();
    site.client.deployments(&filter, &PageQuery::default()).await.unwrap().items.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_deploys_once_at_its_time_another_repeats_that_and_a_third_destroys_it() {
    let site = Site::new().await;
    let soon = || format!("--set=at={}", Timestamp::now() + SOON);
    let create = |id: &str, kind: &str, more: &[&str]| {
        let (kind, at) = (format!("--set=kind={kind}"), soon());
        let mut arguments = vec!["create", "schedule", PROJECT, ENV, id, &kind, &at];
        arguments.extend(more);
        site.server.canyon(&arguments)
    };
    let module = inline("resource \"terraform_data\" \"disk\" {}\n");
    let spec = json!({ "spec": { "module": module } }).to_string();
    create("first", "deploy", &["--set-yaml", &spec]).done();
    let first = deployed(&site, "first").await;
    assert_succeeded(&first);
    assert_eq!(site.state(ENV).await, ["terraform_data.disk"]);

    create("again", "deploy", &[]).done();
    let again = deployed(&site, "again").await;
    assert_succeeded(&again);
    assert_eq!(again.rollback_to_deployment_id, Some(first.id));

    let refused = create("end", "destroy", &[]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("--yes"), "{}", refused.stderr);
    create("end", "destroy", &["--yes", "--confirm", ENV]).done();
    assert_succeeded(&deployed(&site, "end").await);
    assert_eq!(site.state(ENV).await, [""; 0]);
    let listed = site.server.canyon(&["list", "schedules", PROJECT, ENV]).done().to_owned();
    assert!(listed.contains("first") && listed.contains(&first.id.to_string()), "{listed}");
    assert_eq!(deployments(&site).await, 3, "each ran once");
}

/// The arguments of a command line: words, and texts in single quotes.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let mut words = vec![String::new()];
    for (at, part) in parts {
        if at % 2 == 1 {
            words.last_mut().unwrap().push_str(part);
            continue;
        }
        for (n, word) in part.split(' ').enumerate() {
            if n > 0 {
                words.push(String::new());
            }
            words.last_mut().unwrap().push_str(word);
        }
    }
    words.into_iter().filter(|word| !word.is_empty()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_about_schedules_work_in_their_order() {
    let site = Site::new().await;
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schedules.md");
    let page = std::fs::read_to_string(page).unwrap();
    let commands: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("$ canyon ")).collect();
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        let command = command.split(" #").next().unwrap();
        let words = words(command);
        let arguments: Vec<_> = words.iter().map(String::as_str).collect();
        let done = site.server.canyon(&arguments);
        assert_eq!(done.code, 0, "canyon {command}: {}", done.stderr);
    }
}
