//! Requests of unknown agents: they learn nothing, and an organization may refuse them.

use crate::agent_world::{Key, far, far_away, open, opening, say, token, view};
use crate::harness::{Api, faults};
use canyon_domain::agent::Adoption;
use canyon_domain::ids::OrgUuid;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// An answer as an unknown agent sees it: status, headers without the time and the request's id, and body. The names
/// that the agent itself chose are replaced.
#[derive(Debug, PartialEq, Eq)]
struct Seen(u16, BTreeMap<String, String>, String);

/// An agent's path in an organization, and what exists there.
struct Target {
    org: &'static str,
    agent: &'static str,
    what: &'static str,
}

/// The request of an unknown agent.
struct Asked {
    what: &'static str,
    method: Method,
    path: &'static str,
    token: fn(&Key, &Target, i64) -> String,
    body: Option<fn(&Key) -> String>,
}

fn good(key: &Key, target: &Target, now: i64) -> String {
    signed(key, target.agent, target.org, now)
}

fn signed(key: &Key, agent: &str, org: &str, iat: i64) -> String {
    let jti = uuid::Uuid::new_v4();
    let aud = format!("canyon:{org}");
    let claims = json!({ "sub": agent, "aud": aud, "iat": iat, "exp": iat + 60, "jti": jti });
    key.signed(&key.header(), &claims)
}

fn shows(key: &Key, change: impl Fn(&mut Value)) -> String {
    let mut body = opening("a");
    body["public_key"] = json!(key.pem());
    change(&mut body);
    body.to_string()
}

