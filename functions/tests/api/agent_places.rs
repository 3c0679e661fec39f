//! The jobs of a dead agent: an agent in the same place adopts them, and an agent elsewhere does not.

use crate::agent_world::{far_away, job, open, opening, order, say, token};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn a_dead_agents_job_goes_to_an_agent_of_the_same_platform_only() {
    let api = far_away().await;
    let token = token(&api, json!({})).await;
    let berlin = open(&api, &token, "berlin", "a").await;
    let path = |what: &str| format!("berlin/sessions/{berlin}/{what}");
    let (_, key) = order(&api).await;
    say(&api, &token, &path("poll"), json!({ "running": 0, "wait_seconds": 0 })).await;
    let answer = say(&api, &token, &path("take"), json!({ "jobs": [key] })).await.1;
    assert_eq!(answer["taken"].as_array().unwrap().len(), 1, "{answer}");
    let alive = json!({ "job": key, "observation": { "state": "alive" }, "handle": "one" });
    say(&api, &token, &path("reports"), json!({ "reports": [alive] })).await;

    let opened = async |agent: &str, place: &str| {
        let mut body = opening(agent);
        body["place"] = json!(place);
        body["found"] = json!([key]);
        let (status, opened) = say(&api, &token, &format!("{agent}/sessions"), body).await;
        assert_eq!((status, &opened["strays"]), (201, &Value::Null), "{agent}: {opened}");
        opened
    };
    let early = opened("bremen", "engine").await;
    assert_eq!(early["held"], Value::Null, "its agent may live: {early}");
    api.clock.advance(Duration::from_secs(61));
    let elsewhere = opened("oslo", "another engine").await;
    assert_eq!(elsewhere["held"], Value::Null, "it cannot see the job: {elsewhere}");
    assert_eq!(job(&api, &key).await.unwrap().holder.unwrap().agent.as_str(), "berlin");
    let heir = opened("boston", "engine").await;
    let [held] = heir["held"].as_array().unwrap().as_slice() else { panic!("{heir}") };
    assert_eq!(
        (&held["job"], &held["handle"], &held["wish"]),
        (&key, &json!("one"), &json!("run"))
    );
    assert_eq!(opened("bremen", "engine").await["held"], Value::Null, "it is boston's by now");

    let before = job(&api, &key).await.unwrap();
    let gone = json!({ "job": key, "observation": { "state": "gone", "reason": null } });
    let late = say(&api, &token, &path("reports"), json!({ "reports": [gone] })).await.1;
    let reason = late["refused"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("leave it alone"), "{late}");
    let again = say(&api, &token, &path("take"), json!({ "jobs": [key] })).await.1;
    assert_eq!(again["taken"], json!([]), "{again}");
    assert!(again["refused"][0]["reason"].as_str().unwrap().contains("leave it alone"), "{again}");
    assert_eq!(job(&api, &key).await.unwrap(), before);

    let path = format!("boston/sessions/{}/reports", heir["session"]);
    let said = json!({ "reports": [{ "job": key, "observation": { "state": "alive" } }] });
    assert_eq!(say(&api, &token, &path, said).await, (200, json!({})));
}
