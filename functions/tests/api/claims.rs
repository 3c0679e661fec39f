//! Claims: which runner gets an attempt.

use crate::harness::faults;
use crate::job::{Job, claim, deploy, furnished, launch, lose, order, piece, raw, request, stored};
use crate::runs::forged;
use canyon_domain::attempt::Outcome;
use canyon_domain::deployment::Status;
use canyon_domain::failure::FailureClass;
use reqwest::Method;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const CLAIMANT: &str = "claimant-number-one";

#[tokio::test]
async fn of_twenty_claimants_one_goes_on_and_a_wrong_code_opens_nothing() {
    let api = Arc::new(furnished().await);
    let (id, other) = (deploy(&api).await, deploy(&api).await);
    let code = launch(&api, &id).await;
    assert_eq!(claim(&api, &id, 1, &forged(&code), CLAIMANT).await.0, 401);
    assert_eq!(claim(&api, &id, 1, &api.ours.admin, CLAIMANT).await.0, 401);
    assert_eq!(claim(&api, &other, 1, &code, CLAIMANT).await.0, 404, "for another deployment");
    assert_eq!(claim(&api, &id, 2, &code, CLAIMANT).await.0, 404, "for another attempt");
    assert_eq!(faults(&claim(&api, &id, 1, &code, "short").await), ["claimant"]);
    assert_eq!(stored(&api, &id).await.status, Status::Launching);

    let mut claims = tokio::task::JoinSet::new();
    for n in 0..20 {
        let (api, id, code) = (Arc::clone(&api), id.clone(), code.clone());
        claims.spawn(async move { claim(&api, &id, 1, &code, &format!("claimant-{n:08}")).await });
    }
    let mut statuses = Vec::new();
    while let Some(answer) = claims.join_next().await {
        let (status, body) = answer.unwrap();
        assert!(status == 200 || !body.to_string().contains("cyj_"), "{body}");
        statuses.push(status);
    }
    statuses.sort_unstable();
    assert_eq!((statuses[0], &statuses[1..]), (200, [409; 19].as_slice()));
    lose(&api, &id).await;
    assert_eq!(claim(&api, &id, 1, &code, CLAIMANT).await.0, 409, "it is over");
    assert_eq!(
        claim(&api, &id, 1, &forged(&code), CLAIMANT).await.0,
        401,
        "who guesses learns nothing"
    );
}

#[tokio::test]
async fn a_claim_that_the_network_repeats_gets_the_same_answer_and_disturbs_nothing() {
    let api = furnished().await;
    // The second attempt, so that the streams do not begin at 0.
    let lost = Job::start(&api).await;
    lost.report(&api, "plan", json!([piece(0, b"first ")])).await;
    let id = lost.id.clone();
    lose(&api, &id).await;
    let code = launch(&api, &id).await;
    let (_, first) = claim(&api, &id, 2, &code, CLAIMANT).await;
    assert_eq!(first["job"]["bundle"]["module"], order()["module"]);
    assert_eq!(first["offsets"]["log"], 6);
    let token = first["token"].as_str().unwrap().to_owned();
    let job = Job { id: id.clone(), number: 2, token };
    assert_eq!(job.report(&api, "apply", json!([piece(6, b"second")])).await.0, 200);
    let applying = stored(&api, &id).await;
    // A late duplicate of the claim, which the runner does not know about.
    api.clock.advance(Duration::from_secs(40));
    assert_eq!(claim(&api, &id, 2, &code, CLAIMANT).await, (200, first));
    assert_eq!(claim(&api, &id, 2, &code, "claimant-number-two").await.0, 409);
    assert_eq!(stored(&api, &id).await, applying);
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200, "its token is good still");
    api.clock.advance(Duration::from_mins(4));
    assert_eq!(claim(&api, &id, 2, &code, CLAIMANT).await.0, 409, "much later it is no repeat");
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    job.succeed(&api).await;
}

