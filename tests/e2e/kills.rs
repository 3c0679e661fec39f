//! `kill -9` of each program at many moments: each deployment ends once, no work is done twice, and
//! the next deployment works.

use crate::harness::deployments::{assert_succeeded, end, failure, request};
use crate::harness::ledger;
use crate::harness::module::{self, THIRTY, inline};
use crate::harness::processes;
use crate::harness::site::{ENV, RUNNER, Site};
use canyon_domain::failure::FailureClass;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Moments in the life of a deployment at which the server is killed.
const MOMENTS: u32 = 20;
/// Resources of each deployment here: more than OpenTofu creates at once (10).
const COUNT: u32 = 12;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_at_any_moment_loses_nothing_and_repeats_nothing() {
    let mut site = Site::new().await;
    let path = site.server.path("ledger");
    let body = |round| request(ENV, Some(module::ledger(&path, COUNT, "0.25", round)));

    let begun = Instant::now();
    assert_succeeded(&site.run(&body(0)).await);
    let life = begun.elapsed();
    let mut seen = BTreeSet::new();
    for round in 1..=MOMENTS {
        let id = site.accept(&body(round)).await;
        sleep(moment_of(round, life)).await;
        let before = site.client.deployment(&id).await.unwrap();
        site.server.kill();
        // In some rounds the server stays away longer than the rest of the run takes.
        sleep(if round % 4 == 0 { life } else { Duration::from_millis(20) }).await;
        site.server.restart().await;
        seen.insert(before.status.clone());
        let moment = format!("killed while `{}`, {:?}", before.status, before.attempts);
        let ended = end(&site.client, &id).await;
        assert_eq!(ended.status, "succeeded", "{moment}: {ended:#?}");
        assert_eq!(ended.attempts.len(), 1, "{moment}: {ended:#?}");
        ledger::assert_once(&path, round, COUNT);
        assert_eq!(site.state(ENV).await.len(), COUNT as usize, "{moment}");
        let later = site.client.deployment(&id).await.unwrap();
        assert_eq!(later, ended, "an end never changes");
    }
    // On a machine so fast or slow that all moments fall into one state, the test proves too
    // little.
    assert!(seen.len() > 1, "it was always `{seen:?}`");
    assert_succeeded(&site.deploy(inline(THIRTY)).await);
}

/// When to kill in each round. The first moments are within the milliseconds in which the
/// deployment leaves the queue, its attempt is written, and its process is started and claims. The
/// others are spread evenly over the run.
fn moment_of(round: u32, life: Duration) -> Duration {
    const DENSE: [u64; 8] = [0, 1, 2, 4, 7, 12, 20, 35];
    let first = u32::try_from(DENSE.len()).unwrap();
    match DENSE.get(round as usize - 1) {
        Some(milliseconds) => Duration::from_millis(*milliseconds),
        None => life * (round - first) / (MOMENTS - first),
    }
}

