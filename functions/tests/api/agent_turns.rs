//! How offers rotate among agents, although launchers do not communicate.

use crate::agent_world::{far_away, job, open, order, say, token};
use canyon_domain::agent::choose_agent;
use canyon_domain::runner::RunnerType;
use serde_json::json;

#[tokio::test]
async fn what_a_launcher_has_offered_is_its_agents_turn_once_that_hears_of_it() {
    let api = far_away().await;
    let (org, table, token) = (api.ours.uuid, &api.app.table, token(&api, json!({})).await);
    for agent in ["berlin", "boston"] {
        open(&api, &token, agent, "a").await;
    }
    let (_, key) = order(&api).await;
    let (agents, now) = (table.all_agents(org).await.unwrap(), api.app.now());
    let first =
        choose_agent(&agents, |agent| agent.has_room(RunnerType::DockerAgent, now)).unwrap();
    let mut offered = job(&api, &key).await.unwrap();
    assert!(first.id.as_str() == "berlin" && offered.offer(first, &agents, now));
    offered.version += 1;
    table.save_agent_job(org, &offered, now).await.unwrap();

    let poll = json!({ "running": 0, "wait_seconds": 0 });
    let work = say(&api, &token, "berlin/sessions/1/poll", poll).await.1;
    assert_eq!(work["offers"], json!([key]));
    let (agents, now) = (table.all_agents(org).await.unwrap(), api.app.now());
    let is_idle: Vec<_> =
        agents.iter().map(|agent| agent.session.as_ref().unwrap().is_idle(now)).collect();
    assert_eq!(is_idle, [false, true], "it has work to do");
    let next = choose_agent(&agents, |agent| agent.has_room(RunnerType::DockerAgent, now)).unwrap();
    assert_eq!(next.id.as_str(), "boston", "although neither runs anything yet");
}
