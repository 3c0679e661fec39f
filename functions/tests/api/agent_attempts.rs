//! A deployment whose first attempt was lost. Late reports of the first attempt change nothing of the second, which the
//! same session holds.

use crate::agent_world::{far_away, job, open, opening, order, order_next, say, token};
use crate::harness::Api;
use crate::job::{lose, stored};
use canyon_domain::agent_job::{AgentJob, DesiredState, TailRequest};
use canyon_domain::attempt::{Ended, Outcome, Salvage};
use canyon_domain::deployment::{Deployment, Status};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_store::deployment_item::Wake;
use canyon_store::outcome::Saved;
use serde_json::{Value, json};

/// The agent `berlin`, which took the first attempt before it was lost.
struct Berlin {
    api: Api,
    token: String,
    deployment: String,
    first: Value,
    second: Value,
    /// The claim code of the second attempt.
    code: String,
}

impl Berlin {
    async fn start() -> Self {
        let api = far_away().await;
        let token = token(&api, json!({})).await;
        open(&api, &token, "berlin", "a").await;
        let (old, first) = order(&api).await;
        let deployment = first["deployment"].as_str().unwrap().to_owned();
        let (second, code) = (Value::Null, String::new());
        let mut berlin = Self { api, token, deployment, first, second, code };
        assert_eq!(berlin.offers().await, json!([berlin.first]));
        assert_eq!(berlin.take(&berlin.first).await["taken"][0]["job"], berlin.first);
        lose(&berlin.api, &berlin.deployment).await;
        (berlin.code, berlin.second) = order_next(&berlin.api, &berlin.deployment).await;
        assert_ne!(berlin.code, old);
        berlin
    }

    async fn say(&self, what: &str, body: Value) -> Value {
        let path = format!("berlin/sessions/1/{what}");
        let (status, answer) = say(&self.api, &self.token, &path, body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    async fn offers(&self) -> Value {
        self.say("poll", json!({ "running": 0, "wait_seconds": 0 })).await["offers"].clone()
    }

    async fn take(&self, key: &Value) -> Value {
        self.say("take", json!({ "jobs": [key] })).await
    }

    async fn report(&self, key: &Value, what: &Value) -> Value {
        let mut report = what.clone();
        report["job"] = key.clone();
        self.say("reports", json!({ "reports": [report] })).await
    }

    async fn takes_the_second(&self) {
        assert_eq!(self.offers().await, json!([self.second]));
        let answer = self.take(&self.second).await;
        let taken = &answer["taken"][0];
        assert_eq!(taken["job"], self.second, "{answer}");
        assert_eq!(taken["environment"]["CANYON_CLAIM_CODE"], self.code);
    }

    async fn is_not_given_the_first(&self) {
        let answer = self.take(&self.first).await;
        assert_eq!((&answer["taken"], &answer["refused"][0]["job"]), (&json!([]), &self.first));
        let reason = answer["refused"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("has withdrawn the job; do not start it"), "{answer}");
    }

    /// Everything that a report of the first attempt could change.
    async fn state(&self) -> (AgentJob, Deployment) {
        let second = job(&self.api, &self.second).await.unwrap();
        (second, stored(&self.api, &self.deployment).await)
    }

    /// The launcher requests a stop of the second attempt, and a user requests its output.
    async fn is_asked_much_of_the_second(&self) {
        let (mut job, _) = self.state().await;
        assert!(job.raise_desired_state(DesiredState::Stop));
        job.tail = Some(TailRequest { id: 7, stream: "log".to_owned(), offset: 0, answer: None });
        job.version += 1;
        let (table, now) = (&self.api.app.table, self.api.app.now());
        table.save_agent_job(self.api.ours.uuid, &job, now).await.unwrap();
    }
}

/// All reports of an agent about a job, in their usual order.
fn words() -> [Value; 5] {
    let oom = json!({ "class": "oom", "message": "killed" });
    [
        json!({ "observation": { "state": "alive" }, "handle": "container" }),
        json!({ "tail": { "id": 7, "bytes": "bGF0ZQ==" } }),
        json!({ "observation": { "state": "gone", "reason": oom } }),
        json!({ "done": "forget" }),
        json!({ "image_digest": "ab".repeat(32) }),
    ]
}

#[tokio::test]
async fn a_late_word_of_an_attempt_that_was_lost_changes_nothing_of_the_next() {
    let berlin = Berlin::start().await;
    let offered = berlin.state().await;
    berlin.is_not_given_the_first().await;
    assert_eq!(berlin.state().await, offered);
    berlin.takes_the_second().await;
    berlin.is_asked_much_of_the_second().await;
    let before = berlin.state().await;
    // The last report removes the first attempt's record. It is sent once before that and once after.
    for has_record in [true, false] {
        assert_eq!(job(&berlin.api, &berlin.first).await.is_some(), has_record);
        berlin.is_not_given_the_first().await;
        for word in words() {
            let answer = berlin.report(&berlin.first, &word).await;
            assert_eq!(
                answer,
                json!({}),
                "{word}: the report is acknowledged, so that it is not repeated"
            );
            assert_eq!(berlin.state().await, before, "{word}");
        }
    }
    let [_, _, gone, ..] = words();
    berlin.report(&berlin.second, &gone).await;
    berlin.report(&berlin.second, &json!({ "done": "stop" })).await;
    let (job, deployment) = berlin.state().await;
    assert!(
        job.reported.is_some() && deployment.open_attempt().unwrap().suspected,
        "its own counts"
    );
    assert_eq!(job.applied, DesiredState::Stop);
}

#[tokio::test]
async fn a_new_session_clears_away_the_attempt_that_was_lost_and_goes_on_with_the_next() {
    let berlin = Berlin::start().await;
    berlin.takes_the_second().await;
    for word in words() {
        berlin.report(&berlin.first, &word).await;
    }
    let mut body = opening("b");
    body["found"] = json!([berlin.first, berlin.second]);
    let opened = say(&berlin.api, &berlin.token, "berlin/sessions", body).await.1;
    let held: Vec<_> = opened["held"].as_array().unwrap().iter().map(|held| &held["job"]).collect();
    assert_eq!((held, &opened["strays"]), (vec![&berlin.second], &json!([berlin.first])));
}

#[tokio::test]
async fn what_a_job_left_stays_with_its_agent_until_the_launcher_has_read_it() {
    let berlin = Berlin::start().await;
    berlin.takes_the_second().await;
    let [_, _, gone, ..] = words();
    for (salvage, wish) in
        [(Salvage::Pending, DesiredState::Run), (Salvage::Impossible, DesiredState::Forget)]
    {
        let (_, mut deployment) = berlin.state().await;
        let failure = Failure::new(FailureClass::Timeout, "it was silent");
        // Ended without a proof: it had begun to apply.
        let attempt = deployment.attempts.last_mut().unwrap();
        attempt.ended = Some(Ended { at: berlin.api.app.now(), outcome: Outcome::Failed(failure) });
        attempt.salvage = salvage;
        deployment.status = Status::Failed;
        deployment.version += 1;
        let (table, org) = (&berlin.api.app.table, berlin.api.ours.uuid);
        let saved = table.save_deployment(org, &deployment, Wake::None).await.unwrap();
        assert_eq!(saved, Saved::Yes);
        berlin.report(&berlin.second, &gone).await;
        let (job, told) = berlin.state().await;
        assert_eq!(job.desired, wish);
        assert!(told.attempts.last().unwrap().suspected, "the launcher is told once");
    }
}
