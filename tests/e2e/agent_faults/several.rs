//! Several agents: two processes of one agent, and two agents of one runner.

use super::agent::{Agent, Spec};
use super::gate::{Gate, Recorded, Side, Step};
use super::world::{AGENT, World, job_process};
use crate::harness::{processes, programs};
use rustix::process::Signal;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_of_one_agent_the_newer_works_and_the_older_stands_by_until_it_ends() {
    let world = World::new().await;
    let mut older = world.agent(AGENT).await;
    let first = world.accept(1, 3, "1.5").await;
    world.until_begun(1).await;

    let mut newer = Agent::start(world.spec(AGENT));
    older.stands_by().await;
    // The newer process goes on with the job that the older one had begun.
    let ended = world.assert_done_once(&first, 1, 3).await;
    assert_eq!(ended.attempts.len(), 1, "{ended:#?}");
    world.assert_nothing_left(&newer, &first).await;

    for round in 2..=4 {
        let id = world.accept(round, 3, "0.1").await;
        world.assert_done_once(&id, round, 3).await;
    }
    assert!(newer.lives() && older.lives(), "{}", newer.log());
    // The older process takes over again without a supervisor that restarts it.
    newer.ask_to_end();
    newer.ended(Duration::from_mins(1)).await;
    let id = world.accept(5, 3, "0.1").await;
    world.assert_done_once(&id, 5, 3).await;
    world.assert_nothing_left(&older, &id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_process_of_an_agent_on_another_machine_does_not_report_the_jobs_of_the_older() {
    let world = World::new().await;
    let mut older = world.agent(AGENT).await;
    let first = world.accept(1, 3, "3").await;
    world.until_begun(1).await;

    // An agent's folder stands for a machine. The process in the other folder cannot see these jobs, and must
    // not report them as gone.
    let gate = Gate::start(&world.site.server.url()).await;
    let mut spec = Spec { folder: world.site.server.path("elsewhere"), ..world.spec(AGENT) };
    spec.variables[0].1.clone_from(&gate.url);
    let mut newer = Agent::start(spec);
    older.stands_by().await;
    // No process watches the job any more, and the job comes to its end without one.
    let ended = world.assert_done_once(&first, 1, 3).await;
    assert_eq!(ended.attempts.len(), 1, "{ended:#?}");

    for round in 2..=3 {
        let id = world.accept(round, 3, "0.1").await;
        let ended = world.assert_done_once(&id, round, 3).await;
        assert_eq!(ended.attempts.len(), 1, "{ended:#?}");
        world.assert_nothing_left(&newer, &id).await;
    }
    assert!(newer.lives(), "{}", newer.log());
    let of_first = |asked: &Recorded| String::from_utf8_lossy(&asked.body).contains(&first);
    let said: Vec<_> = gate.take().into_iter().filter(of_first).map(|asked| asked.path).collect();
    assert!(said.is_empty(), "it speaks of a job that is not its own: {said:?}");
    assert!(!newer.said().contains(&first), "Canyon named that job to it\n{}", newer.log());

    // Only a process in the first folder can remove what the job left there.
    newer.ask_to_end();
    newer.ended(Duration::from_mins(1)).await;
    world.assert_nothing_left(&older, &first).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_restart_repeatedly_under_one_name_run_nothing_twice() {
    let world = World::new().await;
    let mut one = world.agent(AGENT).await;
    let mut other = Agent::start(world.spec(AGENT));
    for round in 1..=4 {
        let id = world.accept(round, 3, "0.3").await;
        // The two start alternately, like two supervisors that do not know of each other.
        let deadline = Instant::now() + Duration::from_secs(3);
        while Instant::now() < deadline {
            for agent in [&mut one, &mut other] {
                agent.kill();
                agent.start_again();
                tokio::time::sleep(Duration::from_millis(400)).await;
            }
        }
        other.kill();
        one.kill();
        one.start_again();
        world.assert_done_once(&id, round, 3).await;
        other.start_again();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_agents_offers_go_to_another_and_its_running_jobs_do_not() {
    let world = World::new().await;
    let mut dying = world.agent("dying").await;
    let running = world.accept(1, 3, "4").await;
    let pid = job_process(&dying, &running).await;
    world.until_begun(1).await;

    // The other agent has a gate of its own, so that the trap is for the first alone.
    let gate = Gate::start(&world.site.server.url()).await;
    let mut spec = world.spec("heir");
    spec.variables[0].1.clone_from(&gate.url);
    world.site.environment("second").await;
    let waiting = world.gate.trap(Step::Offer, Side::After);
    let offered = second(&world).await;
    let held = waiting.caught().await;
    let heir = Agent::start(spec);
    world.until_agent(&heir, "heir", "wait for work", |view| view.availability == "idle").await;
    dying.kill();
    held.lose();

    // An offer stands for 30 s, whether its agent lives or not.
    let since = Instant::now();
    until_taken(&gate, &heir).await;
    let took = since.elapsed();
    println!("what was offered to the dead agent was taken {took:?} after its death");
    assert!(took < Duration::from_secs(35), "{took:?}");
    let ended = world.site.end(&offered).await;
    assert_eq!(ended.status, "succeeded", "{ended:#?}");

    // The dead agent's job was never launched again, and comes to its end without an agent.
    assert!(heir.runners().iter().all(|(job, _)| !job.starts_with(&running)));
    let ended = world.assert_done_once(&running, 1, 3).await;
    assert_eq!(ended.attempts.len(), 1, "{ended:#?}");
    assert!(!processes::all().iter().any(|process| process.pid == pid), "it has ended");
    dying.start_again();
    world.assert_nothing_left(&dying, &running).await;
}

async fn second(world: &World) -> String {
    use crate::harness::deployments::request;
    use crate::harness::module::{THIRTY, inline};
    world.site.accept(&request("second", Some(inline(THIRTY)))).await
}

/// Waits until an agent behind this gate has taken a job.
async fn until_taken(gate: &Gate, agent: &Agent) {
    let deadline = Instant::now() + Duration::from_mins(1);
    let took = |asked: &Recorded| asked.path.ends_with("/take") && asked.status == 200;
    while !gate.take().iter().any(took) {
        assert!(Instant::now() < deadline, "nothing was taken\n{}", agent.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_died_after_its_agent_is_replaced_when_that_agent_is_back_and_sees_it() {
    let world = World::new().await;
    let mut dying = world.agent("dying").await;
    let id = world.accept(1, 3, "1").await;
    let pid = job_process(&dying, &id).await;
    dying.kill();
    // No process can see whether the job lives: it is killed before its apply.
    processes::signal(pid, Signal::KILL);
    dying.start_again();
    let ended = world.assert_done_once(&id, 1, 3).await;
    assert_eq!(ended.attempts.len(), 2, "{ended:#?}");
    world.assert_nothing_left(&dying, &id).await;
}

/// Waits until an agent goes on with a job of another agent. Without that agent's report the job is not
/// retried.
async fn until_it_goes_on(world: &World, heir: &Agent, id: &str) {
    let deadline = Instant::now() + Duration::from_mins(2);
    loop {
        let now = world.site.client.deployment(id).await.unwrap();
        if heir.said().contains("watching a job of an earlier session") {
            return;
        }
        assert_eq!(now.attempts.len(), 1, "no proof, no further attempt: {now:#?}");
        assert!(Instant::now() < deadline, "it does not go on: {now:#?}\n{}", heir.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_agent_on_a_dead_agents_machine_sees_its_job_dead_and_launches_it_again() {
    let world = World::new().await;
    // This runner never comes to its apply, however late it is killed.
    let idle = world.site.server.path("idle-runner");
    programs::script(&idle, "exec sleep 300\n");
    let mut spec = world.spec("dying");
    let program = idle.to_str().unwrap().to_owned();
    spec.variables.push(("CANYON_AGENT_RUNNER_PROGRAM".to_owned(), program));
    // An agent's folder stands for the machine of its jobs: two agents with one folder share a machine.
    let heirs = Spec { folder: spec.folder.clone(), ..world.spec("heir") };
    let mut dying = Agent::start(spec);
    world.until_agent(&dying, "dying", "wait for work", |view| view.availability == "idle").await;
    let id = world.accept(1, 3, "0.1").await;
    let pid = job_process(&dying, &id).await;
    dying.kill();
    processes::signal(pid, Signal::KILL);

    // From here on only the heir lives: the other agent never comes back.
    let heir = Agent::start(heirs);
    let since = Instant::now();
    until_it_goes_on(&world, &heir, &id).await;
    println!("the heir went on with the job {:?} after its agent's death", since.elapsed());
    let ended = world.assert_done_once(&id, 1, 3).await;
    assert_eq!(ended.attempts.len(), 2, "{ended:#?}");
    world.assert_nothing_left(&heir, &id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_leaves_returns_its_offers_at_once() {
    let world = World::new().await;
    let mut leaving = world.agent("leaving").await;
    let gate = Gate::start(&world.site.server.url()).await;
    let mut spec = world.spec("staying");
    spec.variables[0].1.clone_from(&gate.url);
    let waiting = world.gate.trap(Step::Take, Side::Before);
    let id = world.accept(1, 3, "0.1").await;
    let held = waiting.caught().await;
    let staying = Agent::start(spec);
    world
        .until_agent(&staying, "staying", "wait for work", |view| view.availability == "idle")
        .await;
    leaving.ask_to_end();
    held.lose();
    let since = Instant::now();
    leaving.ended(Duration::from_secs(30)).await;
    world.assert_done_once(&id, 1, 3).await;
    let took = since.elapsed();
    println!("what was offered to the leaving agent had ended {took:?} after its leave");
    assert!(took < Duration::from_secs(25), "{took:?}");
}
