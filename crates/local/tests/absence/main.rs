//! An hour without its agent, in virtual time: nothing is lost, nothing runs twice, and nothing hangs.
//!
//! The clock of API and launcher is the test's; agent and runner are the test itself, so that each may fall silent at
//! the worst moment.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as the tests do")]

mod agent;
mod world;

use agent::{Agent, Runner};
use serde_json::{Value, json};
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

/// The agent clears a job away, and is asked for nothing further.
async fn clears(world: &World, agent: &Agent, job: &Value) {
    let work = agent.poll(world).await;
    assert!(wishes(&work).contains(&(job, "forget")), "{work}");
    agent.say(world, json!({ "job": job, "done": "forget" })).await;
    let work = agent.poll(world).await;
    assert!(!wishes(&work).iter().any(|(of, _)| *of == job), "{work}");
}

#[tokio::test]
async fn what_an_agent_was_offered_waits_an_hour_for_it_and_runs_once() {
    let world = World::start().await;
    let agent = Agent::join(&world).await;
    let offered = world.deploy("one").await;
    let job = agent.offer(&world).await;
    // From here on nothing of the agent comes through, nor anything to it.
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

    // The same process asks again, in the same session.
    let found = agent.offers(&world).await;
    assert_eq!(found.len(), 2, "both wait for it: {found:?}");
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
async fn a_job_that_is_heard_goes_on_for_an_hour_without_its_agent() {
    let world = World::start().await;
    let agent = Agent::join(&world).await;
    let id = world.deploy("one").await;
    let job = agent.offer(&world).await;
    let runner = Runner::claim(&world, &agent.take(&world, &job).await).await;
    agent.say(&world, json!({ "job": job, "observation": { "state": "alive" } })).await;
    for _ in 0..HOUR / 15 {
        world.pass(15).await;
        let told = runner.reports(&world, "apply").await;
        assert_eq!(told["stop"], json!(false), "nobody wants it to end: {told}");
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
async fn a_job_that_is_cut_off_with_its_agent_ends_by_its_deadline_and_is_never_repeated() {
    let world = World::start().await;
    let agent = Agent::join(&world).await;
    let id = world.deploy("one").await;
    let job = agent.offer(&world).await;
    let runner = Runner::claim(&world, &agent.take(&world, &job).await).await;
    agent.say(&world, json!({ "job": job, "observation": { "state": "alive" } })).await;
    runner.reports(&world, "apply").await;
    // Five minutes of silence, a stop that nobody hears, and two minutes for a proof that does not come.
    world.pass(8 * MINUTE).await;
    let ended = world.deployment(&id).await;
    assert_eq!(ended["status"], "failed", "{ended}");
    assert_eq!(ended["attempts"][0]["failure"]["class"], "timeout", "{ended}");
    world.pass(HOUR - 8 * MINUTE).await;
    assert_eq!(
        world.deployment(&id).await,
        ended,
        "an end never changes, and nothing is tried again"
    );
    assert_eq!(attempts(&ended), 1);

    // Both come back. What the runner says late is refused, and the agent clears its job away.
    assert!(runner.says_that_it_succeeded(&world).await >= 400);
    agent.say(&world, json!({ "job": job, "observation": { "state": "alive" } })).await;
    clears(&world, &agent, &job).await;
    assert_eq!(world.deployment(&id).await, ended);
    // The environment is free for the next one.
    let next = world.deploy("one").await;
    let job = agent.offer(&world).await;
    Runner::claim(&world, &agent.take(&world, &job).await).await.succeeds(&world).await;
    assert_eq!(world.deployment(&next).await["status"], "succeeded");
}

#[tokio::test]
async fn a_job_whose_taking_was_the_last_that_was_heard_ends_and_is_never_started_afterwards() {
    let world = World::start().await;
    let agent = Agent::join(&world).await;
    let id = world.deploy("one").await;
    let job = agent.offer(&world).await;
    // The answer to this is lost.
    let taken = agent.take(&world, &job).await;
    world.pass(HOUR).await;
    let ended = world.deployment(&id).await;
    assert_eq!((ended["status"].as_str(), attempts(&ended)), (Some("failed"), 1), "{ended}");

    // It repeats its words, and is told not to start anything; what it was answered then opens nothing now.
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
async fn another_agent_of_the_same_place_is_told_while_it_waits_that_it_goes_on_with_the_job() {
    let world = World::start().await;
    let dying = Agent::join(&world).await;
    let id = world.deploy("one").await;
    let job = dying.offer(&world).await;
    let taken = dying.take(&world, &job).await;
    let alive = json!({ "job": job, "observation": { "state": "alive" } });
    dying.say(&world, alive.clone()).await;
    let heir = Agent::join_as(&world, "heir").await;

    // It is silent from here on, and so is its job.
    let mut passed = 0;
    let held = loop {
        world.pass(5).await;
        passed += 5;
        let work = heir.poll(&world).await;
        if work["held"].is_array() {
            break work["held"].clone();
        }
        assert!(passed < 2 * MINUTE, "nobody goes on with it: {}", world.deployment(&id).await);
    };
    // The test's own time passes too.
    assert!(passed > MINUTE / 2, "one that was silent for {passed} s may come back");
    assert_eq!((held.as_array().unwrap().len(), &held[0]["job"]), (1, &job), "{held}");
    assert_eq!(heir.poll(&world).await["held"], held, "the answer may have been lost");
    heir.say(&world, alive.clone()).await;
    assert_eq!(heir.poll(&world).await["held"], Value::Null, "it knows by now");

    let refused = dying.try_say(&world, alive).await;
    let reason = refused["refused"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("leave it alone"), "{refused}");
    Runner::claim(&world, &taken).await.succeeds(&world).await;
    let ended = world.deployment(&id).await;
    assert_eq!((ended["status"].as_str(), attempts(&ended)), (Some("succeeded"), 1), "{ended}");
    heir.sees_the_end(&world, &job).await;
    clears(&world, &heir, &job).await;
}
