//! Secrets that a state has from earlier runs: the plans that replace them show them to no reader of a log.

use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::module::inline;
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_api::deployment::DeploymentCreateBody;

/// Keeps its variable in the state, where OpenTofu does not hide it.
const KEEPING: &str = r#"
variable "password" {}
resource "terraform_data" "keeps" { input = "user:app:${var.password}@db" }
"#;

/// The log and the events of a plan.
async fn planned(site: &Site) -> String {
    let body = DeploymentCreateBody {
        plan_only: Some(true),
        ..request(ENV, Some(inline(KEEPING.to_owned())))
    };
    let ended = site.run(&body).await;
    assert_succeeded(&ended);
    let id = ended.id.to_string();
    let events = site.server.canyon(&["logs", &id, "--events"]);
    format!("{}{}", site.log(&id).await, events.done())
}

async fn deploy(site: &Site) {
    assert_succeeded(&site.run(&request(ENV, Some(inline(KEEPING.to_owned())))).await);
}

fn set(site: &Site, scope: &[&str], value: &str) {
    let set = [&["set", "variable", "--secret", "password"], scope].concat();
    site.server.canyon_with(&set, value, &[]).done();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_after_a_rotation_shows_neither_the_new_secret_nor_the_former_one() {
    let site = Site::new().await;
    let of_project = ["--project", PROJECT];
    set(&site, &of_project, "FirstValue-1");
    deploy(&site).await;
    // The second value never reaches the state.
    set(&site, &of_project, "SecondValue-2");
    set(&site, &of_project, "ThirdValue-3");
    let log = planned(&site).await;
    assert!(log.contains("user:app:************@db"), "{log}");
    assert!(!log.contains("Value-"), "{log}");

    // A nearer scope, a variable that is removed, and a value in the clear.
    let of_environment = ["--project", PROJECT, "--env", ENV];
    deploy(&site).await;
    set(&site, &of_environment, "FourthValue-4");
    let log = planned(&site).await;
    assert!(!log.contains("Value-"), "{log}");
    deploy(&site).await;
    let unset = ["unset", "variable", "password"];
    site.server.canyon(&[&unset[..], &of_environment].concat()).done();
    site.server.canyon(&[&unset[..], &of_project].concat()).done();
    let open = ["set", "variable", "password=in-the-clear"];
    site.server.canyon(&[&open[..], &of_project].concat()).done();
    let log = planned(&site).await;
    assert!(log.contains("in-the-clear") && !log.contains("Value-"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_shows_no_secret_input_of_an_earlier_deployment() {
    let site = Site::new().await;
    let server = &site.server;
    std::fs::create_dir(server.path("module")).unwrap();
    std::fs::write(server.path("module/main.tf"), KEEPING).unwrap();
    let deploy = ["deploy", PROJECT, ENV, "--module", "./module", "--secret-var", "password"];
    server.canyon_with(&deploy, "OnlyForOne-1", &[]).done();
    let open = ["set", "variable", "--project", PROJECT, "password=in-the-clear"];
    server.canyon(&open).done();
    let log = planned(&site).await;
    assert!(log.contains("in-the-clear") && !log.contains("OnlyForOne"), "{log}");
}
