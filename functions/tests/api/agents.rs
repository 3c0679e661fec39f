//! Agents: their adoption, their sessions, and the jobs that they take.

use crate::agent_world::{
    Key, claims, code, far, far_away, job, open, opening, order, say, token, view,
};
use crate::harness::{Api, faults, message};
use crate::job::{claim, stored};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_job_is_offered_taken_reported_and_cleared_away() {
    let api = far_away().await;
    let token = token(&api, json!({ "runner_id": "far" })).await;
    let session = open(&api, &token, "berlin", "a").await;
    let path = |what: &str| format!("berlin/sessions/{session}/{what}");
    let (claim_code, key) = order(&api).await;
    let work = say(&api, &token, &path("poll"), json!({ "running": 0, "wait_seconds": 0 })).await;
    assert_eq!((work.0, &work.1["offers"]), (200, &json!([key])), "{}", work.1);

    let answer = say(&api, &token, &path("take"), json!({ "jobs": [key] })).await.1;
    let environment = &answer["taken"][0]["environment"];
    assert_eq!(environment["CANYON_CLAIM_CODE"], claim_code);
    assert_eq!(environment["CANYON_API_URL"], api.url);
    assert_eq!(answer["taken"][0]["order"]["runner_id"], "far");
    let again = say(&api, &token, &path("take"), json!({ "jobs": [key] })).await.1;
    assert_eq!(again, answer, "its answer may have been lost");

    let report = |seen: Value| json!({ "reports": [{ "job": key, "observation": seen }] });
    let alive = json!({ "state": "alive" });
    assert_eq!(say(&api, &token, &path("reports"), report(alive)).await, (200, json!({})));
    let id = key["deployment"].as_str().unwrap();
    assert_eq!(claim(&api, id, 1, &claim_code, "claimant-of-the-test").await.0, 200);
    let gone = json!({ "state": "gone", "reason": { "class": "oom", "message": "killed" } });
    say(&api, &token, &path("reports"), report(gone)).await;
    let attempt = stored(&api, id).await.open_attempt().unwrap().clone();
    assert!(attempt.suspected, "the launcher looks at once");
    let late = json!({ "state": "alive" });
    say(&api, &token, &path("reports"), report(late)).await;
    let seen = job(&api, &key).await.unwrap().reported.unwrap();
    assert!(format!("{seen:?}").contains("Gone"), "it is never taken back");

    let done = json!({ "reports": [{ "job": key, "done": "forget" }] });
    say(&api, &token, &path("reports"), done.clone()).await;
    assert!(job(&api, &key).await.is_some(), "no agent has requested that");
    let mut wanted = job(&api, &key).await.unwrap();
    wanted.raise_desired_state(canyon_domain::agent_job::DesiredState::Forget);
    wanted.version += 1;
    api.app.table.save_agent_job(api.ours.uuid, &wanted, api.app.clock.now()).await.unwrap();
    for _ in 0..2 {
        assert_eq!(say(&api, &token, &path("reports"), done.clone()).await.0, 200);
        assert!(job(&api, &key).await.is_none());
    }
}

