//! The published protocol of remote runners: the life of a job, refusals, and lost messages.

use crate::agent_world::{self, Key, claims, far, job};
use crate::harness::{Answer, Api, message};
use crate::job::{claim, lose, stored};
use canyon_domain::agent_job::{AgentJob, DesiredState};
use canyon_domain::failure::FailureClass;
use canyon_domain::polled_job::CLAIM_CODE;
use canyon_domain::ports::Clock as _;
use canyon_domain::runner::RunnerType;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// An API whose environment `main` deploys by the runner `far`, and the private half of that runner's key.
async fn keyed() -> (Api, Key) {
    let (api, key) = (Api::start().await, Key::new());
    api.furnish().await;
    let configuration = json!({
        "type": "kubernetes-agent", "key": key.pem(),
        "job": { "namespace": "jobs", "service_account": "canyon" },
    });
    api.make("/runners", far("far", configuration)).await;
    api.make("/runner-rules", json!({ "runner_id": "far", "project_id": "shop" })).await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    (api, key)
}

const PATH: &str = "/remote-runners/far/actions/poll-requests?wait_seconds=0";

async fn poll(api: &Api, key: &Key) -> Answer {
    api.call_as(&key.token(api, "far"), Method::POST, PATH, None).await
}

/// Changes a job as a launcher does.
async fn change(api: &Api, key: &Value, change: impl Fn(&mut AgentJob)) {
    let mut found = job(api, key).await.unwrap();
    change(&mut found);
    found.version += 1;
    api.app.table.save_agent_job(api.ours.uuid, &found, api.clock.now()).await.unwrap();
}

/// Writes what the launcher writes for such a runner. Returns the claim code and the key of the job.
async fn order(api: &Api) -> (String, Value) {
    let (code, key) = agent_world::order(api).await;
    render(api, &key).await;
    (code, key)
}

/// Writes the Kubernetes Job of an attempt for pollers.
async fn render(api: &Api, key: &Value) {
    let name = format!("canyon-{}", key["attempt"]);
    change(api, key, |job| {
        job.spec.kind = RunnerType::KubernetesAgent;
        let manifest = json!({
            "name": name, "namespace": "jobs",
            "job": { "kind": "Job", "env": [{ "name": "CANYON_CLAIM_CODE", "value": CLAIM_CODE }] },
        });
        job.manifest = Some(Ok(serde_json::from_value(manifest).unwrap()));
    })
    .await;
}

/// Reports with the token of a message that the job failed.
async fn says_failure(api: &Api, message: &Value, key: &Value) -> u16 {
    let id = key["deployment"].as_str().unwrap();
    let token = message["deployment_token"].as_str().unwrap();
    let body =
        json!({ "status": "failure", "error": { "error": "lost", "message": "no such Job" } });
    results(api, token, id, &body).await.0
}

/// The launcher requests a step for the job. Returns the message that the poller receives.
async fn looked_for(api: &Api, key: &Key, job_key: &Value) -> Value {
    let now = api.clock.now();
    change(api, job_key, |job| assert!(job.request_check(now))).await;
    let (_, check) = poll(api, key).await;
    assert_eq!(check["action"], "check-job-status", "{check}");
    check
}

async fn results(api: &Api, token: &str, id: &str, body: &Value) -> Answer {
    let path = format!("/deployments/{id}/results");
    api.call_as(token, Method::POST, &path, Some(body)).await
}

