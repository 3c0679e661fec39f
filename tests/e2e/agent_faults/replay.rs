//! Whoever recorded all that an agent has said, and says it again, changes nothing.

use super::gate::Recorded;
use super::world::{AGENT, World};
use crate::harness::deployments::{assert_succeeded, end, request};
use crate::harness::ledger;
use crate::harness::module;
use canyon_api::deployment::Deployment;
use futures::future::join_all;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Deployments while requests are recorded, and as many while they are said again.
const DEPLOYMENTS: u32 = 20;
/// Environments that they are in, so that several run at once.
const ENVIRONMENTS: u32 = 5;

/// The order of `requests`, each twice, as a seed decides.
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

/// Deploys to all environments, [`DEPLOYMENTS`] times in all; each ends well and ran once.
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
async fn all_that_an_agent_said_said_again_in_any_order_changes_nothing() {
    let world = World::new().await;
    for env in 0..ENVIRONMENTS {
        world.site.environment(&format!("env-{env}")).await;
    }
    let agent = world.agent(AGENT).await;
    let first = deploy_all(&world, 1..=DEPLOYMENTS).await;
    for deployment in &first {
        world.assert_nothing_left(&agent, &deployment.id.to_string()).await;
    }
    let recorded = world.gate.take();
    // Another session of the agent's own name would end it, as the protocol says; everything else is said again.
    let said: Vec<_> =
        recorded.into_iter().filter(|request| !request.path.ends_with("/sessions")).collect();
    let kinds: BTreeMap<_, usize> = said.iter().fold(BTreeMap::new(), |mut kinds, request| {
        *kinds.entry(request.path.rsplit('/').next().unwrap_or_default()).or_default() += 1;
        kinds
    });
    println!("{} requests were recorded: {kinds:?}", said.len());
    assert!(kinds.contains_key("take") && kinds.contains_key("reports"), "{kinds:?}");

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
    // They came to those whom they were for, who knew the agent and its session, and weighed each word.
    assert!(!answers.contains_key(&401) && !answers.contains_key(&404), "{answers:?}");
    let (all, taken) = (answers.values().sum::<usize>(), answers.get(&200).copied());
    assert!(2 * taken.unwrap_or_default() >= all, "{answers:?}");

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

async fn say_again(http: &reqwest::Client, world: &World, request: &Recorded) -> u16 {
    let url = format!("{}{}", world.site.server.url(), request.path);
    // An old poll must not wait for work that it would take away: it waits for a moment only.
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
