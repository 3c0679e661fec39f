//! The requests of runners, with the claim code or the token of their attempt.

use crate::harness::{Api, faults};
use crate::job::{
    CODE, Job, deploy, environment, furnished, launch, lose, piece, raw, request, stored,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_api::sealed_log::encode_frame;
use canyon_domain::deployment::Status;
use reqwest::Method;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use std::io::Read as _;
use std::time::{Duration, Instant};

/// `secret` with its last random bytes changed.
pub(crate) fn forged(secret: &str) -> String {
    let (start, end) = secret.split_at(secret.len() - 4);
    format!("{start}{}", if end == "AAAA" { "BBBB" } else { "AAAA" })
}

/// The log from `offset` on: its bytes, the next offset, and whether the log has ended.
async fn log(api: &Api, id: &str, offset: u64, wait: u32) -> (Vec<u8>, String, bool) {
    let path = format!("/deployments/{id}/logs?offset={offset}&wait_seconds={wait}");
    let answer = raw(request(api, &api.ours.viewer, Method::GET, &path)).await;
    assert_eq!(answer.status, 200);
    let header = |name: &str| answer.headers[name].to_str().unwrap().to_owned();
    let (next, complete) = (header("canyon-next-offset"), header("canyon-log-complete"));
    (answer.body, next, complete == "true")
}

#[tokio::test]
async fn a_result_counts_even_if_its_state_report_cannot_be_stored() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    let state = json!({ "lineage": "", "serial": 1, "resources": 1, "addresses": [] });
    let outputs = json!({ "x": { "value": 1, "sensitive": false } });
    let body = json!({ "status": "success", "plain_outputs": outputs, "state": state });
    let (status, answer) = job.result(&api, body).await;
    assert_eq!(status, 204, "{answer}");
    let after = stored(&api, &job.id).await;
    assert_eq!((after.status.to_string().as_str(), after.kept.outputs), ("succeeded", true));
    assert_eq!(after.state, None);
}

#[tokio::test]
async fn a_result_with_an_unwritten_state_is_stored_with_the_facts_of_that_state() {
    let api = furnished().await;
    let facts = json!({ "lineage": "a", "serial": 9, "resources": 5, "digest": "all five" });
    let first = json!({ "lineage": "", "serial": 0, "resources": 5, "digest": "all five" });
    let faulty = json!({ "lineage": "a".repeat(129), "serial": 9, "resources": 5 });
    let long = json!({ "lineage": "a", "serial": 9, "resources": 5, "digest": "a".repeat(129) });
    let kept = |facts: &Value| Some(serde_json::from_value(facts.clone()).unwrap());
    let known = [(kept(&facts), facts), (kept(&first), first)];
    for (kept, state) in
        known.into_iter().chain([(None, faulty), (None, long), (None, Value::Null)])
    {
        let job = Job::start(&api).await;
        let result =
            json!({ "status": "failure", "phase": "apply", "unwritten": { "state": state } });
        assert_eq!(job.result(&api, result).await.0, 204);
        let unwritten = stored(&api, &job.id).await.attempts[0].unwritten.clone().unwrap();
        assert_eq!((unwritten.by, unwritten.facts), (job.deployment(), kept), "{state}");
    }
}

#[tokio::test]
async fn a_run_that_cannot_write_its_state_yet_reports_it_and_its_result_takes_that_back() {
    let api = furnished().await;
    let facts = json!({ "lineage": "a", "serial": 9, "resources": 5, "digest": "all five" });
    for (result, stays) in [
        (json!({ "status": "failure", "phase": "apply" }), false),
        (json!({ "status": "failure", "phase": "apply", "unwritten": { "state": facts } }), true),
    ] {
        let job = Job::start(&api).await;
        let path = format!("/deployments/{}/attempts/{}/report", job.id, job.number);
        let body = json!({ "phase": "apply", "unwritten": { "state": facts } });
        let unwritten = async || stored(&api, &job.id).await.attempts[0].unwritten.clone();
        for _ in 0..2 {
            let answer = api.call_as(&job.token, Method::POST, &path, Some(&body)).await;
            assert_eq!(answer.0, 200, "{}", answer.1);
            let expected = serde_json::from_value(facts.clone()).unwrap();
            assert_eq!(unwritten().await.unwrap().facts, Some(expected));
        }
        // An earlier report that arrives late reverts nothing.
        assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
        assert!(unwritten().await.is_some());
        assert_eq!(job.result(&api, result).await.0, 204);
        assert_eq!(unwritten().await.is_some(), stays);
    }
}