#[tokio::test]
async fn a_job_is_created_run_and_cleared_away() {
    let (api, key) = keyed().await;
    assert_eq!(poll(&api, &key).await.0, 204);
    let (_, agent) = api.get("/agents/far").await;
    assert_eq!((&agent["state"], &agent["availability"]), (&json!("adopted"), &json!("idle")));
    assert_eq!(agent["fingerprint"], key.fingerprint());

    let (code, job_key) = order(&api).await;
    let (status, create) = poll(&api, &key).await;
    assert_eq!((status, &create["action"]), (200, &json!("create-job")), "{create}");
    assert_eq!((&create["job_id"], &create["namespace"]), (&json!("canyon-1"), &json!("jobs")));
    assert_eq!(create["configuration"]["env"][0]["value"], code);
    assert_eq!(poll(&api, &key).await.0, 204, "it is handed out once");

    // The runner in the job sends its own reports.
    let id = job_key["deployment"].as_str().unwrap();
    let (status, claimed) = claim(&api, id, 1, &code, "claimant-of-the-test").await;
    assert_eq!(status, 200);
    let token = claimed["token"].as_str().unwrap();
    assert_eq!(results(&api, token, id, &json!({ "status": "success" })).await.0, 204);
    assert_eq!(stored(&api, id).await.status.as_str(), "succeeded");
    assert_eq!(says_failure(&api, &create, &job_key).await, 204, "it comes late");
    assert_eq!(stored(&api, id).await.status.as_str(), "succeeded", "and changes nothing");

    change(&api, &job_key, |job| assert!(job.raise_desired_state(DesiredState::Forget))).await;
    let (_, cancel) = poll(&api, &key).await;
    assert_eq!((&cancel["action"], &cancel["job_id"]), (&json!("cancel-job"), &json!("canyon-1")));
    assert!(job(&api, &job_key).await.is_none());
    assert_eq!(poll(&api, &key).await.0, 204);
    assert_eq!(says_failure(&api, &create, &job_key).await, 409);
}

#[tokio::test]
async fn the_last_word_about_a_job_that_did_not_succeed_is_no_proof_that_it_is_gone() {
    let (api, key) = keyed().await;
    let (code, job_key) = order(&api).await;
    let (_, create) = poll(&api, &key).await;
    let id = job_key["deployment"].as_str().unwrap();
    let (_, claimed) = claim(&api, id, 1, &code, "claimant-of-the-test").await;
    let token = claimed["token"].as_str().unwrap();
    let failed = json!({ "status": "failure" });
    assert_eq!(results(&api, token, id, &failed).await.0, 204);
    change(&api, &job_key, |job| assert!(job.raise_desired_state(DesiredState::Forget))).await;
    assert_eq!(poll(&api, &key).await.1["action"], "cancel-job");
    assert_eq!(poll(&api, &key).await.0, 204, "it is said once");
    let left = job(&api, &job_key).await.unwrap();
    assert!(left.reported.is_none(), "its pod may live: {:?}", left.reported);
    assert_eq!(says_failure(&api, &create, &job_key).await, 204);
    assert_eq!(job(&api, &job_key).await.unwrap(), left, "it may end still");

    // A later run finds its lock, long after its end.
    api.clock.advance(Duration::from_mins(4));
    let now = api.clock.now();
    let check = looked_for(&api, &key, &job_key).await;
    let expires = check["expires_at"].as_str().unwrap().parse().unwrap();
    assert!(
        now <= expires && expires <= api.clock.now(),
        "no start of its pod is awaited: {expires}"
    );
    assert!(job(&api, &job_key).await.is_some(), "no report says that it is gone");
    assert_eq!(says_failure(&api, &check, &job_key).await, 204);
    assert!(job(&api, &job_key).await.is_none(), "what has no record counts as gone");
    assert_eq!(poll(&api, &key).await.0, 204);
}

#[tokio::test]
async fn that_a_job_is_not_there_proves_nothing_while_its_cancelled_pod_may_run() {
    let (api, key) = keyed().await;
    let (code, job_key) = order(&api).await;
    poll(&api, &key).await;
    let id = job_key["deployment"].as_str().unwrap();
    assert_eq!(claim(&api, id, 1, &code, "claimant-of-the-test").await.0, 200);
    api.clock.advance(Duration::from_secs(31));
    let check = looked_for(&api, &key, &job_key).await;
    // Before one replica has checked the Job, another one deletes it.
    change(&api, &job_key, |job| assert!(job.raise_desired_state(DesiredState::Stop))).await;
    assert_eq!(poll(&api, &key).await.1["action"], "cancel-job");
    assert_eq!(says_failure(&api, &check, &job_key).await, 204, "it need not come again");
    assert!(job(&api, &job_key).await.unwrap().reported.is_none());
    assert!(!stored(&api, id).await.open_attempt().unwrap().suspected);

    api.clock.advance(Duration::from_mins(4));
    let check = looked_for(&api, &key, &job_key).await;
    assert_eq!(says_failure(&api, &check, &job_key).await, 204);
    let seen = format!("{:?}", job(&api, &job_key).await.unwrap().reported);
    assert!(seen.contains("Gone"), "{seen}");
    assert!(stored(&api, id).await.open_attempt().unwrap().suspected, "the launcher looks");
}