/// All requests of an agent, valid and malformed.
fn requests() -> Vec<Asked> {
    let opens = |what, token, body| {
        let (method, path) = (Method::POST, "sessions");
        Asked { what, method, path, token, body: Some(body) }
    };
    let posts = |what, path, token, body| {
        let method = Method::POST;
        Asked { what, method, path, token, body: Some(body) }
    };
    vec![
        opens("a good opening", good, |key| shows(key, |_| ())),
        opens("the same opening again", good, |key| shows(key, |_| ())),
        opens("another process", good, |key| shows(key, |body| body["instance"] = json!("b"))),
        opens("one that stands by", good, |key| shows(key, |body| body["standby"] = json!(true))),
        opens("of no runner", good, |key| shows(key, |body| body["runner"] = Value::Null)),
        opens("reserved", good, |key| shows(key, |body| body["reserved"] = json!(true))),
        opens("without its key", good, |_| opening("a").to_string()),
        opens("with another key", good, |_| shows(&Key::new(), |_| ())),
        opens("no key at all", good, |key| shows(key, |body| body["public_key"] = json!("x"))),
        opens("no protocol", good, |key| shows(key, |body| body["protocol"] = json!(0))),
        opens("no work", good, |key| shows(key, |body| body["concurrency"] = json!(0))),
        opens("half of it", good, |_| "{".to_owned()),
        opens(
            "of another name",
            |key, of, now| signed(key, "zurich", of.org, now),
            |key| shows(key, |_| ()),
        ),
        opens(
            "of another organization",
            |key, of, now| signed(key, of.agent, "x-org", now),
            |key| shows(key, |_| ()),
        ),
        opens(
            "too late",
            |key, of, now| signed(key, of.agent, of.org, now - 900),
            |key| shows(key, |_| ()),
        ),
        opens("no signature", |_, _, _| "e30.e30.e30".to_owned(), |key| shows(key, |_| ())),
        posts("a poll", "sessions/0/poll", good, |_| {
            r#"{"running":0,"wait_seconds":0}"#.to_owned()
        }),
        posts(
            "a late poll",
            "sessions/1/poll",
            |key, of, now| signed(key, of.agent, of.org, now - 900),
            |_| r#"{"running":0,"wait_seconds":0}"#.to_owned(),
        ),
        posts("too long a poll", "sessions/1/poll", good, |_| {
            r#"{"running":0,"wait_seconds":999}"#.to_owned()
        }),
        posts("half a poll", "sessions/1/poll", good, |_| "{".to_owned()),
        posts("no session", "sessions/x/poll", good, |_| "{}".to_owned()),
        posts("a take", "sessions/1/take", good, |_| r#"{"jobs":[]}"#.to_owned()),
        posts("reports", "sessions/1/reports", good, |_| r#"{"reports":[]}"#.to_owned()),
        Asked {
            what: "an end",
            method: Method::DELETE,
            path: "sessions/1",
            token: good,
            body: None,
        },
    ]
}

async fn answer(api: &Api, key: &Key, target: &Target, asked: &Asked, now: i64) -> Seen {
    let Target { org, agent, .. } = target;
    let url = format!("{}/orgs/{org}/agents/{agent}/{}", api.url, asked.path);
    let token = (asked.token)(key, target, now);
    let mut request = api.http.request(asked.method.clone(), url).bearer_auth(token);
    if let Some(body) = asked.body {
        request = request.header("content-type", "application/json").body(body(key));
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let headers = answer.headers().iter();
    let headers = headers.filter(|(name, _)| !["date", "x-request-id"].contains(&name.as_str()));
    let mut headers: BTreeMap<_, _> = headers
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    headers.remove("content-length");
    let text = answer.text().await.unwrap();
    let mut body: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    if let Some(members) = body.as_object_mut() {
        members.remove("request_id");
    }
    let body = body.to_string().replace(org, "ORG").replace(&format!("`{agent}`"), "`AGENT`");
    Seen(status, headers, body)
}

async fn refuse(api: &Api, token: &str, org: &str) {
    let body = json!({ "agent_requests": "refused" }).to_string().into_bytes();
    let path = format!("/orgs/{org}");
    let (status, answer) = api.send(Method::PATCH, &path, Some(token), Some(body)).await;
    assert_eq!((status, &answer["agent_requests"]), (200, &json!("refused")), "{answer}");
}

/// Starts a session under this name with a new key.
async fn ask(api: &Api, key: &Key, name: &str) -> (u16, Value) {
    let mut body = opening("a");
    body["public_key"] = json!(key.pem());
    say(api, &key.token(api, name), &format!("{name}/sessions"), body).await
}

async fn pending(api: &Api) -> Vec<Value> {
    let page = api.get("/agents?state=pending&per_page=100").await.1;
    page["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_unknown_agent_gets_the_same_answers_whether_the_organization_exists_or_not() {
    let api = far_away().await;
    let own = Key::new();
    // Agents of the organization, with each kind of proof.
    assert_eq!(ask(&api, &own, "adopted").await.0, 202);
    assert_eq!(api.act("/agents/adopted/actions/adopt").await.0, 200);
    assert_eq!(ask(&api, &own, "pending").await.0, 202);
    assert_eq!(ask(&api, &own, "rejected").await.0, 202);
    assert_eq!(api.act("/agents/rejected/actions/reject").await.0, 200);
    let by_token = token(&api, json!({})).await;
    open(&api, &by_token, "tokened", "a").await;
    let former = Key::new();
    let runner = |key: &Key| far("keyed", json!({ "key": key.pem() }));
    api.make("/runners", runner(&former)).await;
    let mut body = opening("a");
    (body["runner"], body["public_key"]) = (json!("keyed"), json!(former.pem()));
    let keyed = say(&api, &former.token(&api, "keyed"), "keyed/sessions", body).await;
    assert_eq!(keyed.0, 201, "{}", keyed.1);
    let configuration = json!({ "type": "docker-agent", "key": Key::new().pem() });
    api.patch("/runners/keyed", json!({ "runner_configuration": configuration })).await;
    api.clock.advance(Duration::from_secs(6));
    refuse(&api, &api.theirs.admin, "their-org").await;

    let target = |org, agent, what| Target { org, agent, what };
    let targets = [
        target("our-org", "unheard-of", "an agent that may wait"),
        target("our-org", "adopted", "the name of an adopted agent"),
        target("our-org", "pending", "the name of an agent that waits"),
        target("our-org", "rejected", "the name of a rejected agent"),
        target("our-org", "tokened", "the name of an agent with a token"),
        target("our-org", "keyed", "the name of an agent whose key was replaced"),
        target("their-org", "unheard-of", "an organization that refuses requests"),
    ];
    let nowhere = target("no-org", "unheard-of", "no organization");
    let stranger = Key::new();
    let before = api.get("/agents").await.1;
    let mut statuses = BTreeMap::<u16, u32>::new();
    for asked in requests() {
        let now = jiff::Timestamp::as_second(api.app.now());
        let wanted = answer(&api, &stranger, &nowhere, &asked, now).await;
        *statuses.entry(wanted.0).or_default() += 1;
        for target in &targets {
            let seen = answer(&api, &stranger, target, &asked, now).await;
            assert_eq!(seen, wanted, "{}: {}", asked.what, target.what);
        }
    }
    assert_eq!(statuses.keys().copied().collect::<Vec<_>>(), [202, 400, 401, 404], "{statuses:?}");
    let after = api.get("/agents").await.1;
    let of = |page: &Value, name: &str| {
        page["items"].as_array().unwrap().iter().find(|agent| agent["id"] == name).cloned()
    };
    for name in ["adopted", "pending", "rejected", "tokened", "keyed"] {
        assert_eq!(of(&after, name), of(&before, name), "{name}");
    }
    assert_eq!(of(&after, "unheard-of").unwrap()["fingerprint"], stranger.fingerprint());
}

#[tokio::test]
async fn the_answers_to_a_flood_do_not_show_whether_the_organization_exists() {
    let api = far_away().await;
    let target = |org| Target { org, agent: "unheard-of", what: "" };
    let opens = &requests()[0];
    for _ in 0..40 {
        let (now, key) = (api.app.now().as_second(), Key::new());
        let ours = answer(&api, &key, &target("our-org"), opens, now).await;
        assert_eq!(ours, answer(&api, &key, &target("no-org"), opens, now).await);
    }
}

#[tokio::test]
async fn an_organization_that_refuses_requests_keeps_no_record_of_unknown_agents() {
    let api = far_away().await;
    refuse(&api, &api.ours.admin, "our-org").await;
    let before = api.audit().await;
    assert_eq!(before[0], "organization.update organizations/our-org");
    for number in 0..30 {
        assert_eq!(ask(&api, &Key::new(), &format!("stranger-{number}")).await.0, 202);
    }
    assert_eq!(api.get("/agents").await.1["items"], json!([]));
    assert_eq!(api.audit().await, before);
    assert_eq!(api.act("/agents/stranger-1/actions/adopt").await.0, 404);

    let body = json!({ "agent_requests": "allowed" });
    let allowed = api.patch("", body.clone()).await;
    assert_eq!((allowed.0, &allowed.1["agent_requests"]), (200, &json!("allowed")));
    assert_eq!(ask(&api, &Key::new(), "stranger-1").await.0, 202);
    assert_eq!(pending(&api).await.len(), 1);
    let records = api.get("/audit-records?per_page=100").await.1;
    let details = records["items"].as_array().unwrap().iter().map(|record| &record["details"]);
    let details: Vec<_> = details.filter(|details| details.is_array()).collect();
    let told = [json!(["agent_requests: allowed"]), json!(["agent_requests: refused"])];
    assert_eq!(details, told.iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn an_organization_that_refuses_requests_takes_agents_that_a_token_or_a_runners_key_vouches_for()
 {
    let api = far_away().await;
    let adopted = Key::new();
    ask(&api, &adopted, "adopted").await;
    api.act("/agents/adopted/actions/adopt").await;
    refuse(&api, &api.ours.admin, "our-org").await;
    assert_eq!(ask(&api, &adopted, "adopted").await.0, 201, "it was adopted before");
    let by_token = token(&api, json!({})).await;
    assert_eq!(open(&api, &by_token, "by-token", "a").await, 1);
    let key = Key::new();
    api.make("/runners", far("near", json!({ "key": key.pem() }))).await;
    let mut body = opening("a");
    (body["runner"], body["public_key"]) = (json!("near"), json!(key.pem()));
    let by_key = say(&api, &key.token(&api, "by-key"), "by-key/sessions", body).await;
    assert_eq!(by_key.0, 201, "{}", by_key.1);
    assert_eq!(view(&api, "by-key").await["state"], "adopted");
}

#[tokio::test]
async fn agents_that_wait_are_forgotten_when_the_organization_begins_to_refuse() {
    let api = far_away().await;
    let keys: Vec<_> = (0..5).map(|_| Key::new()).collect();
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(ask(&api, key, &format!("early-{number}")).await.0, 202);
    }
    api.act("/agents/early-0/actions/adopt").await;
    api.act("/agents/early-1/actions/reject").await;
    let org: OrgUuid = api.ours.uuid;
    let id = "early-2".parse().unwrap();
    let late = api.app.table.agent(org, &id).await.unwrap().unwrap();
    refuse(&api, &api.ours.admin, "our-org").await;
    assert_eq!(pending(&api).await, [] as [Value; 0]);
    let states = api.get("/agents").await.1;
    let states = states["items"].as_array().unwrap().iter();
    let states: Vec<_> = states.map(|agent| agent["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["adopted", "rejected"], "what an administrator has said stays");

    // An agent that asked at the moment of the change, and was written after it.
    assert_eq!(late.adoption, Adoption::Pending);
    api.app.table.create_agent(org, &late, None).await.unwrap();
    assert_eq!(pending(&api).await.len(), 1);
    assert_eq!(ask(&api, &keys[2], "early-2").await.0, 202);
    assert_eq!(pending(&api).await, [] as [Value; 0], "it is forgotten when it asks again");
}

#[tokio::test]
async fn an_administrator_alone_changes_whether_agents_may_ask_and_to_a_known_word() {
    let api = far_away().await;
    let body = json!({ "agent_requests": "refused" });
    for role in [&api.ours.viewer, &api.ours.deployer] {
        assert_eq!(api.call_as(role, Method::PATCH, "", Some(&body)).await.0, 403);
    }
    assert_eq!(api.call_as(&api.theirs.admin, Method::PATCH, "", Some(&body)).await.0, 404);
    assert_eq!(api.get("").await.1["agent_requests"], "allowed", "the default");
    let wrong = api.patch("", json!({ "agent_requests": "never" })).await;
    assert_eq!((wrong.0, faults(&wrong)), (400, vec!["agent_requests"]), "{}", wrong.1);
    assert_eq!(api.patch("", json!({ "id": "another" })).await.0, 400);
    let before = api.audit().await;
    assert_eq!(api.patch("", json!({})).await.0, 200);
    assert_eq!(api.patch("", json!({ "agent_requests": "allowed" })).await.0, 200);
    assert_eq!(api.audit().await, before, "nothing has changed");
}
