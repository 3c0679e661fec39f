//! The stored parts of a run's reports: its last phase, the reason of a stop, and all digits of numbers.

use crate::harness::Api;
use crate::job::{Job, furnished, launch, raw, request, stored};
use canyon_domain::attempt::{Stop, StopReason};
use canyon_domain::deployment::Status;
use canyon_domain::failure::Phase;
use canyon_domain::ports::Clock as _;
use canyon_store::deployment_item::Wake;
use canyon_store::outcome::Saved;
use reqwest::Method;
use serde_json::json;

/// Stops the open attempt for `reason`, as the launcher does.
async fn stop(api: &Api, id: &str, reason: StopReason) {
    let mut deployment = stored(api, id).await;
    let asked_at = api.clock.now();
    deployment.attempts.last_mut().unwrap().stop = Some(Stop { reason, asked_at });
    deployment.version += 1;
    let saved = api.app.table.save_deployment(api.ours.uuid, &deployment, Wake::None).await;
    assert_eq!(saved.unwrap(), Saved::Yes);
}

#[tokio::test]
async fn a_failed_deployment_shows_the_phase_in_which_its_run_ended() {
    let api = furnished().await;
    for (phase, shown) in [(Some("plan"), "plan"), (Some("apply"), "apply"), (None, "fetch")] {
        let job = Job::start(&api).await;
        // Too soon after the claim to be written.
        assert_eq!(job.report(&api, "init", json!([])).await.0, 200);
        let failure = json!({ "class": "user", "message": "no" });
        let result = json!({ "status": "failure", "failure": failure, "phase": phase });
        assert_eq!(job.result(&api, result.clone()).await.0, 204);
        let deployment = api.get(&format!("/deployments/{}", job.id)).await.1;
        assert_eq!(deployment["attempts"][0]["phase"], shown, "{deployment}");
        assert_eq!(job.result(&api, result).await.0, 204, "its answer was lost");
    }
}

#[tokio::test]
async fn a_service_that_does_not_answer_is_tried_again_unless_an_apply_had_begun() {
    let api = furnished().await;
    let failure = json!({ "class": "unreachable", "message": "no such host" });
    for (phase, status) in [("init", Status::Launching), ("apply", Status::Failed)] {
        let job = Job::start(&api).await;
        let result = json!({ "status": "failure", "failure": failure, "phase": phase });
        assert_eq!(job.result(&api, result).await.0, 204);
        let deployment = stored(&api, &job.id).await;
        assert_eq!(deployment.status, status, "{deployment:?}");
        assert_eq!(deployment.attempts[0].phase >= Phase::Apply, phase == "apply");
        assert!(deployment.message.contains("no such host"), "{}", deployment.message);
        let cancel = format!("/deployments/{}/actions/cancel", job.id);
        api.act(&cancel).await;
    }
}

#[tokio::test]
async fn a_stopped_run_receives_the_reason_that_its_deployment_reports_afterwards() {
    let api = furnished().await;
    for (reason, class, words) in [
        (StopReason::RunDeadline, "timeout", "`timeouts.run_seconds`"),
        (StopReason::TotalDeadline, "timeout", "`timeouts.total_seconds`"),
        (StopReason::Silence, "timeout", "silent for"),
        (StopReason::Cancel, "cancelled", "cancelled on request"),
    ] {
        let job = Job::start(&api).await;
        assert_eq!(job.report(&api, "plan", json!([])).await.1.get("stop_reason"), None);
        stop(&api, &job.id, reason).await;
        let answer = job.report(&api, "plan", json!([])).await.1;
        assert_eq!(
            (&answer["stop"], &answer["stop_reason"]["class"]),
            (&json!(true), &json!(class))
        );
        let told = answer["stop_reason"]["message"].as_str().unwrap();
        assert!(told.contains(words), "{told}");
        let failure = json!({ "class": "cancelled", "message": "stopped" });
        let result = json!({ "status": "failure", "failure": failure, "phase": "plan" });
        assert_eq!(job.result(&api, result).await.0, 204);
        let message = stored(&api, &job.id).await.message;
        assert!(message == told || reason == StopReason::Cancel, "{message}");
    }
}

/// For a state that could not be read, the number of resources is unknown.
#[tokio::test]
async fn what_a_run_does_not_know_is_not_shown_as_nothing() {
    let api = furnished().await;
    let failure = json!({ "class": "user", "message": "no" });
    let counts = json!({
        "num_resources_added": 1, "num_resources_removed": 0, "num_resources_changed": 0,
    });
    for (counts, shown) in [(Some(counts), Some(1)), (None, None)] {
        let job = Job::start(&api).await;
        let result =
            json!({ "status": "failure", "failure": failure, "tf_resource_counts": counts });
        assert_eq!(job.result(&api, result).await.0, 204);
        let metrics = api.get(&format!("/deployments/{}", job.id)).await.1["metrics"].clone();
        assert_eq!(metrics["num_tf_resources_added"].as_u64(), shown, "{metrics}");
        assert_eq!(metrics.get("num_tf_resources"), None, "{metrics}");
    }
}

#[tokio::test]
async fn numbers_keep_every_digit_from_the_request_to_the_runner_and_back() {
    const NUMBERS: &str = "[9007199254740993,18446744073709551617,1e400,\
                           0.1000000000000000055511151231257827021181583404541015625]";
    let api = furnished().await;
    // Compared as text, because a `Value` would lose digits.
    let send = async |token: &str, path: &str, body: String| {
        let request = request(&api, token, Method::POST, path);
        raw(request.header("content-type", "application/json").body(body)).await
    };
    let body = format!(
        r#"{{"project_id": "shop", "env_id": "main", "mode": "deploy", "module":
            {{"source": "inline", "source_code": "", "inputs": {{"n": {NUMBERS}}}}}}}"#
    );
    let made = send(&api.ours.admin, "/deployments", body).await;
    assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
    let made: serde_json::Value = serde_json::from_slice(&made.body).unwrap();
    let id = made["id"].as_str().unwrap();
    let code = launch(&api, id).await;
    let claim_path = format!("/deployments/{id}/attempts/1/claim");
    let claimed = send(&code, &claim_path, r#"{"claimant": "claimant-of-the-test"}"#.into()).await;
    let text = String::from_utf8(claimed.body).unwrap();
    assert!(text.contains(&format!(r#""inputs":{{"n":{NUMBERS}}}"#)), "{text}");
    let token = text.split_once("\"token\":\"").unwrap().1.split_once('"').unwrap().0;
    let result = format!(
        r#"{{"status": "success", "plain_outputs": {{"n": {{"sensitive": false, "value": {NUMBERS}}}}}}}"#
    );
    let path = format!("/deployments/{id}/results");
    assert_eq!(send(token, &path, result).await.status, 204);
    let path = format!("/deployments/{id}/outputs");
    let outputs = raw(request(&api, &api.ours.viewer, Method::GET, &path)).await;
    let text = String::from_utf8(outputs.body).unwrap();
    assert!(text.contains(&format!(r#""value":{NUMBERS}"#)), "{text}");
}
