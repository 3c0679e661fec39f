//! Agents whose API token has ended: only another token of the same runner continues as them.

use crate::agent_world::{Key, code, far, far_away, job, open, opening, order, say, view};
use crate::foreign::Foreign;
use crate::harness::{Answer, Api};
use crate::service_accounts::{AUDIENCE, SUBJECT, signed_in};
use canyon_domain::agent_job::DesiredState;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A token of the role `agent`.
struct Token {
    id: String,
    secret: String,
}

impl Token {
    async fn new(api: &Api, more: Value) -> Self {
        let mut body = json!({ "role": "agent" });
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let made = api.make("/tokens", body).await;
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        Self { id: text("id"), secret: text("secret") }
    }

    async fn of_far(api: &Api) -> Self {
        Self::new(api, json!({ "runner_id": "far" })).await
    }

    async fn revoke(&self, api: &Api) {
        assert_eq!(api.delete(&format!("/tokens/{}", self.id)).await.0, 204);
    }

    /// Starts a session as `berlin`.
    async fn opens(&self, api: &Api, instance: &str) -> Answer {
        say(api, &self.secret, "berlin/sessions", opening(instance)).await
    }

    /// Starts the first session as `berlin` and takes a job. Returns the key of the job.
    async fn works(&self, api: &Api) -> Value {
        assert_eq!(open(api, &self.secret, "berlin", "a").await, 1);
        let (_, key) = order(api).await;
        let poll = json!({ "running": 0, "wait_seconds": 0 });
        say(api, &self.secret, "berlin/sessions/1/poll", poll).await;
        let taken = json!({ "jobs": [key] });
        let (_, answer) = say(api, &self.secret, "berlin/sessions/1/take", taken).await;
        assert_eq!(answer["taken"][0]["job"], key, "{answer}");
        key
    }

    /// Continues as `berlin` in its second session, with its job.
    async fn goes_on(&self, api: &Api, key: &Value) {
        let (status, opened) = self.opens(api, "b").await;
        assert_eq!((status, &opened["session"]), (201, &json!(2)), "{opened}");
        assert_eq!(opened["held"][0]["job"], *key, "its job stays its own");
        assert_eq!(view(api, "berlin").await["principal"], self.id);
        let report = json!({ "reports": [{ "job": key, "observation": { "state": "alive" } }] });
        let said = say(api, &self.secret, "berlin/sessions/2/reports", report).await;
        assert_eq!(said, (200, json!({})));
    }
}

/// The agent still belongs to its former token.
async fn refuses(api: &Api, token: &Token) {
    let before = view(api, "berlin").await;
    assert_eq!(code(&token.opens(api, "thief").await), (409, "another_agent"));
    assert_eq!(view(api, "berlin").await, before);
}

#[tokio::test]
async fn an_agent_whose_token_was_revoked_goes_on_with_another_one_of_its_runner() {
    let api = far_away().await;
    let labels = json!({ "runner_id": "far", "labels": { "region": "eu" } });
    let (former, new, third) =
        (Token::new(&api, labels).await, Token::of_far(&api).await, Token::of_far(&api).await);
    let key = former.works(&api).await;
    refuses(&api, &new).await;
    former.revoke(&api).await;
    new.goes_on(&api, &key).await;
    assert_eq!(view(&api, "berlin").await["labels"], json!({}), "those of the new token");
    assert_eq!(former.opens(&api, "c").await.0, 401);
    refuses(&api, &third).await;
}

#[tokio::test]
async fn an_agent_whose_token_has_expired_goes_on_with_another_one_of_its_runner() {
    let api = far_away().await;
    let body = json!({ "runner_id": "far", "expires_in_seconds": 60 });
    let (former, new) = (Token::new(&api, body).await, Token::of_far(&api).await);
    let key = former.works(&api).await;
    api.clock.advance(Duration::from_secs(50));
    refuses(&api, &new).await;
    api.clock.advance(Duration::from_secs(11));
    new.goes_on(&api, &key).await;
}

#[tokio::test]
async fn an_agent_that_waits_is_answered_before_its_token_expires() {
    let api = far_away().await;
    let token = Token::new(&api, json!({ "runner_id": "far", "expires_in_seconds": 4 })).await;
    assert_eq!(open(&api, &token.secret, "berlin", "a").await, 1);
    api.run_clock();
    let since = Instant::now();
    let poll = json!({ "running": 0, "wait_seconds": 25 });
    let (status, answer) = say(&api, &token.secret, "berlin/sessions/1/poll", poll).await;
    assert_eq!(status, 200, "{answer}");
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
}

#[tokio::test]
async fn no_token_of_another_runner_or_of_none_goes_on_as_an_agent() {
    let api = far_away().await;
    api.make("/runners", far("near", json!({}))).await;
    let former = Token::of_far(&api).await;
    let of_none = Token::new(&api, json!({})).await;
    let of_near = Token::new(&api, json!({ "runner_id": "near" })).await;
    former.works(&api).await;
    former.revoke(&api).await;
    refuses(&api, &of_none).await;
    let mut body = opening("thief");
    body["runner"] = json!("near");
    let stolen = say(&api, &of_near.secret, "berlin/sessions", body).await;
    assert_eq!(code(&stolen), (409, "another_agent"));
}

