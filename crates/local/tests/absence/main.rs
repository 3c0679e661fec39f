//! An outage of an hour between Canyon and its agent, in virtual time: nothing is lost, nothing runs twice, and nothing
//! hangs.
//!
//! The test controls the clock of API and launcher. It plays agent and runner itself, so that each can become silent at
//! the worst moment.

#![expect(clippy::unwrap_used, reason = "a test may panic when its own setup fails")]

mod agent;
mod world;

use agent::{Agent, Runner};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::time::Duration;
use world::World;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

fn attempts(deployment: &Value) -> usize {
    deployment["attempts"].as_array().unwrap().len()
}

fn wishes(work: &Value) -> Vec<(&Value, &str)> {
    let wishes = work["wishes"].as_array().into_iter().flatten();
    wishes.map(|wish| (&wish["job"], wish["wish"].as_str().unwrap())).collect()
}

/// The agent removes what is left of a job, and gets no further wish for it.
async fn clears(world: &World, agent: &Agent, job: &Value) {
    let work = agent.poll(world).await;
    assert!(wishes(&work).contains(&(job, "forget")), "{work}");
    agent.report(world, json!({ "job": job, "done": "forget" })).await;
    let work = agent.poll(world).await;
    assert!(!wishes(&work).iter().any(|(of, _)| *of == job), "{work}");
}

