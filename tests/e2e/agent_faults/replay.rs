//! Replaying all requests of an agent, including its opening and closing of sessions, changes nothing.

use super::gate::{Recorded, Side, Step};
use super::world::{AGENT, World};
use crate::harness::deployments::{assert_succeeded, end, request};
use crate::harness::ledger;
use crate::harness::module;
use canyon_api::agent::AgentView;
use canyon_api::deployment::Deployment;
use futures::future::join_all;
use reqwest::Method;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Deployments while requests are recorded, and as many while they are replayed.
const DEPLOYMENTS: u32 = 20;
/// The environments of these deployments, so that several run at once.
const ENVIRONMENTS: u32 = 5;
/// An agent that is asked to end and has nothing to do ends within this time.
const LEAVE: Duration = Duration::from_mins(2);

/// The order in which `requests` are replayed, each twice; `seed` decides it.
fn shuffled(requests: &[Recorded], mut seed: u64) -> Vec<Recorded> {
    let mut all: Vec<_> = requests.iter().chain(requests).cloned().collect();
    for last in (1..all.len()).rev() {
        // Knuth's MMIX generator: the same seed gives the same order.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(seed >> 33).unwrap() % (last + 1);
        all.swap(last, at);
    }
    all
}

fn path(world: &World, env: u32) -> PathBuf {
    world.site.server.path(&format!("ledger-{env}"))
}