#[tokio::test]
async fn a_runner_that_would_leave_out_what_it_does_not_understand_gets_no_such_job() {
    let api = furnished().await;
    // It gets the job format that an older program understands.
    Job::start(&api).await.succeed(&api).await;

    let mut limited = order();
    limited["max_deletions"] = json!(0);
    let launched = async || {
        let made = api.make("/deployments", limited.clone()).await;
        let id = made["id"].as_str().unwrap().to_owned();
        let code = launch(&api, &id).await;
        (id, code)
    };
    let claims = async |id: &str, code: &str, format: Option<&str>| {
        let path = format!("/deployments/{id}/attempts/1/claim");
        let claim = request(&api, code, Method::POST, &path);
        let claim = claim.json(&json!({ "claimant": CLAIMANT }));
        let format = format.map(|format| ("canyon-job-format", format));
        raw(format.into_iter().fold(claim, |claim, (name, value)| claim.header(name, value))).await
    };
    for format in [None, Some("1")] {
        let (id, code) = launched().await;
        assert_eq!(claims(&id, &code, format).await.status, 409, "{format:?}");
        let after = stored(&api, &id).await;
        assert_eq!(after.status, Status::Failed);
        assert!(after.message.contains("job.image"), "{}", after.message);
        let ended = after.attempts[0].ended.as_ref().unwrap();
        let Outcome::Failed(failure) = &ended.outcome else { panic!("{ended:?}") };
        assert_eq!(failure.class, FailureClass::Config);
    }
    let (id, code) = launched().await;
    assert_eq!(claims(&id, &code, Some("two")).await.status, 400);
    assert_eq!(claims(&id, &code, Some("2")).await.status, 200);
}

#[tokio::test]
async fn a_repeated_claim_of_an_older_runner_ends_no_run_that_needs_a_newer_one_since() {
    let api = furnished().await;
    let id = deploy(&api).await;
    let code = launch(&api, &id).await;
    let (status, claimed) = claim(&api, &id, 1, &code, CLAIMANT).await;
    assert_eq!(status, 200, "{claimed}");
    assert!(stored(&api, &id).await.attempts[0].ran_at.is_some(), "where its job runs");
    let job = Job { id: id.clone(), number: 1, token: claimed["token"].as_str().unwrap().into() };
    api.clock.advance(Duration::from_secs(40));
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    let deployment = stored(&api, &id).await;
    let environment = format!("/projects/{}/envs/{}", deployment.project, deployment.env);
    let protection = json!({ "deletion_protection": { "max_deletions": 0 } });
    assert_eq!(api.patch(&environment, protection).await.0, 200);
    let applying = stored(&api, &id).await;
    assert_eq!(claim(&api, &id, 1, &code, CLAIMANT).await.0, 409, "the network repeats it");
    assert_eq!(stored(&api, &id).await, applying);
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200, "what runs goes on");
    job.succeed(&api).await;
}

#[tokio::test]
async fn a_claim_after_its_runner_was_changed_to_what_cannot_work_ends_the_attempt_by_name() {
    let api = furnished().await;
    let id = deploy(&api).await;
    let code = launch(&api, &id).await;
    let runner = format!("/runners/{}", stored(&api, &id).await.runner);
    let with = |variable: &str| {
        let job = json!({ "environment": { variable: "1" } });
        json!({ "runner_configuration": { "type": "local", "job": job } })
    };
    let (_, claimed) = claim(&api, &id, 1, &code, CLAIMANT).await;
    let token = claimed["token"].as_str().unwrap().to_owned();
    let job = Job { id: id.clone(), number: 1, token };
    api.clock.advance(Duration::from_secs(5));
    assert_eq!(job.report(&api, "plan", json!([])).await.0, 200);
    assert_eq!(api.patch(&runner, with("a-b")).await.0, 200);
    assert_eq!(claim(&api, &id, 1, &code, CLAIMANT).await.0, 409, "the network repeats it");
    let goes_on = job.report(&api, "apply", json!([])).await;
    assert_eq!(goes_on.0, 200, "what runs goes on: {goes_on:?}");
    job.succeed(&api).await;

    assert_eq!(api.patch(&runner, with("A")).await.0, 200);
    let id = deploy(&api).await;
    let code = launch(&api, &id).await;
    assert_eq!(api.patch(&runner, with("a-b")).await.0, 200);
    let refused = claim(&api, &id, 1, &code, CLAIMANT).await;
    assert_eq!(refused.0, 409, "{refused:?}");
    let ended = stored(&api, &id).await;
    let named = ended.message.contains("runner_configuration.job.environment.a-b");
    assert!(ended.status == Status::Failed && named, "{ended:?}");
}
