//! Plans that other people approve before they are applied, by the command line alone; on the laptop and on the functions.

use crate::harness::deployments::{assert_succeeded, counts, request};
use crate::harness::ledger;
use crate::harness::module::{self, inline};
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_api::deployment::{Deployment, DeploymentCreateBody, RequestedMode};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const LIMIT: Duration = Duration::from_mins(2);

fn sized(size: &str) -> String {
    format!(
        "resource \"terraform_data\" \"disk\" {{ input = \"{size}\" }}\n\
         output \"size\" {{ value = terraform_data.disk.output }}\n"
    )
}

/// A site whose environments need approval of plans that change something.
async fn guarded(rule: &Value) -> Site {
    let site = Site::new().await;
    let env = site.client.get(&["projects", PROJECT, "envs", ENV]).await.unwrap();
    let env_type = env["env_type_id"].as_str().unwrap();
    let change = json!({ "approval": rule });
    site.client.update(&["env-types", env_type], &change).await.unwrap();
    site
}

/// The token of another person.
async fn token(site: &Site, role: &str) -> String {
    let made = site.make(&["tokens"], &json!({ "role": role, "description": role })).await;
    made["secret"].as_str().unwrap().to_owned()
}

/// Waits until the plan of a deployment waits for approval.
pub(crate) async fn awaited(site: &Site, id: &str) -> Deployment {
    let begun = Instant::now();
    loop {
        let found = site.client.deployment(id).await.unwrap();
        if found.approval.as_ref().is_some_and(|approval| approval.status == "awaited") {
            return found;
        }
        assert!(found.completed_at.is_none() && begun.elapsed() < LIMIT, "{found:#?}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_changes_a_module_another_approves_the_plan_and_exactly_that_is_applied() {
    let site = guarded(&json!({ "required": "changes" })).await;
    let server = &site.server;
    let folder = server.path("module");
    std::fs::create_dir(&folder).unwrap();
    let write = |size: &str| std::fs::write(folder.join("main.tf"), sized(size)).unwrap();
    let path = folder.to_str().unwrap().to_owned();
    write("large");
    let id = server.canyon(&["deploy", PROJECT, ENV, "--module", &path, "--no-wait"]);
    let id = id.done().trim().to_owned();
    let waits = awaited(&site, &id).await;
    write("huge");
    assert_eq!((waits.status.as_str(), waits.attempts.len()), ("running", 1));
    let waiting = waits.waiting.unwrap();
    assert_eq!(waiting.code, "approval");
    assert!(waiting.reason.contains("canyon approve"), "{}", waiting.reason);

    let bob = token(&site, "deployer").await;
    let viewer = token(&site, "viewer").await;
    let by = |token: &str, arguments: &[&str]| {
        server.canyon_with(arguments, "", &[("CANYON_TOKEN", token)])
    };
    let listed = by(&bob, &["list", "approvals"]).done().to_owned();
    assert!(listed.contains(&id) && listed.contains("1 to add"), "{listed}");
    let status = server.canyon(&["status"]).done().to_owned();
    assert!(status.contains("approval"), "{status}");
    let shown = by(&bob, &["show", "plan", &id]).done().to_owned();
    let digest = shown.split_whitespace().nth(1).unwrap().trim_end_matches(':').to_owned();

    let refusals = [
        (by(server.token(), &["approve", &id, "--plan-digest", &digest]), "who has requested"),
        (by(&viewer, &["approve", &id, "--plan-digest", &digest]), "not an approver"),
        (by(&bob, &["approve", &id, "--plan-digest", &"ab".repeat(32)]), "not the current one"),
        (by(&bob, &["approve", &id]), "--plan-digest"),
    ];
    for (refused, part) in refusals {
        assert_ne!(refused.code, 0, "{part}");
        assert!(refused.stderr.contains(part), "no `{part}` in: {}", refused.stderr);
    }
    let approved =
        by(&bob, &["approve", &id, "--plan-digest", &digest, "--comment", "as discussed"]);
    approved.done();
    let ended = site.end(&id).await;
    assert_succeeded(&ended);
    assert_eq!((counts(&ended), ended.attempts.len()), ((1, 0, 0), 2));
    let outputs = site.client.outputs(&id).await.unwrap();
    assert_eq!(outputs["size"].value, Some(json!("large").into()), "the plan, not the folder");
    let approval = ended.approval.unwrap();
    assert_eq!((approval.status.as_str(), approval.given), ("given", 1));
    assert_eq!(approval.reviews[0].comment.as_deref(), Some("as discussed"));
    let audit = server.canyon(&["list", "audit", "--out", "json"]).done().to_owned();
    assert!(audit.contains("deployment.approve"), "{audit}");

    // The same module again: nothing changes, so it needs no approval.
    write("large");
    let same = server.canyon(&["deploy", PROJECT, ENV, "--module", &path]);
    assert!(same.done().contains("0 added, 0 changed, 0 destroyed"), "{}", same.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_destroys_nothing_passes_a_rule_about_destruction() {
    let site = guarded(&json!({ "required": "destructive" })).await;
    let made = site.run(&request(ENV, Some(inline(sized("small"))))).await;
    assert_succeeded(&made);
    assert_eq!(made.attempts.len(), 1, "the same job applied it");
    let destroy = DeploymentCreateBody::new(RequestedMode::Destroy, PROJECT, ENV);
    let id = site.accept(&destroy).await;
    let waits = awaited(&site, &id).await;
    assert_eq!(waits.plan.unwrap().summary.remove, 1);
    // A later deployment waits behind it, and passes when it is given up.
    let later = site.accept(&request(ENV, Some(inline(sized("small"))))).await;
    site.server.canyon(&["discard", &id]).done();
    let discarded = site.end(&id).await;
    assert_eq!(
        (discarded.status.as_str(), discarded.status_message.as_str()),
        ("cancelled", "its plan was discarded")
    );
    assert_succeeded(&site.end(&later).await);
    assert_eq!(site.state(ENV).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_moves_while_a_plan_waits_makes_another_plan_and_voids_the_reviews() {
    let site = guarded(&json!({ "required": "changes", "count": 2 })).await;
    let id = site.accept(&request(ENV, Some(inline(sized("small"))))).await;
    let digest = awaited(&site, &id).await.plan.unwrap().digest;
    // A user changes the state outside of Canyon.
    let state = site.state_file(ENV).await;
    let other = json!({
        "version": 4, "terraform_version": "1.10.0", "serial": 7, "lineage": "00000000-0000-0000-0000-000000000007",
        "outputs": {}, "resources": [], "check_results": null,
    });
    std::fs::write(&state, other.to_string()).unwrap();
    let (bob, eve) = (token(&site, "deployer").await, token(&site, "deployer").await);
    for token in [&bob, &eve] {
        let arguments = ["approve", &id, "--plan-digest", &digest];
        site.server.canyon_with(&arguments, "", &[("CANYON_TOKEN", token)]).done();
    }
    let begun = Instant::now();
    let again = loop {
        let found = awaited(&site, &id).await;
        if found.plan.as_ref().is_some_and(|plan| plan.digest != digest) {
            break found;
        }
        assert!(begun.elapsed() < LIMIT, "{found:#?}");
        sleep(Duration::from_millis(50)).await;
    };
    assert_eq!((again.attempts.len(), again.approval.unwrap().given), (3, 0));
    site.server.canyon(&["reject", &id, "--comment", "start over"]).done();
    let ended = site.end(&id).await;
    assert_eq!(ended.status_message, "its plan was rejected: start over");
}

#[tokio::test(flavor = "multi_thread")]
async fn deployments_pass_a_plan_that_waits_without_the_turn_and_it_is_planned_again() {
    let site = guarded(&json!({ "required": "destructive", "hold": "release" })).await;
    assert_succeeded(&site.run(&request(ENV, Some(inline(sized("small"))))).await);
    let destroy = DeploymentCreateBody::new(RequestedMode::Destroy, PROJECT, ENV);
    let destroying = site.accept(&destroy).await;
    let digest = awaited(&site, &destroying).await.plan.unwrap().digest;
    // Another deployment runs meanwhile, and changes the state.
    let passed = site.run(&request(ENV, Some(inline(sized("large"))))).await;
    assert_succeeded(&passed);
    assert_eq!(counts(&passed), (0, 1, 0));
    let bob = token(&site, "deployer").await;
    let approve = |digest: &str| {
        let arguments = ["approve", &destroying, "--plan-digest", digest];
        site.server.canyon_with(&arguments, "", &[("CANYON_TOKEN", &bob)]).done();
    };
    approve(&digest);
    let begun = Instant::now();
    let again = loop {
        let found = awaited_again(&site, &destroying, &digest).await;
        if let Some(found) = found {
            break found;
        }
        assert!(begun.elapsed() < LIMIT, "the plan was not made again");
        sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(site.state(ENV).await.len(), 1, "the stale plan destroyed nothing");
    // Now no other deployment passes, so exactly this plan is applied.
    approve(&again);
    assert_succeeded(&site.end(&destroying).await);
    assert_eq!(site.state(ENV).await.len(), 0);
}

/// The digest of the plan that waits, if it is another one than `earlier`.
async fn awaited_again(site: &Site, id: &str, earlier: &str) -> Option<String> {
    let found = site.client.deployment(id).await.unwrap();
    assert!(found.completed_at.is_none(), "{found:#?}");
    let is_awaited = found.approval.is_some_and(|approval| approval.status == "awaited");
    found.plan.map(|plan| plan.digest).filter(|digest| is_awaited && digest != earlier)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_while_a_plan_is_made_reviewed_or_applied_applies_it_once() {
    let mut site = guarded(&json!({ "required": "always", "forbid_author": false })).await;
    let path = site.server.path("ledger");
    for round in 1..=4 {
        let body = request(ENV, Some(module::ledger(&path, 4, "0.2", round)));
        let id = site.accept(&body).await;
        // While it plans.
        sleep(Duration::from_millis(u64::from(round) * 120)).await;
        site.server.kill();
        site.server.restart().await;
        let digest = awaited(&site, &id).await.plan.unwrap().digest;
        // While it waits.
        site.server.kill();
        site.server.restart().await;
        let approved = site.server.canyon(&["approve", &id, "--plan-digest", &digest]);
        approved.done();
        // While it applies.
        sleep(Duration::from_millis(u64::from(round) * 150)).await;
        site.server.kill();
        site.server.restart().await;
        let ended = site.end(&id).await;
        assert_eq!(ended.status, "succeeded", "{ended:#?}");
        ledger::assert_once(&path, round, 4);
    }
}