/// The agent answers requests for the output of a job, which had begun to create a resource, and removes the job when
/// Canyon wants that.
async fn gives_output(world: &World, agent: &Agent, job: &Value) {
    let hook = json!({ "resource": { "addr": "terraform_data.a" }, "action": "create" });
    let events = STANDARD.encode(json!({ "type": "apply_start", "hook": hook }).to_string());
    for _ in 0..1_000 {
        let work = agent.poll(world).await;
        for tail in work["tails"].as_array().into_iter().flatten() {
            let is_begin = tail["stream"] == "events" && tail["offset"] == 0;
            let bytes = if is_begin { events.as_str() } else { "" };
            let answer = json!({ "id": tail["id"], "bytes": bytes });
            agent.report(world, json!({ "job": job, "tail": answer })).await;
        }
        if wishes(&work).contains(&(job, "forget")) {
            return agent.report(world, json!({ "job": job, "done": "forget" })).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("Canyon does not read what the job left");
}

#[tokio::test]
async fn an_offer_waits_through_an_outage_of_an_hour_and_the_job_runs_once() {
    let world = World::start().await;
    let agent = Agent::join(&world).await;
    let offered = world.deploy("one").await;
    let job = agent.offer(&world).await;
    // From here on, no request of the agent arrives.
    let later = world.deploy("two").await;
    let mut reasons = Vec::new();
    for _ in 0..60 {
        world.pass(MINUTE).await;
        let waiting = world.deployment(&offered).await;
        assert_eq!(
            (waiting["status"].as_str(), attempts(&waiting)),
            (Some("launching"), 1),
            "{waiting}"
        );
        reasons.push(waiting["waiting"]["reason"].as_str().unwrap_or_default().to_owned());
    }
    let gone =
        |reason: &String| reason.contains("waiting for an agent of runner `far`, last seen 20");
    assert!(reasons[2..].iter().all(gone), "{reasons:#?}");

    // The same process polls again, in the same session.
    let found = agent.offers(&world).await;
    assert_eq!(found.len(), 2, "both jobs are offered: {found:?}");
    assert!(found.contains(&job), "{found:?}");
    for job in found {
        let runner = Runner::claim(&world, &agent.take(&world, &job).await).await;
        runner.succeeds(&world).await;
        agent.sees_the_end(&world, &job).await;
        clears(&world, &agent, &job).await;
    }
    for id in [offered, later] {
        let ended = world.deployment(&id).await;
        assert_eq!((ended["status"].as_str(), attempts(&ended)), (Some("succeeded"), 1), "{ended}");
    }
}

#[tokio::test]
async fn a_job_that_reports_runs_for_an_hour_without_its_agent() {
    let world = World::start().await;
    let agent = Agent::join(&world).await;
    let id = world.deploy("one").await;
    let job = agent.offer(&world).await;
    let runner = Runner::claim(&world, &agent.take(&world, &job).await).await;
    agent.report(&world, json!({ "job": job, "observation": { "state": "alive" } })).await;
    for _ in 0..HOUR / 15 {
        world.pass(15).await;
        let answer = runner.report_phase(&world, "apply").await;
        assert_eq!(answer["stop"], json!(false), "the job must not be stopped: {answer}");
    }
    let running = world.deployment(&id).await;
    assert_eq!((running["status"].as_str(), attempts(&running)), (Some("running"), 1), "{running}");
    runner.succeeds(&world).await;
    let ended = world.deployment(&id).await;
    assert_eq!((ended["status"].as_str(), attempts(&ended)), (Some("succeeded"), 1), "{ended}");
    agent.sees_the_end(&world, &job).await;
    clears(&world, &agent, &job).await;
}

#[tokio::test]
async fn a_job_that_is_cut_off_with_its_agent_ends_at_its_deadline_and_is_not_repeated() {
    let world = World::start().await;
    let agent = Agent::join(&world).await;
    let id = world.deploy("one").await;
    let job = agent.offer(&world).await;
    let runner = Runner::claim(&world, &agent.take(&world, &job).await).await;
    agent.report(&world, json!({ "job": job, "observation": { "state": "alive" } })).await;
    runner.report_phase(&world, "apply").await;
    // Five minutes of silence, a stop that does not arrive, and two minutes for a proof that does not come.
    world.pass(8 * MINUTE).await;
    let ended = world.deployment(&id).await;
    assert_eq!(ended["status"], "failed", "{ended}");
    assert_eq!(ended["attempts"][0]["failure"]["class"], "timeout", "{ended}");
    world.pass(HOUR - 8 * MINUTE).await;
    assert_eq!(world.deployment(&id).await, ended, "an end never changes, and no attempt follows");
    assert_eq!(attempts(&ended), 1);

    // Both are back. Canyon refuses the runner's late result. The agent ends the job, and keeps what it left.
    assert!(runner.report_success(&world).await >= 400);
    agent.report(&world, json!({ "job": job, "observation": { "state": "alive" } })).await;
    let work = agent.poll(&world).await;
    assert!(wishes(&work).contains(&(&job, "kill")), "{work}");
    agent.sees_the_end(&world, &job).await;
    assert!(!agent.poll(&world).await.to_string().contains("forget"), "Canyon has not read it");
    assert_eq!(world.deployment(&id).await, ended);
    // The environment is free for the next one. Its launch first reads what the job left.
    let (next, ()) = tokio::join!(world.deploy("one"), gives_output(&world, &agent, &job));
    let read = world.deployment(&id).await;
    assert_eq!(read["metrics"]["num_tf_resources_orphaned"], 1, "{read}");
    let job = agent.offer(&world).await;
    Runner::claim(&world, &agent.take(&world, &job).await).await.succeeds(&world).await;
    assert_eq!(world.deployment(&next).await["status"], "succeeded");
}

#[tokio::test]
async fn a_job_whose_take_was_the_last_request_ends_and_is_never_started_afterwards() {
    let world = World::start().await;
    let agent = Agent::join(&world).await;
    let id = world.deploy("one").await;
    let job = agent.offer(&world).await;
    // The agent does not receive this answer.
    let taken = agent.take(&world, &job).await;
    world.pass(HOUR).await;
    let ended = world.deployment(&id).await;
    assert_eq!((ended["status"].as_str(), attempts(&ended)), (Some("failed"), 1), "{ended}");

    // The agent repeats the request, and Canyon refuses it. The claim code of the lost answer is not valid any more.
    let refused = agent.try_take(&world, &job).await;
    assert_eq!(refused["taken"], json!([]), "{refused}");
    assert!(
        refused["refused"][0]["reason"].as_str().unwrap().contains("do not start"),
        "{refused}"
    );
    assert!(Runner::try_claim(&world, &taken).await.0 >= 400);
    assert_eq!(world.deployment(&id).await, ended);
    clears(&world, &agent, &job).await;
}

#[tokio::test]
async fn another_agent_of_the_same_place_receives_the_job_in_its_poll_and_adopts_it() {
    let world = World::start().await;
    let dying = Agent::join(&world).await;
    let id = world.deploy("one").await;
    let job = dying.offer(&world).await;
    let taken = dying.take(&world, &job).await;
    let alive = json!({ "job": job, "observation": { "state": "alive" } });
    dying.report(&world, alive.clone()).await;
    let successor = Agent::join_as(&world, "successor").await;

    // The first agent is silent from here on, and so is its job.
    let mut passed = 0;
    let held = loop {
        world.pass(5).await;
        passed += 5;
        let work = successor.poll(&world).await;
        if work["held"].is_array() {
            break work["held"].clone();
        }
        assert!(passed < 2 * MINUTE, "no agent adopts it: {}", world.deployment(&id).await);
    };
    // Real time passes too.
    assert!(passed > MINUTE / 2, "an agent that was silent for {passed} s may come back");
    assert_eq!((held.as_array().unwrap().len(), &held[0]["job"]), (1, &job), "{held}");
    assert_eq!(successor.poll(&world).await["held"], held, "the answer may have been lost");
    successor.report(&world, alive.clone()).await;
    assert_eq!(successor.poll(&world).await["held"], Value::Null, "it was acknowledged");

    let refused = dying.try_report(&world, alive).await;
    let reason = refused["refused"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("leave it alone"), "{refused}");
    Runner::claim(&world, &taken).await.succeeds(&world).await;
    let ended = world.deployment(&id).await;
    assert_eq!((ended["status"].as_str(), attempts(&ended)), (Some("succeeded"), 1), "{ended}");
    successor.sees_the_end(&world, &job).await;
    clears(&world, &successor, &job).await;
}