#[tokio::test]
async fn what_is_not_offered_to_a_session_is_not_its_own() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    let berlin = open(&api, &token, "berlin", "a").await;
    let (_, key) = order(&api).await;
    let jobs = json!({ "jobs": [key] });
    let take = async |agent: &str, session: u64| {
        say(&api, &token, &format!("{agent}/sessions/{session}/take"), jobs.clone()).await
    };
    // The refusal has this reason, and the job is unchanged.
    let refused = async |agent: &str, session: u64, reason: &str| {
        let before = job(&api, &key).await;
        let answer = take(agent, session).await.1;
        assert_eq!((&answer["taken"], &answer["refused"][0]["job"]), (&json!([]), &key));
        assert!(answer["refused"][0]["reason"].as_str().unwrap().contains(reason), "{answer}");
        assert_eq!(job(&api, &key).await, before, "{agent}: {reason}");
    };
    refused("berlin", berlin, "not offered to this agent, or the offer has expired").await;
    let poll = json!({ "running": 0, "wait_seconds": 0 });
    say(&api, &token, &format!("berlin/sessions/{berlin}/poll"), poll.clone()).await;
    let boston = open(&api, &token, "boston", "b").await;
    refused("boston", boston, "not offered to this agent, or the offer has expired").await;
    api.clock.advance(Duration::from_secs(31));
    refused("berlin", berlin, "not offered to this agent, or the offer has expired").await;
    let work = say(&api, &token, &format!("boston/sessions/{boston}/poll"), poll).await.1;
    assert_eq!(work["offers"], json!([key]));
    assert_eq!(take("boston", boston).await.1["taken"].as_array().unwrap().len(), 1);
    refused("berlin", berlin, "another agent has taken the job; leave it alone").await;
    let before = job(&api, &key).await;
    let report =
        json!({ "reports": [{ "job": key, "observation": { "state": "gone", "reason": null } }] });
    let foreign = say(&api, &token, &format!("berlin/sessions/{berlin}/reports"), report).await.1;
    assert!(foreign["refused"][0]["reason"].as_str().unwrap().contains("leave it alone"));
    assert_eq!(job(&api, &key).await, before);
}

#[tokio::test]
async fn only_the_newest_session_of_an_agent_counts_and_it_continues_the_jobs() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    let first = open(&api, &token, "berlin", "a").await;
    assert_eq!(open(&api, &token, "berlin", "a").await, first, "its answer may have been lost");
    let (_, key) = order(&api).await;
    let poll = json!({ "running": 0, "wait_seconds": 0 });
    say(&api, &token, &format!("berlin/sessions/{first}/poll"), poll.clone()).await;
    let jobs = json!({ "jobs": [key] });
    say(&api, &token, &format!("berlin/sessions/{first}/take"), jobs.clone()).await;

    let mut next = opening("b");
    next["found"] = json!([key]);
    let opened = say(&api, &token, "berlin/sessions", next).await.1;
    let second = opened["session"].as_u64().unwrap();
    assert_eq!((second, &opened["held"][0]["job"]), (first + 1, &key), "{opened}");
    assert_eq!(opened["strays"], Value::Null);
    let said = say(&api, &token, &format!("berlin/sessions/{second}/poll"), poll.clone()).await;
    assert_eq!(said.0, 200, "it lives");
    for (what, body) in
        [("poll", poll.clone()), ("take", jobs.clone()), ("reports", json!({ "reports": [] }))]
    {
        let answer = say(&api, &token, &format!("berlin/sessions/{first}/{what}"), body).await;
        assert_eq!(code(&answer), (409, "session_superseded"), "{what}");
    }
    let path = format!("/agents/berlin/sessions/{first}");
    let left = api.call_as(&token, Method::DELETE, &path, None).await;
    assert_eq!(code(&left), (409, "session_superseded"));
    let report = json!({ "reports": [{ "job": key, "observation": { "state": "alive" } }] });
    let path = format!("berlin/sessions/{second}/reports");
    assert_eq!(say(&api, &token, &path, report).await, (200, json!({})));
    let path = format!("/agents/berlin/sessions/{second}");
    assert_eq!(api.call_as(&token, Method::DELETE, &path, None).await.0, 204);
    assert_eq!(view(&api, "berlin").await["availability"], "offline");
    let over = say(&api, &token, &format!("berlin/sessions/{second}/poll"), poll).await;
    assert_eq!(code(&over), (409, "session_superseded"));
}