#[tokio::test]
async fn a_late_word_about_an_attempt_that_was_lost_changes_nothing_of_the_next() {
    let (api, key) = keyed().await;
    let (code, first) = order(&api).await;
    let old = poll(&api, &key).await.1;
    let id = first["deployment"].as_str().unwrap();
    let (_, claimed) = claim(&api, id, 1, &code, "claimant-of-the-test").await;
    lose(&api, id).await;
    let (_, second) = agent_world::order_next(&api, id).await;
    render(&api, &second).await;
    let new = poll(&api, &key).await.1;
    assert_eq!((&new["action"], &new["job_id"]), (&json!("create-job"), &json!("canyon-2")));
    let state = async || (job(&api, &second).await.unwrap(), stored(&api, id).await);
    let before = state().await;
    // The record of its job exists until the job is removed.
    for _ in 0..2 {
        assert_eq!(says_failure(&api, &old, &first).await, 204, "no repetition is needed");
        assert_eq!(state().await, before);
    }
    change(&api, &first, |job| assert!(job.raise_desired_state(DesiredState::Forget))).await;
    let cancel = poll(&api, &key).await.1;
    assert_eq!((&cancel["action"], &cancel["job_id"]), (&json!("cancel-job"), &json!("canyon-1")));
    assert!(job(&api, &first).await.is_none());
    for token in [&old["deployment_token"], &claimed["token"]] {
        let failed = json!({ "status": "failure" });
        let late = results(&api, token.as_str().unwrap(), id, &failed).await;
        assert!(late.0 == 409 && message(&late).contains("is over or was superseded"), "{late:?}");
        assert_eq!(state().await, before);
    }
    assert_eq!(says_failure(&api, &new, &second).await, 204);
    let (job, deployment) = state().await;
    assert!(
        job.reported.is_some() && deployment.open_attempt().unwrap().suspected,
        "its own counts"
    );
}

#[tokio::test]
async fn a_job_whose_creation_was_lost_is_looked_for_and_believed_to_be_missing() {
    let (api, key) = keyed().await;
    let (code, job_key) = order(&api).await;
    // The network loses this answer.
    assert_eq!(poll(&api, &key).await.1["action"], "create-job");
    api.clock.advance(Duration::from_secs(31));
    let check = looked_for(&api, &key, &job_key).await;
    assert_eq!(check["job_id"], "canyon-1");
    let id = job_key["deployment"].as_str().unwrap();
    let attempt = stored(&api, id).await.open_attempt().unwrap().clone();
    let expires = attempt.launched_at + attempt.limits.start();
    assert_eq!(check["expires_at"], json!(expires), "until then it may still start");
    assert_eq!(poll(&api, &key).await.0, 204, "it is asked once");

    assert_eq!(says_failure(&api, &check, &job_key).await, 204);
    assert_eq!(says_failure(&api, &check, &job_key).await, 204, "its answer may have been lost");
    let seen = job(&api, &job_key).await.unwrap().reported.unwrap();
    let said = format!("{seen:?}");
    assert!(said.contains("Gone") && said.contains("no such Job"), "{said}");
    let deployment = stored(&api, id).await;
    assert!(deployment.open_attempt().unwrap().suspected, "the launcher looks at once");
    assert_eq!(
        claim(&api, id, 1, &code, "claimant-of-the-test").await.0,
        200,
        "until it has, it may"
    );
}