#[tokio::test]
async fn a_rejected_agent_is_rejected_with_every_token() {
    let api = far_away().await;
    let (former, new) = (Token::of_far(&api).await, Token::of_far(&api).await);
    former.works(&api).await;
    former.revoke(&api).await;
    api.act("/agents/berlin/actions/reject").await;
    assert_eq!(code(&new.opens(&api, "b").await), (403, "rejected"));
    assert_eq!(view(&api, "berlin").await["principal"], former.id);
}

#[tokio::test]
async fn no_token_goes_on_as_the_agent_of_a_service_account() {
    let api = far_away().await;
    let foreign = Foreign::new(&api);
    let policies = json!([foreign.policy().await]);
    let account = json!({
        "id": "cluster", "role": "agent", "runner_id": "far", "trust_policies": policies,
    });
    api.make("/service-accounts", account).await;
    let theirs = foreign.token(SUBJECT, AUDIENCE).await;
    for (session, instance) in [(1, "a"), (2, "b")] {
        // Each time with a token that was issued for it.
        let own = signed_in(&api, "cluster", &theirs).await;
        assert_eq!(open(&api, &own, "berlin", instance).await, session);
    }
    let token = Token::of_far(&api).await;
    refuses(&api, &token).await;
    api.clock.advance(Duration::from_mins(16));
    refuses(&api, &token).await;
    assert_eq!(api.delete("/service-accounts/cluster").await.0, 204);
    refuses(&api, &token).await;
}

#[tokio::test]
async fn no_token_goes_on_as_the_agent_of_a_key() {
    let api = far_away().await;
    let give_runner = async |key: &Key| {
        let configuration = json!({ "type": "docker-agent", "key": key.pem() });
        api.patch("/runners/far", json!({ "runner_configuration": configuration })).await;
        // Longer than the API caches a runner.
        api.clock.advance(Duration::from_secs(6));
    };
    let key = Key::new();
    give_runner(&key).await;
    let mut body = opening("a");
    body["public_key"] = json!(key.pem());
    let opened = say(&api, &key.token(&api, "berlin"), "berlin/sessions", body).await;
    assert_eq!(opened.0, 201, "{}", opened.1);
    let token = Token::of_far(&api).await;
    refuses(&api, &token).await;
    give_runner(&Key::new()).await;
    refuses(&api, &token).await;
}

#[tokio::test]
async fn a_token_for_other_agents_does_not_inherit_an_administrators_decision_about_one() {
    let api = far_away().await;
    let former = Token::of_far(&api).await;
    let for_others = json!({ "runner_id": "far", "labels": { "tier": "dev" } });
    let (for_others, new) = (Token::new(&api, for_others).await, Token::of_far(&api).await);
    let key = former.works(&api).await;
    let settled = api.patch("/agents/berlin", json!({ "labels": { "tier": "prod" } })).await;
    assert_eq!(settled.0, 200, "{}", settled.1);
    former.revoke(&api).await;
    refuses(&api, &for_others).await;
    new.goes_on(&api, &key).await;
    assert_eq!(view(&api, "berlin").await["labels"], json!({ "tier": "prod" }));
}

#[tokio::test]
async fn a_token_goes_on_as_no_agent_that_an_administrator_has_given_more_labels() {
    let api = far_away().await;
    let blue = json!({ "team": "blue" });
    let of_far = json!({ "runner_id": "far", "labels": blue });
    for (name, body) in [("berlin", of_far), ("boston", json!({ "labels": blue }))] {
        let (former, new) = (Token::new(&api, body.clone()).await, Token::new(&api, body).await);
        let path = format!("{name}/sessions");
        assert_eq!(say(&api, &former.secret, &path, opening("a")).await.0, 201);
        let more = json!({ "labels": { "team": "blue", "env": "prod" } });
        assert_eq!(api.patch(&format!("/agents/{name}"), more).await.0, 200);
        former.revoke(&api).await;
        let refused = say(&api, &new.secret, &path, opening("b")).await;
        assert_eq!(code(&refused), (409, "another_agent"), "{name}");
        assert_eq!(view(&api, name).await["principal"], former.id, "{name}");
        // As the agent with exactly the token's labels.
        assert_eq!(api.patch(&format!("/agents/{name}"), json!({ "labels": blue })).await.0, 200);
        let opened = say(&api, &new.secret, &path, opening("b")).await;
        assert_eq!(opened.0, 201, "{name}: {}", opened.1);
    }
}

#[tokio::test]
async fn an_agent_is_no_more_than_the_labels_of_its_token_say() {
    let api = far_away().await;
    let token = Token::new(&api, json!({ "labels": { "team": "blue" } })).await;
    let mut body = opening("a");
    body["runner"] = Value::Null;
    body["labels"] = json!({ "team": "red", "env": "prod" });
    body["run_untagged_jobs"] = json!(true);
    let (status, opened) = say(&api, &token.secret, "berlin/sessions", body).await;
    assert_eq!(status, 201, "{opened}");
    let seen = view(&api, "berlin").await;
    assert_eq!(
        (&seen["labels"], &seen["run_untagged_jobs"]),
        (&json!({ "team": "blue" }), &json!(false))
    );
    let warnings = opened["warnings"].to_string();
    assert!(
        warnings.contains("`labels`") && warnings.contains("`run_untagged_jobs`"),
        "{warnings}"
    );
}