/// Waits until a job's runner lives, and returns its process id.
async fn runner_of(site: &Site, id: &str) -> i32 {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let of = |(name, _): &(String, i32)| name.starts_with(id);
        if let Some((_, pid)) = processes::runners(&site.server.data()).into_iter().find(of) {
            return pid;
        }
        assert!(Instant::now() < deadline, "no runner for {id}\n{}", site.server.log());
        sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until the ledger has a line, so that an apply is running.
async fn until_begun(path: &std::path::Path, round: u32) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while ledger::indexes(path, "begin", round).is_empty() {
        assert!(Instant::now() < deadline, "round {round} did not begin");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_is_killed_before_the_apply_is_replaced() {
    let site = Site::new().await;
    let path = site.server.path("ledger");
    let mut replaced = 0;
    for (round, phase) in (1..).zip(["launch", "fetch", "init", "plan", "init", "plan"]) {
        let body = request(ENV, Some(module::ledger(&path, COUNT, "0.1", round)));
        let id = site.accept(&body).await;
        let pid = runner_of(&site, &id).await;
        let reached = |phases: &[&str], now: &str| phases.contains(&now);
        let phases: &[&str] = match phase {
            "launch" => &["launch", "fetch", "init", "plan", "apply"],
            "fetch" => &["fetch", "init", "plan", "apply"],
            "init" => &["init", "plan", "apply"],
            _ => &["plan", "apply"],
        };
        // The reports lag behind the work, so these are moments more than phases. Once the runner
        // has begun to apply, another test covers it.
        for _ in 0..40 {
            let now = site.client.deployment(&id).await.unwrap();
            if now.attempts.first().is_some_and(|attempt| reached(phases, &attempt.phase)) {
                break;
            }
            sleep(Duration::from_millis(5)).await;
        }
        if round % 2 == 0 {
            // That concerns only jobs to come, so it hides no job's death.
            let changes = json!({ "description": format!("changed in round {round}") });
            site.client.update(&["runners", RUNNER], &changes).await.unwrap();
        }
        processes::signal(pid, Signal::KILL);
        let ended = site.end(&id).await;
        let first = &ended.attempts[0];
        if first.phase == "apply" || ended.attempts.len() == 1 {
            // The kill came slightly too late for this round.
            assert!(first.phase == "apply" || ended.status == "succeeded", "{ended:#?}");
        } else {
            assert_succeeded(&ended);
            assert_eq!(ended.attempts.len(), 2, "{ended:#?}");
            let failure = first.failure.clone().expect("it was killed");
            assert_eq!(failure.class, FailureClass::Lost, "{failure:?}");
            ledger::assert_once(&path, round, COUNT);
            replaced += 1;
        }
        site.deploy(module::ledger(&path, COUNT, "0.1", round)).await;
        assert_eq!(site.state(ENV).await.len(), COUNT as usize);
    }
    assert!(replaced > 1, "nearly every kill came too late to prove anything");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_is_killed_during_the_apply_leaves_a_saved_state_and_a_free_lock() {
    let site = Site::new().await;
    let path = site.server.path("ledger");
    let mut most = 0;
    for round in 1..=5 {
        let seconds = if round <= 3 { "0.4" } else { "1.5" };
        let module = || module::ledger(&path, COUNT, seconds, round);
        let id = site.accept(&request(ENV, Some(module()))).await;
        let pid = runner_of(&site, &id).await;
        until_begun(&path, round).await;
        if round <= 3 {
            // During the first ten resources.
            sleep(Duration::from_millis(150 * u64::from(round - 1))).await;
        } else {
            // During the later ones: a resource is complete, and Canyon knows it.
            let made = async || !hooks(&site.events(&id).await, "apply_complete").is_empty();
            let give_up = Instant::now() + Duration::from_secs(5);
            while !made().await && Instant::now() < give_up {
                sleep(Duration::from_millis(20)).await;
            }
        }
        processes::signal(pid, Signal::KILL);
        let ended = site.end(&id).await;
        assert_eq!(ended.status, "failed", "{ended:#?}");
        assert_eq!(ended.attempts.len(), 1, "what began to apply is not repeated: {ended:#?}");
        let (class, message) = failure(&ended);
        assert_eq!(class, FailureClass::Lost, "{message}");
        assert_eq!(all_of(&site), [], "nothing of the job lives on");

        // OpenTofu was asked to stop and had time to stop: resources that it had completed are in
        // the state. (A line in the ledger proves less: OpenTofu may stop the command just after
        // it.)
        let completed = hooks(&site.events(&id).await, "apply_complete");
        let next = site.deploy(module()).await;
        let again = hooks(&site.events(&next.id.to_string()).await, "apply_start");
        assert!(completed.is_disjoint(&again), "{completed:?} were made, and again {again:?}");
        most = most.max(completed.len());
        let ended: BTreeSet<_> = ledger::indexes(&path, "end", round).into_iter().collect();
        assert_eq!(ended, (0..COUNT).collect(), "every one was done at some time");
        assert_eq!(site.state(ENV).await.len(), COUNT as usize);
    }
    assert!(most > 0, "each kill came before anything was made, and proves nothing");
}

/// The resources whose creation `kind` events name.
fn hooks(events: &[Value], kind: &str) -> BTreeSet<String> {
    let wanted = events.iter().filter(|event| event["type"] == kind);
    let created = wanted.filter(|event| event["hook"]["action"] == "create");
    created
        .filter_map(|event| event["hook"]["resource"]["addr"].as_str().map(str::to_owned))
        .collect()
}

/// The processes of the jobs of a site.
fn all_of(site: &Site) -> Vec<processes::Process> {
    let leaders = processes::runners(&site.server.data());
    let ours = |process: &processes::Process| {
        leaders.iter().any(|(_, pid)| *pid == process.group)
            && matches!(process.name.as_str(), "tofu" | "canyon-runner")
    };
    processes::all().into_iter().filter(ours).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_opentofu_ends_the_deployment_and_its_orphans_are_named() {
    let site = Site::new().await;
    let path = site.server.path("ledger");
    for round in 1..=5 {
        let module = || module::ledger(&path, COUNT, "1.5", round);
        let id = site.accept(&request(ENV, Some(module()))).await;
        let pid = runner_of(&site, &id).await;
        until_begun(&path, round).await;
        sleep(Duration::from_millis(150 * u64::from(round - 1))).await;
        let tofu = |process: &processes::Process| process.parent == pid && process.name == "tofu";
        let victims: Vec<_> = processes::all().into_iter().filter(tofu).collect();
        assert_eq!(victims.len(), 1, "one OpenTofu at a time: {victims:?}");
        processes::signal(victims[0].pid, Signal::KILL);
        let ended = site.end(&id).await;
        assert_eq!(ended.status, "failed", "{ended:#?}");
        assert_eq!(ended.attempts.len(), 1, "what began to apply is not repeated");
        let (class, message) = failure(&ended);
        assert_eq!(class, FailureClass::Lost, "{message}");
        assert!(message.contains("killed by signal 9"), "{message}");

        // Every resource that had begun is in the state or among the orphans.
        let orphans = site.client.orphans(&id).await.unwrap();
        let count = ended.metrics.num_tf_resources_orphaned.unwrap_or_default();
        assert_eq!(count as usize, orphans.len());
        let orphans: BTreeSet<_> = orphans.into_iter().map(|orphan| orphan.address).collect();
        for index in ledger::indexes(&path, "begin", round) {
            let address = format!("terraform_data.step[{index}]");
            assert!(orphans.contains(&address), "{address} is not among {orphans:?}");
        }

        site.deploy(module()).await;
        assert_eq!(site.state(ENV).await.len(), COUNT as usize);
    }
}