#[tokio::test]
async fn a_job_that_ran_and_has_no_pod_any_more_is_stuck_at_once() {
    let (api, key) = keyed().await;
    let (code, job_key) = order(&api).await;
    poll(&api, &key).await;
    let id = job_key["deployment"].as_str().unwrap();
    assert_eq!(claim(&api, id, 1, &code, "claimant-of-the-test").await.0, 200);
    api.clock.advance(Duration::from_secs(90));
    let now = api.clock.now();
    let check = looked_for(&api, &key, &job_key).await;
    let expires = check["expires_at"].as_str().unwrap().parse().unwrap();
    assert!(now <= expires && expires <= api.clock.now(), "{expires}");
}

#[tokio::test]
async fn a_cancel_reaches_a_waiting_poller_before_anything_else() {
    let (api, key) = keyed().await;
    let (_, job_key) = order(&api).await;
    poll(&api, &key).await;
    let path = PATH.replace("=0", "=20");
    let (token, since) = (key.token(&api, "far"), Instant::now());
    let (answer, ()) = tokio::join!(api.call_as(&token, Method::POST, &path, None), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        change(&api, &job_key, |job| assert!(job.raise_desired_state(DesiredState::Stop))).await;
    });
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    assert_eq!(answer.1["action"], "cancel-job", "{}", answer.1);
    assert_eq!(poll(&api, &key).await.0, 204);
    change(&api, &job_key, |job| assert!(job.raise_desired_state(DesiredState::Kill))).await;
    assert_eq!(poll(&api, &key).await.1["action"], "cancel-job", "the first may have been lost");
}

#[tokio::test]
async fn of_many_concurrent_polls_one_receives_the_job() {
    let (api, key) = keyed().await;
    poll(&api, &key).await;
    let (_, job_key) = order(&api).await;
    let (a, b, c, d) =
        tokio::join!(poll(&api, &key), poll(&api, &key), poll(&api, &key), poll(&api, &key));
    let mut statuses = [a.0, b.0, c.0, d.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 204, 204, 204]);
    assert_eq!(poll(&api, &key).await.0, 204);
    assert!(job(&api, &job_key).await.unwrap().polled.is_some());
}

#[tokio::test]
async fn a_job_that_cannot_be_rendered_ends_saying_why() {
    let (api, key) = keyed().await;
    let (_, job_key) = order(&api).await;
    change(&api, &job_key, |job| job.manifest = Some(Err("no runner image is known".to_owned())))
        .await;
    assert_eq!(poll(&api, &key).await.0, 204);
    let seen = format!("{:?}", job(&api, &job_key).await.unwrap().reported.unwrap());
    assert!(seen.contains("no runner image is known") && seen.contains("Config"), "{seen}");
}

#[tokio::test]
async fn a_caller_without_a_valid_token_gets_only_the_reason() {
    let (api, key) = keyed().await;
    let (good, header) = (claims(&api, "far"), key.header());
    let changed = |base: &Value, name: &str, value: Value| {
        let mut changed = base.clone();
        changed[name] = value;
        changed
    };
    let now = api.clock.now().as_second();
    let old = changed(&changed(&good, "iat", json!(now - 600)), "exp", json!(now - 540));
    let mut lacking = good.clone();
    lacking.as_object_mut().unwrap().remove("exp");
    let forged = Key::new();
    let cases = [
        (forged.signed(&forged.header(), &good), "not signed by the `key` of runner `far`"),
        (forged.signed(&header, &good), "not signed by the `key` of runner `far`"),
        (key.signed(&header, &old), "good for at most 60 s"),
        (key.signed(&header, &changed(&good, "exp", json!(now + 3600))), "good for at most 60 s"),
        (
            key.signed(&header, &changed(&good, "aud", json!("canyon:their-org"))),
            "`aud` must be `canyon:our-org`",
        ),
        (key.signed(&header, &changed(&good, "sub", json!("near"))), "`sub` must be `far`"),
        (key.signed(&header, &lacking), "missing field `exp`"),
        (key.signed(&changed(&header, "alg", json!("none")), &good), "`alg`: `EdDSA`"),
        (key.signed(&changed(&header, "alg", json!("HS256")), &good), "`alg`: `EdDSA`"),
        (key.signed(&changed(&header, "jwk", json!({})), &good), "and nothing else"),
        (api.ours.admin.clone(), "`alg`: `EdDSA`"),
    ];
    for (token, reason) in cases {
        let answer = api.call_as(&token, Method::POST, PATH, None).await;
        assert_eq!(answer.0, 401, "{reason}: {}", answer.1);
        assert!(message(&answer).contains(reason), "{reason}: {}", answer.1);
    }
    for path in [PATH.replace("far", "no-such-runner"), PATH.replace("far", "near")] {
        let answer = api.call_as(&key.token(&api, "far"), Method::POST, &path, None).await;
        assert!(answer.0 == 401 && message(&answer).contains("if there is one"), "{}", answer.1);
    }
    assert_eq!(api.get("/agents/far").await.0, 404, "none of them was met");
    let long = PATH.replace("=0", "=26");
    assert_eq!(api.call_as(&key.token(&api, "far"), Method::POST, &long, None).await.0, 400);
}

