//! Agents whose clock is wrong.

use super::agent::Agent;
use super::world::{AGENT, World};
use crate::harness::programs;
use canyon_api::agent::AgentView;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// Where the C library keeps shared memory, and the prefixes of `faketime`'s names there, before its process id.
const SHARED_MEMORY: &str = "/dev/shm";
const OF_FAKETIME: [&str; 2] = ["faketime_shm_", "sem.faketime_sem_"];

/// Asserts by the times in the agent's log that its clock is off. A program that does not ask the C library for the
/// time would ignore `faketime`.
fn assert_off(agent: &Agent, view: &AgentView) {
    let (said, by_canyon) = (agent.said(), view.created_at);
    let mut by_agent = by_canyon;
    if let Some(first) = said.split_whitespace().find_map(|word| word.parse().ok()) {
        by_agent = first;
    }
    let off = by_agent.duration_since(by_canyon).as_secs().abs();
    assert!(off > 50 * 60, "its clock is off by {off} s only\n{said}");
}

/// The command prefix that sets a program's clock off by this much.
pub(crate) fn faketime(by: &str) -> Vec<OsString> {
    let faketime = programs::find("faketime").expect("`faketime` is missing; run scripts/setup");
    // The monotonic clock stays right, as on a real machine. `faketime` waits for the program, which must end with
    // it.
    let words = ["--exclude-monotonic", "-f", by, "setpriv", "--pdeathsig", "KILL", "--"];
    [faketime.into()].into_iter().chain(words.map(Into::into)).collect()
}

/// Removes the shared memory of killed `faketime` processes. A later `faketime` that gets the same process id would
/// not start.
pub(crate) fn clear_away_what_killed_ones_left() {
    let Ok(entries) = fs::read_dir(SHARED_MEMORY) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let of = |start: &str| name.to_str()?.strip_prefix(start)?.parse::<u32>().ok();
        let is_dead = |process: u32| !Path::new(&format!("/proc/{process}")).exists();
        if OF_FAKETIME.into_iter().find_map(of).is_some_and(is_dead) {
            // Another test may have removed the file already.
            let _ = fs::remove_file(entry.path());
        }
    }
}

async fn works_with_a_clock_that_is_off(by: &str, key: bool) {
    let world = World::new().await;
    let mut spec = world.spec(AGENT);
    if key {
        spec.variables.retain(|(name, _)| name != "CANYON_TOKEN");
    }
    spec.prefix = faketime(by);
    // Its jobs have right clocks: this test is about the agent alone.
    let mut agent = Agent::start(spec);
    if key {
        let pending = |view: &AgentView| view.state.as_str() == "pending";
        world.until_agent(&agent, AGENT, "ask to be adopted", pending).await;
        world.site.client.adopt_agent(AGENT).await.unwrap();
    }
    let is_idle = |view: &AgentView| view.availability == "idle";
    let view = world.until_agent(&agent, AGENT, "wait for work", is_idle).await;
    for round in 1..=3 {
        let id = world.accept(round, 2, "0.1").await;
        let ended = world.assert_done_once(&id, round, 2).await;
        assert_eq!(ended.attempts.len(), 1, "{ended:#?}");
        world.assert_nothing_left(&agent, &id).await;
    }
    assert_off(&agent, &view);
    // The same holds after a kill, when the agent has to learn the time again.
    agent.kill();
    agent.start_again();
    let id = world.accept(4, 2, "0.1").await;
    world.assert_done_once(&id, 4, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_a_key_and_a_clock_an_hour_ahead_works() {
    works_with_a_clock_that_is_off("+1h", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_a_key_and_a_clock_an_hour_behind_works() {
    works_with_a_clock_that_is_off("-1h", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_a_token_and_a_clock_an_hour_ahead_works() {
    works_with_a_clock_that_is_off("+1h", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_a_token_and_a_clock_an_hour_behind_works() {
    works_with_a_clock_that_is_off("-1h", false).await;
}