/// Deploys to all environments, [`DEPLOYMENTS`] times in all; each succeeds and runs once.
async fn deploy_all(world: &World, rounds: std::ops::RangeInclusive<u32>) -> Vec<Deployment> {
    let mut accepted = Vec::new();
    for round in rounds {
        let env = round % ENVIRONMENTS;
        let module = module::ledger(&path(world, env), 2, "0.05", round);
        accepted.push((
            env,
            round,
            world.site.accept(&request(&format!("env-{env}"), Some(module))).await,
        ));
    }
    let ended = join_all(accepted.iter().map(|(_, _, id)| end(&world.site.client, id))).await;
    for ((env, round, _), deployment) in accepted.iter().zip(&ended) {
        assert_succeeded(deployment);
        assert_eq!(deployment.attempts.len(), 1, "{deployment:#?}");
        ledger::assert_once(&path(world, *env), *round, 2);
    }
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn replaying_all_requests_of_an_agent_in_any_order_changes_nothing() {
    let world = World::new().await;
    for env in 0..ENVIRONMENTS {
        world.site.environment(&format!("env-{env}")).await;
    }
    // One process ends, so that its opening and closing of a session are replayed to the next process.
    let mut agent = world.agent(AGENT).await;
    agent.ask_to_end();
    assert_eq!(agent.ended(LEAVE).await.code(), Some(0), "{}", agent.log());
    agent.start_again();
    world.until_agent(&agent, AGENT, "work again", |view| view.availability == "idle").await;
    let first = deploy_all(&world, 1..=DEPLOYMENTS).await;
    for deployment in &first {
        world.assert_nothing_left(&agent, &deployment.id.to_string()).await;
    }
    let said = world.gate.take();
    let kinds: BTreeMap<_, usize> = said.iter().fold(BTreeMap::new(), |mut kinds, request| {
        let what = request.path.rsplit('/').next().unwrap_or_default();
        *kinds.entry((request.method.to_string(), what)).or_default() += 1;
        kinds
    });
    println!("{} requests were recorded: {kinds:?}", said.len());
    for (method, what, least) in [
        (Method::POST, "sessions", 2),
        (Method::DELETE, "1", 1),
        (Method::POST, "take", 1),
        (Method::POST, "reports", 1),
    ] {
        let count = kinds.get(&(method.to_string(), what)).copied();
        assert!(count.unwrap_or_default() >= least, "{method} {what}: {kinds:?}");
    }
    let living = world.site.client.agent(AGENT).await.unwrap().session.unwrap();
    assert_eq!(living.number, 2);

    let replay = async {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut answers = BTreeMap::<u16, usize>::new();
        for (seed, requests) in (0..3).map(|seed| (seed, shuffled(&said, seed))) {
            println!("seed {seed}");
            for chunk in requests.chunks(8) {
                for status in
                    join_all(chunk.iter().map(|request| say_again(&http, &world, request))).await
                {
                    *answers.entry(status).or_default() += 1;
                }
            }
        }
        answers
    };
    let (answers, second) =
        tokio::join!(replay, deploy_all(&world, DEPLOYMENTS + 1..=2 * DEPLOYMENTS));
    println!("said again, Canyon answered: {answers:?}");
    assert!(!answers.keys().any(|status| *status >= 500), "{answers:?}");
    // Canyon authenticated the agent, found its session, and judged each request.
    assert!(!answers.contains_key(&401) && !answers.contains_key(&404), "{answers:?}");
    let (all, taken) = (answers.values().sum::<usize>(), answers.get(&200).copied());
    assert!(2 * taken.unwrap_or_default() >= all, "{answers:?}");
    // The living process goes on in its session; Canyon refuses the requests of the one that has ended.
    assert!(agent.lives(), "{}", agent.log());
    let now = world.site.client.agent(AGENT).await.unwrap().session.unwrap();
    assert_eq!((now.number, now.opened_at), (living.number, living.opened_at));
    assert!(answers.contains_key(&201) && answers.contains_key(&409), "{answers:?}");

    for before in &first {
        let now = world.site.client.deployment(&before.id.to_string()).await.unwrap();
        assert_eq!(now, *before, "an end never changes");
    }
    for env in 0..ENVIRONMENTS {
        for round in (1..=2 * DEPLOYMENTS).filter(|round| round % ENVIRONMENTS == env) {
            ledger::assert_once(&path(&world, env), round, 2);
        }
    }
    for deployment in &second {
        world.assert_nothing_left(&agent, &deployment.id.to_string()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_repeats_its_opening_after_a_newer_one_stands_by_and_the_newer_continues() {
    let world = World::new().await;
    let opened = world.gate.trap(Step::Open, Side::After);
    let mut older = world.agent_that_starts(AGENT);
    let held = opened.caught().await;
    let mut newer = world.agent_that_starts(AGENT);
    let second = |view: &AgentView| view.session.as_ref().is_some_and(|now| now.number == 2);
    world.until_agent(&newer, AGENT, "open the second session", second).await;
    // It did not receive the answer that opened the first session, and asks again.
    held.lose();
    older.stands_by().await;
    let id = world.accept(1, 1, "0").await;
    world.assert_done_once(&id, 1, 1).await;
    assert!(newer.lives(), "{}", newer.log());
    assert!(second(&world.site.client.agent(AGENT).await.unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_opening_of_a_dead_process_does_not_supersede_a_working_agent() {
    let world = World::new().await;
    let mut living = world.agent(AGENT).await;
    // The gate records a request after it has passed on the answer, on which the agent may have acted already.
    let deadline = Instant::now() + LEAVE;
    let mut late = loop {
        assert!(Instant::now() < deadline, "the gate saw no opening: {}", living.log());
        let recorded = world.gate.take();
        match recorded.into_iter().find(|asked| asked.path.ends_with("/sessions")) {
            Some(asked) => break asked,
            None => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let first = world.accept(1, 3, "1").await;
    world.until_begun(1).await;
    // A proxy may deliver the request of a process after that process has died.
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut body: serde_json::Value = serde_json::from_slice(&late.body).unwrap();
    for instance in ["dead", "dead too", "dead"] {
        body["instance"] = instance.into();
        late.body = body.to_string().into();
        assert_eq!(say_again(&http, &world, &late).await, 201);
    }
    world.assert_done_once(&first, 1, 3).await;
    let second = world.accept(2, 3, "0.1").await;
    world.assert_done_once(&second, 2, 3).await;
    world.assert_nothing_left(&living, &second).await;
    assert!(living.lives(), "{}", living.log());
    assert!(!living.said().contains("stands by"), "{}", living.log());
    let session = world.site.client.agent(AGENT).await.unwrap().session.unwrap();
    assert_eq!(session.number, 1, "no session took its place");
}

async fn say_again(http: &reqwest::Client, world: &World, request: &Recorded) -> u16 {
    let url = format!("{}{}", world.site.server.url(), request.path);
    // A replayed poll must not wait for work that it would take away, so it waits for a moment only.
    let body = if request.path.ends_with("/poll") {
        let mut poll: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        poll["wait_seconds"] = 0.into();
        poll.to_string().into_bytes()
    } else {
        request.body.to_vec()
    };
    let asked = http.request(request.method.clone(), url).bearer_auth(&request.bearer);
    let asked = asked.header("content-type", "application/json").body(body);
    asked.send().await.unwrap().status().as_u16()
}