#[tokio::test]
async fn a_token_of_an_attempt_gives_access_to_that_attempt_only() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    let other = deploy(&api).await;
    let report = json!({ "phase": "init" });
    let result = json!({ "status": "success" });
    let run = |id: &str| {
        [
            (Method::POST, format!("/deployments/{id}/attempts/1/report"), Some(report.clone())),
            (Method::POST, format!("/deployments/{id}/results"), Some(result.clone())),
            (Method::GET, format!("/deployments/{id}/bundle"), None),
        ]
    };
    for (method, path, body) in run(&other) {
        let answer = api.call_as(&job.token, method, &path, body.as_ref()).await;
        assert_eq!(answer.0, 404, "{path}: {answer:?}");
    }
    for token in [&api.ours.admin, &forged(&job.token)] {
        for (method, path, body) in run(&job.id) {
            let answer = api.call_as(token, method, &path, body.as_ref()).await;
            assert_eq!(answer.0, 401, "{path}: {answer:?}");
        }
    }
    for path in ["", "/deployments", "/runners", &format!("/deployments/{}", job.id)] {
        assert_eq!(api.call_as(&job.token, Method::GET, path, None).await.0, 401, "{path}");
    }
    let path = format!("/deployments/{}/bundle", job.id);
    let url = format!("{}/orgs/our-org{path}", api.url);
    let bundle = raw(api.http.get(url).header("x-deployment-token", &job.token)).await;
    assert_eq!(bundle.status, 200);
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(bundle.body.as_slice()));
    let mut text = String::new();
    tar.entries().unwrap().next().unwrap().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, CODE);
    assert_eq!(stored(&api, &other).await.status, Status::Queued);
}

#[tokio::test]
async fn the_body_of_a_token_that_is_not_good_is_not_even_parsed() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    let (report, results) = (
        format!("/deployments/{}/attempts/1/report", job.id),
        format!("/deployments/{}/results", job.id),
    );
    let no_json = "[".repeat(1024 * 1024);
    for (token, status) in [(&forged(&job.token), 401), (&job.token, 400)] {
        for path in [&report, &results] {
            let sent = request(&api, token, Method::POST, path).body(no_json.clone());
            assert_eq!(raw(sent).await.status, status, "{path}");
        }
    }
    // A claim is short, so no more than that is read.
    job.succeed(&api).await;
    let id = deploy(&api).await;
    let code = launch(&api, &id).await;
    let path = format!("/deployments/{id}/attempts/1/claim");
    let claim = request(&api, &code, Method::POST, &path);
    assert_eq!(raw(claim.body("x".repeat(5_000))).await.status, 413);
}

#[tokio::test]
async fn what_a_run_writes_is_stored_once_and_read_back_by_offset() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    for (sent, end) in [("hello ", 6), ("HELLO ", 6), ("hello wor", 9), ("hello ", 9)] {
        let (status, answer) = job.report(&api, "init", json!([piece(0, sent.as_bytes())])).await;
        assert_eq!((status, &answer["offsets"]["log"]), (200, &json!(end)), "{sent}");
    }
    let both = json!([piece(6, b"wor"), piece(9, b"ld")]);
    assert_eq!(job.report(&api, "plan", both).await.1["offsets"]["log"], 11);
    let full = json!([piece(11, &[b'x'; 129 * 1024])]);
    let faulty = [
        (json!([{ "stream": "log", "offset": 11, "data": "n o t" }]), "chunks[0].data"),
        (json!([{ "stream": "log", "offset": 11, "data": "" }]), "chunks[0].data"),
        (json!([{ "stream": "log", "offset": u64::MAX, "data": "eA==" }]), "chunks[0].offset"),
        (json!([{ "stream": "x", "offset": 11, "data": "eA==" }]), "chunks[0].stream"),
        (full, "chunks[0].data"),
    ];
    for (chunks, field) in faulty {
        let refused = job.report(&api, "plan", chunks).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec![field]));
    }
    assert_eq!(log(&api, &job.id, 0, 0).await, (b"hello world".to_vec(), "11".into(), false));
    assert_eq!(log(&api, &job.id, 8, 0).await, (b"rld".to_vec(), "11".into(), false));
    job.succeed(&api).await;
    assert_eq!(log(&api, &job.id, 11, 25).await, (Vec::new(), "11".into(), true));
}

