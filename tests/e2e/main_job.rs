//! The main use: a module is deployed, planned again without changes, changed, restored, and
//! destroyed.

use crate::harness::deployments::{assert_succeeded, counts, destruction, failure, request};
use crate::harness::module::{THIRTY, inline, waiting_for, with};
use crate::harness::programs;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_api::attempt::Stream;
use canyon_api::deployment::{DeploymentCreateBody, RequestedMode};
use canyon_domain::failure::FailureClass;
use serde_json::{Value, json};

/// The whole life of an environment with `executable`.
async fn thirty_resources_come_and_go(executable: &str) {
    let server = Server::start().await;
    let site = Site::on(server, &json!({ "executable": executable })).await;
    let module = || inline(THIRTY);

    let first = site.deploy(module()).await;
    assert_eq!(counts(&first), (30, 0, 0));
    assert_eq!(first.metrics.num_tf_resources, Some(30));
    assert_eq!(site.state(ENV).await.len(), 30, "the state is where the storage says");
    let outputs = site.client.outputs(&first.id.to_string()).await.unwrap();
    assert_eq!(outputs["first"].value, Some(json!("hello 0").into()));
    assert_eq!(outputs["count"].value, Some(json!(30).into()));
    assert!(site.log(&first.id.to_string()).await.contains(&format!("{executable} apply")));

    let again = site.deploy(module()).await;
    assert_eq!(counts(&again), (0, 0, 0));
    assert!(site.log(&again.id.to_string()).await.contains("no changes"));

    let before = std::fs::read(site.state_file(ENV).await).unwrap();
    let changed = with(module(), "greeting", "good day");
    let plan =
        DeploymentCreateBody { plan_only: Some(true), ..request(ENV, Some(changed.clone())) };
    assert_succeeded(&site.run(&plan).await);
    assert_eq!(
        std::fs::read(site.state_file(ENV).await).unwrap(),
        before,
        "a plan changes nothing"
    );

    let second = site.deploy(changed).await;
    assert_eq!(counts(&second), (0, 30, 0));
    let outputs = site.client.outputs(&second.id.to_string()).await.unwrap();
    assert_eq!(outputs["first"].value, Some(json!("good day 0").into()));

    let back = DeploymentCreateBody {
        mode: RequestedMode::Rollback,
        rollback_to_deployment_id: Some(first.id),
        ..request(ENV, None)
    };
    let back = site.run(&back).await;
    assert_succeeded(&back);
    assert_eq!(counts(&back), (0, 30, 0));
    let outputs = site.client.outputs(&back.id.to_string()).await.unwrap();
    assert_eq!(outputs["first"].value, Some(json!("hello 0").into()));

    let destroyed = site.run(&destruction(ENV)).await;
    assert_succeeded(&destroyed);
    assert_eq!(counts(&destroyed), (0, 0, 30));
    assert_eq!(site.state(ENV).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_resources_come_and_go_with_opentofu() {
    thirty_resources_come_and_go("tofu").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_resources_come_and_go_with_terraform_where_it_is_installed() {
    if programs::find("terraform").is_some() {
        thirty_resources_come_and_go("terraform").await;
    } else {
        // If it is missing, the runner names the command to install.
        let site = Site::on(Server::start().await, &json!({ "executable": "terraform" })).await;
        let ended = site.run(&request(ENV, Some(inline(THIRTY)))).await;
        let (class, message) = failure(&ended);
        assert_eq!(class, FailureClass::Config);
        assert!(message.contains("`terraform` is not on the PATH"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_can_be_followed_while_it_is_written() {
    let site = Site::new().await;
    let read = site.server.path("read");
    let id = site.accept(&request(ENV, Some(waiting_for(&read)))).await;
    for (stream, sign) in [(Stream::Log, "apply"), (Stream::Events, "provision_start")] {
        let (mut text, mut offset) = (String::new(), 0);
        while !text.contains(sign) {
            let part = site.client.log_part(&id, stream, offset, 10).await.unwrap();
            assert!(!part.complete, "the sign did not come while it ran: {text}");
            assert_eq!(part.next_offset, offset + part.bytes.len() as u64);
            text.push_str(std::str::from_utf8(&part.bytes).unwrap());
            offset = part.next_offset;
        }
        let now = site.client.deployment(&id).await.unwrap();
        assert_eq!(now.status, "running", "{stream:?} came only after the end");
    }
    std::fs::write(&read, "").unwrap();
    assert_succeeded(&site.end(&id).await);
    let whole = site.log(&id).await;
    let part = site.client.log_part(&id, Stream::Log, 10, 0).await.unwrap();
    assert_eq!(part.bytes, whole.as_bytes()[10..]);
    let rest = site.client.log_part(&id, Stream::Log, whole.len() as u64, 10).await.unwrap();
    assert!(rest.complete && rest.bytes.is_empty(), "a reader at the end gets the end at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_the_author_ends_with_its_file_and_line() {
    let site = Site::new().await;
    let at_plan = "output \"x\" {\n  value = var.missing\n}\n";
    let at_apply = "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"echo sorry >&2; exit 3\"\n  }\n}\n";
    for (code, place, words) in [
        (at_plan, "main.tf:2", "missing"),
        (at_apply, "main.tf:2", "exit status 3"),
        ("resource {", "main.tf:1", ""),
    ] {
        let ended = site.run(&request(ENV, Some(inline(code)))).await;
        assert_eq!(ended.status, "failed");
        assert_eq!(ended.attempts.len(), 1, "a fault is not retried");
        let (class, message) = failure(&ended);
        assert_eq!(class, FailureClass::User, "{message}");
        assert!(message.contains(place) && message.contains(words), "{message}");
        assert_eq!(ended.status_message, message);
    }
    site.deploy(inline(THIRTY)).await;
}

/// Waits until an environment no longer exists.
async fn gone(site: &Site, env: &str) {
    let path = ["projects", PROJECT, "envs", env];
    for _ in 0..600 {
        match site.client.get(&path).await {
            Err(error) => return assert_eq!(error.status(), Some(404)),
            Ok(environment) => assert_eq!(environment["status"], "deleting", "{environment}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("environment `{env}` is not gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_environment_is_destroyed_first() {
    let site = Site::new().await;
    let path = ["projects", PROJECT, "envs", ENV];
    site.deploy(inline(THIRTY)).await;
    let state = site.state_file(ENV).await;
    // The destroy run uses the module that was applied last, not one that never was.
    let broken = site.run(&request(ENV, Some(inline("resource {")))).await;
    assert_eq!(broken.status, "failed");
    let left = site.client.delete(&path, &[]).await.unwrap();
    assert_eq!(left.expect("it takes a while")["status"], "deleting");
    let refused = site.client.create_deployment(&request(ENV, Some(inline(THIRTY))), "late").await;
    assert_eq!(refused.unwrap_err().status(), Some(409), "nothing is deployed to it any more");
    gone(&site, ENV).await;
    let state: Value = serde_json::from_slice(&std::fs::read(state).unwrap()).unwrap();
    assert_eq!(state["resources"], json!([]));

    // The next environment of that name starts empty.
    site.environment(ENV).await;
    assert_eq!(site.state(ENV).await, Vec::<String>::new());
    assert_eq!(counts(&site.deploy(inline(THIRTY)).await), (30, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_whose_destroy_fails_is_kept_until_it_is_forced() {
    let site = Site::new().await;
    let path = ["projects", PROJECT, "envs", ENV];
    let stubborn = "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    when = destroy\n    command = \"exit 1\"\n  }\n}\n";
    site.deploy(inline(stubborn)).await;
    site.client.delete(&path, &[]).await.unwrap();
    let mut environment = Value::Null;
    for _ in 0..600 {
        environment = site.client.get(&path).await.unwrap();
        if environment["status"] != "deleting" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(environment["status"], "delete_failed");
    assert_ne!(environment["status_message"], "");
    assert_eq!(site.state(ENV).await.len(), 1, "it knows what is left");

    let force = [("force", "true".to_owned())];
    site.client.delete(&path, &force).await.unwrap();
    gone(&site, ENV).await;
}