#[tokio::test]
async fn a_runner_that_an_agent_names_itself_gives_it_no_jobs_beyond_the_labels_of_its_token() {
    let api = far_away().await;
    let labelled = json!({ "labels": { "team": "blue" } });
    let bound = json!({ "labels": { "team": "blue" }, "runner_id": "far" });
    let mut body = opening("a");
    body["run_untagged_jobs"] = json!(true);
    let (_, job) = order(&api).await;
    let poll = json!({ "running": 0, "wait_seconds": 0 });
    for (name, token, may) in [("berlin", labelled, false), ("boston", bound, true)] {
        let token = Token::new(&api, token).await.secret;
        let opened = say(&api, &token, &format!("{name}/sessions"), body.clone()).await;
        assert_eq!(opened.0, 201, "{}", opened.1);
        let warned = opened.1["warnings"].to_string().contains("`run_untagged_jobs`");
        assert_eq!(warned, !may, "{}", opened.1);
        let seen = view(&api, name).await;
        assert_eq!((&seen["runner_id"], &seen["run_untagged_jobs"]), (&json!("far"), &json!(may)));
        let path = format!("{name}/sessions/1/poll");
        let offers = say(&api, &token, &path, poll.clone()).await.1["offers"].clone();
        assert_eq!(offers, if may { json!([job]) } else { Value::Null }, "{name}");
    }
}

#[tokio::test]
async fn where_no_runner_bounds_a_token_its_labels_say_as_which_agents_it_goes_on() {
    let api = far_away().await;
    let agents = json!({ "labels": { "team": "blue" } });
    let configuration = json!({ "type": "docker-agent", "agents": agents });
    api.patch("/runners/far", json!({ "runner_configuration": configuration })).await;
    let of = async |team: &str| Token::new(&api, json!({ "labels": { "team": team } })).await;
    let (former, others, new) = (of("blue").await, of("red").await, of("blue").await);
    let key = former.works(&api).await;
    former.revoke(&api).await;
    refuses(&api, &others).await;
    new.goes_on(&api, &key).await;
}

#[tokio::test]
async fn a_caller_with_only_the_name_and_number_of_a_forgotten_agent_gets_no_claim_code() {
    let api = far_away().await;
    let former = Token::of_far(&api).await;
    let key = former.works(&api).await;
    assert_eq!(api.delete("/agents/berlin").await.0, 204);
    api.clock.advance(Duration::from_secs(1));
    let new = Token::of_far(&api).await;
    let mut body = opening("b");
    body["place"] = json!("elsewhere");
    let opened = say(&api, &new.secret, "berlin/sessions", body).await.1;
    assert_eq!((&opened["session"], &opened["held"]), (&json!(1), &Value::Null), "{opened}");
    let before = job(&api, &key).await;
    let take = json!({ "jobs": [key] });
    let answer = say(&api, &new.secret, "berlin/sessions/1/take", take).await.1;
    assert_eq!((&answer["taken"], &answer["refused"][0]["job"]), (&json!([]), &key), "{answer}");
    assert_eq!(job(&api, &key).await, before);
}

#[tokio::test]
async fn who_only_has_the_name_of_a_forgotten_agent_has_none_of_its_jobs() {
    let api = far_away().await;
    api.make("/runners", far("near", json!({}))).await;
    let former = Token::of_far(&api).await;
    let key = former.works(&api).await;
    assert_eq!(api.delete("/agents/berlin").await.0, 204);
    api.clock.advance(Duration::from_secs(1));
    let near = Token::new(&api, json!({ "runner_id": "near" })).await;
    let mut body = opening("b");
    body["runner"] = json!("near");
    let opened = say(&api, &near.secret, "berlin/sessions", body).await.1;
    assert_eq!(opened["held"], Value::Null, "{opened}");
    let session = opened["session"].as_u64().unwrap();

    let mut held = job(&api, &key).await.unwrap();
    assert!(held.raise_desired_state(DesiredState::Stop));
    held.version += 1;
    api.app.table.save_agent_job(api.ours.uuid, &held, api.app.now()).await.unwrap();
    let poll = json!({ "running": 0, "wait_seconds": 0 });
    let work = say(&api, &near.secret, &format!("berlin/sessions/{session}/poll"), poll).await.1;
    assert_eq!((&work["held"], &work["wishes"]), (&Value::Null, &Value::Null), "{work}");
    let gone = json!({ "reports": [{ "job": key, "observation": { "state": "gone" } }] });
    let path = format!("berlin/sessions/{session}/reports");
    let (status, said) = say(&api, &near.secret, &path, gone).await;
    assert_eq!((status, &said["refused"][0]["job"]), (200, &key), "{said}");
    assert!(job(&api, &key).await.unwrap().reported.is_none());
}