#[tokio::test]
async fn a_reader_who_waits_is_woken_by_the_next_piece() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    let began = Instant::now();
    let (read, reported) = tokio::join!(log(&api, &job.id, 0, 25), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        job.report(&api, "init", json!([piece(0, b"news")])).await
    });
    assert_eq!((reported.0, read.0.as_slice()), (200, b"news".as_slice()));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_cancelled_run_receives_a_stop_request_and_ends_as_its_runner_reports() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    assert_eq!(job.report(&api, "plan", json!([])).await.1["stop"], false);
    let cancel = format!("/deployments/{}/actions/cancel", job.id);
    for _ in 0..2 {
        let (status, answer) = api.act(&cancel).await;
        assert_eq!((status, &answer["status"]), (202, &json!("cancelling")));
    }
    assert_eq!(job.report(&api, "plan", json!([])).await.1["stop"], true);
    let failure = json!({ "class": "cancelled", "message": "stopped" });
    let result = json!({ "status": "failure", "failure": failure });
    assert_eq!(job.result(&api, result).await.0, 204);
    assert_eq!(stored(&api, &job.id).await.status, Status::Cancelled);
    assert_eq!(api.act(&cancel).await.0, 202, "it is what was asked for");
}

#[tokio::test]
async fn a_token_dies_after_ten_minutes_of_silence() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    api.clock.advance(Duration::from_mins(9));
    assert_eq!(job.report(&api, "plan", json!([])).await.0, 200);
    api.clock.advance(Duration::from_mins(9));
    assert_eq!(job.report(&api, "plan", json!([])).await.0, 200, "each report renews it");
    api.clock.advance(Duration::from_mins(10));
    assert_eq!(job.report(&api, "plan", json!([])).await.0, 401);
    assert_eq!(job.result(&api, json!({ "status": "success" })).await.0, 401);
    assert_eq!(stored(&api, &job.id).await.status, Status::Running);
}

#[tokio::test]
async fn a_result_counts_once_and_gives_the_turn_to_the_next() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    let next = deploy(&api).await;
    assert!(stored(&api, &next).await.due_at.unwrap() > api.app.now(), "it waits");
    let counts = json!({
        "num_resources": 3, "num_resources_added": 2, "num_resources_removed": 0,
        "num_resources_changed": 1,
    });
    let result = json!({
        "status": "success",
        "tf_resource_counts": counts,
        "plain_outputs": { "x": { "sensitive": false, "value": 1 } },
        "chunks": [piece(0, b"done")],
    });
    assert_eq!(job.result(&api, result.clone()).await.0, 204);
    let path = format!("/deployments/{}", job.id);
    let (ended, audit) = (api.get(&path).await.1, api.audit().await);
    assert_eq!(ended["status"], "succeeded");
    assert_eq!(ended["metrics"]["num_tf_resources_added"], 2, "{ended}");
    let turns = environment(&api).await.queue;
    assert_eq!((turns.current, turns.head()), (None, Some(next.parse().unwrap())));
    assert!(stored(&api, &next).await.due_at.unwrap() <= api.app.now(), "its turn has come");

    assert_eq!(job.result(&api, result).await.0, 204, "the answer was lost");
    let other = json!({ "status": "failure" });
    assert_eq!(job.result(&api, other).await.0, 409);
    assert_eq!(job.report(&api, "apply", json!([piece(4, b"late")])).await.0, 409);
    assert_eq!((api.get(&path).await.1, api.audit().await), (ended, audit));
    assert_eq!(log(&api, &job.id, 0, 0).await.0, b"done");
    assert_eq!(environment(&api).await.module.applied, Some(job.deployment()));
}

#[tokio::test]
async fn the_new_part_of_a_log_in_a_result_is_stored_without_its_repeated_part() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    // The network loses its answer.
    assert_eq!(job.report(&api, "plan", json!([piece(0, b"plan, ")])).await.0, 200);
    let result = json!({ "status": "success", "chunks": [piece(0, b"plan, apply")] });
    assert_eq!(job.result(&api, result.clone()).await.0, 204);
    assert_eq!(log(&api, &job.id, 0, 0).await.0, b"plan, apply");
    assert_eq!(job.result(&api, result).await.0, 204);
    assert_eq!(log(&api, &job.id, 0, 0).await.0, b"plan, apply");
}

#[tokio::test]
async fn what_repeats_many_small_pieces_of_a_log_is_not_searched_through_and_loses_no_end() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    let text = b"one letter after the other";
    let letters = text.iter().zip(0..20).map(|(letter, at)| piece(at, &[*letter]));
    let letters: Vec<_> = letters.collect();
    assert_eq!(job.report(&api, "plan", json!(letters)).await.0, 200);
    let ships = async |from: usize| {
        let rest = json!([piece(from as u64, &text[from..])]);
        job.report(&api, "plan", rest).await.1["offsets"]["log"].as_u64().unwrap()
    };
    assert_eq!(ships(0).await, text.len() as u64, "a result is not brought again");
    assert_eq!(log(&api, &job.id, 0, 0).await.0, text);
    assert_eq!(ships(3).await, text.len() as u64);
    assert_eq!(log(&api, &job.id, 0, 0).await.0, text);
}