#[tokio::test]
async fn the_watcher_of_a_job_may_report_only_that_it_failed() {
    let (api, key) = keyed().await;
    let (_, job_key) = order(&api).await;
    let create = poll(&api, &key).await.1;
    let id = job_key["deployment"].as_str().unwrap();
    let token = create["deployment_token"].as_str().unwrap();
    let success = results(&api, token, id, &json!({ "status": "success" })).await;
    assert_eq!(success.0, 400, "{}", success.1);
    for path in ["/deployments", "/agents", &format!("/deployments/{id}/bundle")] {
        assert_eq!(api.call_as(token, Method::GET, path, None).await.0, 401, "{path}");
    }
    let other = elsewhere(&api).await;
    let foreign = results(&api, token, &other, &json!({ "status": "failure" })).await;
    assert_eq!(foreign.0, 404, "{}", foreign.1);
    let forged = format!("{}AAAA", &token[..token.len() - 4]);
    assert_eq!(results(&api, &forged, id, &json!({ "status": "failure" })).await.0, 401);
    let seen = || async { job(&api, &job_key).await.unwrap().reported };
    assert_eq!(seen().await, None);
    let class = json!({ "class": "oom", "message": "killed" });
    let body = json!({ "status": "failure", "failure": class });
    assert_eq!(results(&api, token, id, &body).await.0, 204);
    assert!(format!("{:?}", seen().await).contains(&format!("{:?}", FailureClass::Oom)));
}

/// Another deployment.
async fn elsewhere(api: &Api) -> String {
    api.make("/projects/shop/envs", json!({ "id": "other", "env_type_id": "dev" })).await;
    let mut body = crate::job::order();
    body["env_id"] = json!("other");
    api.make("/deployments", body).await["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_agent_and_a_poller_do_not_take_each_others_name() {
    let (api, key) = keyed().await;
    let mut body = agent_world::opening("a");
    body["public_key"] = json!(key.pem());
    body["serves"] = json!(["kubernetes-agent"]);
    let agent = async || {
        let token = key.token(&api, "far");
        agent_world::say(&api, &token, "far/sessions", body.clone()).await
    };
    assert_eq!(agent().await.0, 201);
    let refused = poll(&api, &key).await;
    assert!(refused.0 == 409 && message(&refused).contains("canyon-agent"), "{}", refused.1);
    api.clock.advance(Duration::from_secs(61));
    assert_eq!(poll(&api, &key).await.0, 204, "that one has gone");
    assert_eq!(api.get("/agents/far").await.1["session"]["number"], 2);
    assert_eq!(poll(&api, &key).await.0, 204);
    assert_eq!(api.get("/agents/far").await.1["session"]["number"], 2, "one session for all");

    api.act("/agents/far/actions/reject").await;
    let refused = poll(&api, &key).await;
    assert_eq!((refused.0, &refused.1["details"]["code"]), (403, &json!("rejected")));
}
