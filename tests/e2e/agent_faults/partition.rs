//! The connection between an agent and Canyon is cut and restored.

use super::world::{AGENT, World};
use std::time::{Duration, Instant};

/// Longer than a job in this test, and than several retries of the agent.
const CUT: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_was_cut_off_reports_and_takes_jobs_afterwards() {
    let world = World::new().await;
    world.site.environment("second").await;
    let mut agent = world.agent(AGENT).await;
    let running = world.accept(1, 3, "2").await;
    world.until_begun(1).await;
    world.gate.cut(true);
    let since = Instant::now();

    // The job itself is not cut off: it comes to its end, and the next one waits.
    let ended = world.assert_done_once(&running, 1, 3).await;
    assert_eq!(ended.attempts.len(), 1, "{ended:#?}");
    let next = world.accept(2, 3, "0.1").await;
    tokio::time::sleep(CUT.saturating_sub(since.elapsed())).await;
    let waiting = world.site.client.deployment(&next).await.unwrap();
    assert!(waiting.completed_at.is_none(), "no agent could take it: {waiting:#?}");
    assert!(agent.lives(), "{}", agent.log());

    world.gate.cut(false);
    let since = Instant::now();
    let ended = world.assert_done_once(&next, 2, 3).await;
    assert_eq!(ended.attempts.len(), 1, "{ended:#?}");
    println!("the waiting one had ended {:?} after the connection was back", since.elapsed());
    for id in [&running, &next] {
        world.assert_nothing_left(&agent, id).await;
    }
}