#[tokio::test]
async fn a_key_alone_makes_an_agent_that_waits_and_an_admin_makes_it_work() {
    let api = far_away().await;
    let key = Key::new();
    let mut body = opening("a");
    body["public_key"] = json!(key.pem());
    let ask = async |body: &Value| {
        say(&api, &key.token(&api, "berlin"), "berlin/sessions", body.clone()).await
    };
    let (status, answer) = ask(&body).await;
    assert_eq!(
        (status, &answer["state"], &answer["session"]),
        (202, &json!("pending"), &Value::Null)
    );
    let seen = view(&api, "berlin").await;
    assert_eq!(
        (&seen["state"], &seen["fingerprint"]),
        (&json!("pending"), &json!(key.fingerprint()))
    );
    let poll = json!({ "running": 0, "wait_seconds": 0 });
    let early = say(&api, &key.token(&api, "berlin"), "berlin/sessions/0/poll", poll).await;
    assert_eq!(early.0, 401, "as for an unknown agent");

    let adopt = "/agents/berlin/actions/adopt";
    assert_eq!(api.call_as(&api.ours.deployer, Method::POST, adopt, None).await.0, 403);
    assert_eq!(api.act(adopt).await.1["state"], "adopted");
    assert_eq!(ask(&body).await.0, 201);
    // It keeps the kind with which it was adopted.
    let mut other = body.clone();
    other["runner"] = json!("shared");
    assert_eq!(code(&ask(&other).await), (409, "another_runner"));
    other = body.clone();
    other["labels"] = json!({ "region": "us" });
    other["run_untagged_jobs"] = json!(false);
    let warned = ask(&other).await.1;
    assert!(warned["warnings"][0].as_str().unwrap().contains("`labels` differs from"), "{warned}");
    let seen = view(&api, "berlin").await;
    assert_eq!((&seen["labels"], &seen["run_untagged_jobs"]), (&json!({}), &json!(true)));

    // It was adopted as an agent of this organization alone.
    other = body.clone();
    other["shared"] = json!(true);
    assert_eq!(code(&ask(&other).await), (409, "shared_since"));

    let thief = Key::new();
    let mut stolen = opening("t");
    stolen["public_key"] = json!(thief.pem());
    let token = thief.token(&api, "berlin");
    let before = view(&api, "berlin").await;
    let answer = say(&api, &token, "berlin/sessions", stolen).await;
    assert_eq!((answer.0, &answer.1["state"]), (202, &json!("pending")), "it learns nothing");
    assert_eq!(view(&api, "berlin").await, before);

    api.act("/agents/berlin/actions/reject").await;
    assert_eq!(code(&ask(&body).await), (403, "rejected"));
    assert_eq!(api.delete("/agents/berlin").await.0, 204);
    api.clock.advance(Duration::from_secs(2));
    assert_eq!(ask(&body).await.1["state"], "pending");
    let audit = api.audit().await;
    let told: Vec<_> =
        audit.iter().take(5).map(|record| record.split(' ').next().unwrap()).collect();
    assert_eq!(told, ["agent.ask", "agent.forget", "agent.reject", "agent.adopt", "agent.ask"]);
}

#[tokio::test]
async fn the_key_that_a_runner_names_is_adopted_at_once_even_if_another_agent_of_that_name_is_pending()
 {
    let api = Api::start().await;
    let (key, stranger) = (Key::new(), Key::new());
    api.make("/runners", far("far", json!({ "key": key.pem() }))).await;
    let mut body = opening("a");
    body["public_key"] = json!(stranger.pem());
    let first = say(&api, &stranger.token(&api, "berlin"), "berlin/sessions", body.clone()).await;
    assert_eq!(first.0, 202);
    body["public_key"] = json!(key.pem());
    let own = say(&api, &key.token(&api, "berlin"), "berlin/sessions", body.clone()).await;
    assert_eq!(own.0, 201, "{}", own.1);
    api.clock.advance(Duration::from_secs(2));
    body["runner"] = Value::Null;
    let without = say(&api, &key.token(&api, "boston"), "boston/sessions", body).await;
    assert_eq!(without.0, 202, "for that runner alone");
}

