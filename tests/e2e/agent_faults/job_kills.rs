//! `kill -9` of a whole job at each request between it and Canyon. If Canyon does not know that the job began to
//! apply, another job replaces it once. If Canyon knows, the work is never begun again.

use super::agent::Agent;
use super::gate::{Side, Step};
use super::world::{AGENT, World, job_process};
use crate::harness::deployments::{end, failure};
use crate::harness::ledger;
use crate::harness::programs;
use crate::harness::site::ENV;
use canyon_domain::failure::FailureClass;
use rustix::process::{Pid, Signal, kill_process_group};

/// Resources of each deployment in these tests.
const COUNT: u32 = 3;

/// A world and its agent, whose jobs reach Canyon through the gate too.
async fn with_jobs_at_the_gate() -> (World, Agent) {
    let world = World::new().await;
    let mut spec = world.spec(AGENT);
    spec.variables[1].1.clone_from(&world.gate.url);
    // The first report of a job comes after 0.3 s; a quick plan would be over by then, and every report would be about the apply.
    let folder = world.site.server.path("slow");
    std::fs::create_dir(&folder).unwrap();
    let tofu = programs::given("CANYON_TEST_TOFU");
    let script = format!("[ \"$1\" != plan ] || sleep 1\nexec '{}' \"$@\"\n", tofu.display());
    programs::script(&folder.join("tofu"), &script);
    let path = programs::search_path(Some(&folder)).into_string().unwrap();
    spec.variables.push(("PATH".to_owned(), path));
    let agent = Agent::start(spec);
    world.until_agent(&agent, AGENT, "wait for work", |view| view.availability == "idle").await;
    (world, agent)
}

/// Deploys, and kills every process of the first job at this moment.
async fn killed_at(world: &World, agent: &Agent, round: u32, moment: (Step, Side)) -> String {
    println!("round {round}: the job is killed {:?} {:?}", moment.1, moment.0);
    let waiting = world.gate.trap(moment.0, moment.1);
    let id = world.accept(round, COUNT, "0.1").await;
    let held = waiting.caught().await;
    let job = Pid::from_raw(job_process(agent, &id).await).unwrap();
    // Processes that the job has started are in its group, so none of them lives on to finish the work.
    kill_process_group(job, Signal::KILL).unwrap();
    held.lose();
    id
}

/// Waits for the end of a deployment that a person must look at: it failed, and was not retried.
async fn assert_lost(world: &World, id: &str) {
    let ended = end(&world.site.client, id).await;
    assert_eq!(ended.status, "failed", "{ended:#?}");
    assert_eq!(ended.attempts.len(), 1, "what began to apply is not repeated: {ended:#?}");
    assert_eq!(ended.attempts[0].phase, "apply", "{ended:#?}");
    assert_eq!(failure(&ended).0, FailureClass::Lost, "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_killed_before_canyon_knows_of_its_apply_is_replaced_once() {
    let (world, agent) = with_jobs_at_the_gate().await;
    let moments = [
        (Step::Claim, Side::Before),
        (Step::Claim, Side::After),
        (Step::Prepare, Side::Before),
        (Step::Prepare, Side::After),
        // The job does not begin to apply before Canyon has confirmed that it knows.
        (Step::Begin, Side::Before),
    ];
    for (round, moment) in (1..).zip(moments) {
        let id = killed_at(&world, &agent, round, moment).await;
        let ended = world.assert_done_once(&id, round, COUNT).await;
        assert_eq!(ended.attempts.len(), 2, "{moment:?}: {ended:#?}");
        let first = &ended.attempts[0];
        let class = first.failure.as_ref().map(|failure| failure.class);
        assert_eq!(class, Some(FailureClass::Lost), "{moment:?}: {ended:#?}");
        assert_ne!(first.phase, "apply", "{moment:?}: {ended:#?}");
        let is_claimed = moment != (Step::Claim, Side::Before);
        assert_eq!(first.claimed_at.is_some(), is_claimed, "{moment:?}: {ended:#?}");
        world.assert_nothing_left(&agent, &id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_killed_once_canyon_knows_of_its_apply_is_never_begun_again() {
    let (world, agent) = with_jobs_at_the_gate().await;
    // The job died before it received the permission to begin. Canyon cannot know that, so a person decides.
    let id = killed_at(&world, &agent, 1, (Step::Begin, Side::After)).await;
    assert_lost(&world, &id).await;
    world.assert_nothing_left(&agent, &id).await;
    assert_eq!(ledger::indexes(&world.ledger(), "begin", 1), [0; 0]);

    // The job had done all its work, and its result did not reach Canyon.
    let id = killed_at(&world, &agent, 2, (Step::Result, Side::Before)).await;
    assert_lost(&world, &id).await;
    world.assert_nothing_left(&agent, &id).await;
    ledger::assert_once(&world.ledger(), 2, COUNT);
    assert_eq!(world.site.state(ENV).await.len(), COUNT as usize, "in the state");

    // Canyon stored the result, so the lost answer changes nothing.
    let id = killed_at(&world, &agent, 3, (Step::Result, Side::After)).await;
    let ended = world.assert_done_once(&id, 3, COUNT).await;
    assert_eq!(ended.attempts.len(), 1, "{ended:#?}");
    world.assert_nothing_left(&agent, &id).await;
}