#[tokio::test]
async fn a_late_word_of_a_superseded_attempt_changes_nothing() {
    let api = furnished().await;
    let old = Job::start(&api).await;
    old.report(&api, "plan", json!([piece(0, b"first ")])).await;
    lose(&api, &old.id).await;
    let shown = api.get(&format!("/deployments/{}", old.id)).await.1;
    assert_eq!(shown["attempts"][0]["failure"]["class"], "spot");
    assert_eq!(shown["status"], "launching", "{shown}");
    let new = Job::of(&api, old.id.clone()).await;
    let before = stored(&api, &old.id).await;
    assert_eq!(before.open_attempt().unwrap().claim.as_ref().unwrap().streams_from, (6, 0));
    assert_eq!(old.report(&api, "apply", json!([piece(6, b"late")])).await.0, 409);
    assert_eq!(old.result(&api, json!({ "status": "success" })).await.0, 409);
    let path = format!("/deployments/{}/bundle", old.id);
    assert_eq!(api.call_as(&old.token, Method::GET, &path, None).await.0, 409);
    assert_eq!(stored(&api, &old.id).await, before);
    assert_eq!(new.report(&api, "apply", json!([piece(6, b"second")])).await.0, 200);
    assert_eq!(log(&api, &old.id, 0, 0).await.0, b"first second");
}

#[tokio::test]
async fn outputs_come_back_without_what_is_sensitive_and_orphans_are_listed() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    let path = |rest: &str| format!("/deployments/{}/{rest}", job.id);
    assert_eq!(api.get(&path("encrypted-outputs")).await.0, 404);
    let body = |encrypted: &str, value: Value| {
        json!({
            "status": "success",
            "outputs": encrypted,
            "plain_outputs": {
                "url": { "sensitive": false, "value": value, "type": "string" },
                "password": { "sensitive": true, "value": "very-secret", "type": "string" },
            },
            "orphans": [{ "address": "aws_s3_bucket.logs[0]", "id": "logs" }],
        })
    };
    let refused = job.result(&api, body("n o t", json!("wrong"))).await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["outputs"]));
    let sealed = STANDARD.encode(b"age bytes");
    assert_eq!(job.result(&api, body(&sealed, json!("https://shop"))).await.0, 204);
    let outputs = json!({
        "url": { "sensitive": false, "value": "https://shop", "type": "string" },
        "password": { "sensitive": true, "type": "string" },
    });
    assert_eq!(api.get(&path("outputs")).await, (200, outputs));
    assert_eq!(api.get(&path("encrypted-outputs")).await, (200, json!({ "raw": sealed })));
    let orphans = json!([{ "address": "aws_s3_bucket.logs[0]", "id": "logs" }]);
    assert_eq!(api.get(&path("orphans")).await, (200, orphans));
    let shown = api.get(&format!("/deployments/{}", job.id)).await.1;
    assert_eq!(shown["metrics"]["num_tf_resources_orphaned"], 1);
    assert!(!shown.to_string().contains("very-secret"));
}

#[tokio::test]
async fn an_encrypted_log_is_read_with_its_key_and_no_other() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    let identity = age::x25519::Identity::generate();
    let frame = |text: &[u8]| encode_frame(&age::encrypt(&identity.to_public(), text).unwrap());
    let stream = [frame(b"one\n"), frame(b"two\n")].concat();
    let (start, end) = stream.split_at(100);
    let chunks = json!([piece(0, start), piece(100, end)]);
    assert_eq!(job.report(&api, "plan", chunks).await.0, 200);
    let path = format!("/deployments/{}/actions/get-logs", job.id);
    let read = async |key: Option<&str>| {
        let mut request = request(&api, &api.ours.viewer, Method::GET, &path);
        if let Some(key) = key {
            request = request.header("DecryptKey", key);
        }
        let answer = raw(request).await;
        (answer.status, answer.body)
    };
    let other = age::x25519::Identity::generate().to_string();
    assert_eq!(
        read(Some(identity.to_string().expose_secret())).await,
        (200, b"one\ntwo\n".to_vec())
    );
    assert_eq!(read(None).await, (200, stream), "as it is stored");
    for key in [other.expose_secret(), "not a key"] {
        let (status, body) = read(Some(key)).await;
        let body = String::from_utf8(body).unwrap();
        assert!(status == 400 && !body.contains(key), "{status} {body}");
    }
}