#[tokio::test]
async fn no_forged_token_of_a_key_is_taken() {
    let api = far_away().await;
    let (key, other) = (Key::new(), Key::new());
    let mut body = opening("a");
    body["public_key"] = json!(key.pem());
    say(&api, &key.token(&api, "berlin"), "berlin/sessions", body.clone()).await;
    api.act("/agents/berlin/actions/adopt").await;
    let with = |name: &str, value: Value| {
        let mut claims = claims(&api, "berlin");
        claims[name] = value;
        key.signed(&key.header(), &claims)
    };
    let now = claims(&api, "berlin")["iat"].as_i64().unwrap();
    let mut none = key.header();
    none["alg"] = json!("none");
    let mut jku = key.header();
    jku["jku"] = json!("https://acme.com/keys");
    let mut missing = claims(&api, "berlin");
    missing.as_object_mut().unwrap().remove("exp");
    let forged = [
        other.signed(&key.header(), &claims(&api, "berlin")),
        key.signed(&none, &claims(&api, "berlin")),
        key.signed(&jku, &claims(&api, "berlin")),
        key.signed(&key.header(), &missing),
        with("sub", json!("boston")),
        with("sub", json!("Berlin")),
        with("aud", json!("canyon:their-org")),
        with("aud", json!(["canyon:our-org"])),
        with("aud", json!("our-org")),
        with("exp", json!(now + 3600)),
        with("exp", json!(now + 66)),
        with("exp", json!(now - 1)),
        with("exp", json!((now + 60).to_string())),
        with("exp", json!(60.5)),
        with("exp", json!(i64::MAX)),
        with("iat", json!(now - 120)),
        with("iat", json!(now + 120)),
        with("iat", json!(i64::MIN)),
    ];
    let own = body.clone();
    body["public_key"] = Value::Null;
    for token in &forged {
        for body in [&own, &body] {
            let answer = say(&api, token, "berlin/sessions", body.clone()).await;
            assert_eq!(answer.0, 401, "{token}");
        }
        let poll = json!({ "running": 0, "wait_seconds": 0 });
        assert_eq!(say(&api, token, "berlin/sessions/1/poll", poll).await.0, 401, "{token}");
    }
    assert_eq!(say(&api, &key.token(&api, "berlin"), "berlin/sessions", body.clone()).await.0, 201);
    let slow = with("iat", json!(now - 120));
    let told = say(&api, &slow, "berlin/sessions", body.clone()).await;
    assert!(code(&told) == (401, "clock") && message(&told).contains("`Date`"), "{told:?}");
    let url = format!("{}/orgs/our-org/agents/berlin/sessions", api.url);
    let answer = api.http.post(url).bearer_auth(slow).json(&body).send().await.unwrap();
    assert!(answer.headers().contains_key("date"));
    let theirs = key.token(&api, "berlin");
    for org in ["their-org", "no-such-org"] {
        let path = format!("/orgs/{org}/agents/berlin/sessions");
        let body = own.to_string().into_bytes();
        assert_eq!(api.send(Method::POST, &path, Some(&theirs), Some(body)).await.0, 401, "{org}");
    }
}

#[tokio::test]
async fn a_token_binds_its_agents_to_a_runner_and_gives_them_labels() {
    let api = far_away().await;
    api.make("/runners", far("eu", json!({ "agents": { "labels": { "region": "eu" } } }))).await;
    let bound = token(&api, json!({ "runner_id": "far", "labels": { "region": "eu" } })).await;
    let mut body = opening("a");
    body["runner"] = json!("eu");
    assert_eq!(say(&api, &bound, "berlin/sessions", body.clone()).await.0, 403);
    body["runner"] = Value::Null;
    body["labels"] = json!({ "region": "us", "rack": "7" });
    assert_eq!(say(&api, &bound, "berlin/sessions", body.clone()).await.0, 201);
    let seen = view(&api, "berlin").await;
    assert_eq!(seen["labels"], json!({ "region": "eu" }), "the token's count, and no others");
    assert_eq!(seen["runner_id"], "far");
    let other = token(&api, json!({})).await;
    let stolen = say(&api, &other, "berlin/sessions", body).await;
    assert_eq!(code(&stolen), (409, "another_agent"));
    let misplaced = json!({ "role": "viewer", "runner_id": "far", "labels": { "a": "b" } });
    assert_eq!(faults(&api.post("/tokens", misplaced).await), ["runner_id", "labels"]);
    let (_, list) = api.get("/tokens").await;
    let listed = list["items"].as_array().unwrap().iter().find(|of| of["runner_id"] == "far");
    assert_eq!(listed.unwrap()["labels"], json!({ "region": "eu" }));
}

#[tokio::test]
async fn an_agent_that_is_rejected_while_it_waits_learns_of_it_within_5_s() {
    let api = far_away().await;
    let made = api.make("/tokens", json!({ "role": "agent" })).await;
    let (token, id) = (made["secret"].as_str().unwrap(), made["id"].as_str().unwrap());
    let waits = async |session: u64| {
        let since = Instant::now();
        let body = json!({ "running": 0, "wait_seconds": 25 });
        let answer = say(&api, token, &format!("berlin/sessions/{session}/poll"), body).await;
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
        answer
    };
    let pause = async || tokio::time::sleep(Duration::from_millis(300)).await;
    let session = open(&api, token, "berlin", "a").await;
    let (answer, ()) = tokio::join!(waits(session), async {
        pause().await;
        api.act("/agents/berlin/actions/reject").await;
    });
    assert_eq!(code(&answer), (403, "rejected"));
    api.act("/agents/berlin/actions/adopt").await;
    let (answer, ()) = tokio::join!(waits(session), async {
        pause().await;
        let next = open(&api, token, "berlin", "b").await;
        let poll = json!({ "running": 0, "wait_seconds": 0 });
        say(&api, token, &format!("berlin/sessions/{next}/poll"), poll).await;
    });
    assert_eq!(code(&answer), (409, "session_superseded"));
    let (answer, ()) = tokio::join!(waits(session + 1), async {
        pause().await;
        api.delete("/agents/berlin").await;
    });
    assert_eq!(answer.0, 404);
    let session = open(&api, token, "berlin", "c").await;
    let (answer, ()) = tokio::join!(waits(session), async {
        pause().await;
        api.delete(&format!("/tokens/{id}")).await;
    });
    assert_eq!(answer.0, 401);
}

#[tokio::test]
async fn a_disabled_agent_is_offered_nothing_and_takes_nothing() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    let session = open(&api, &token, "berlin", "a").await;
    let (_, key) = order(&api).await;
    let poll = async || {
        let body = json!({ "running": 0, "wait_seconds": 0 });
        say(&api, &token, &format!("berlin/sessions/{session}/poll"), body).await.1
    };
    assert_eq!(poll().await["offers"], json!([key]));
    api.patch("/agents/berlin", json!({ "disabled": true })).await;
    let jobs = json!({ "jobs": [key] });
    let path = format!("berlin/sessions/{session}/take");
    let refused = say(&api, &token, &path, jobs.clone()).await.1;
    assert!(refused["refused"][0]["reason"].as_str().unwrap().contains("disabled"), "{refused}");
    api.clock.advance(Duration::from_secs(31));
    assert_eq!(poll().await["offers"], Value::Null);
    api.patch("/agents/berlin", json!({ "disabled": false })).await;
    assert_eq!(poll().await["offers"], json!([key]));
}

#[tokio::test]
async fn an_agent_that_is_too_old_is_refused_and_a_wrong_one_gets_the_reason() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    let cases = [
        ("protocol", json!(0)),
        ("instance", json!("")),
        ("version", json!("x".repeat(101))),
        ("place", json!("a\nb")),
        ("serves", json!([])),
        ("concurrency", json!(0)),
        ("labels", json!({ "a b": "c" })),
        ("public_key", json!("ssh-ed25519 AAAA")),
    ];
    for (field, value) in cases {
        let mut body = opening("a");
        body[field] = value;
        let refused = say(&api, &token, "berlin/sessions", body).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec![field]));
    }
    let mut newer = opening("a");
    newer["protocol"] = json!(7);
    assert_eq!(say(&api, &token, "berlin/sessions", newer).await.1["protocol"], 1);
    let many = json!({ "jobs": vec![json!({ "runner": uuid::Uuid::nil(), "deployment": uuid::Uuid::nil(), "attempt": 1 }); 101] });
    let refused = say(&api, &token, "berlin/sessions/1/take", many).await;
    assert_eq!(faults(&refused), ["jobs"]);
}
