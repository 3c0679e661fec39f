//! The program `canyon-agent` with Canyon's functions: what it does with their rights alone, and what it
//! costs.

use crate::companion::{AgentSite, NAME};
use crate::harness::deployments::assert_succeeded;
use crate::harness::{ledger, processes};
use canyon_cloud::front::Record;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long the test watches an idle agent.
const IDLE: Duration = Duration::from_secs(16);

/// A site where an agent has launched a deployment.
pub(crate) async fn deployed() -> AgentSite {
    let far = AgentSite::new().await;
    let id = far.begin(1, "1").await;
    assert_succeeded(&far.site.end(&id).await);
    far.is_cleared().await;
    far
}

/// The table's requests in these records, by function and operation.
fn asked(records: &[Record]) -> BTreeMap<(&str, &str), usize> {
    let mut asked = BTreeMap::new();
    for record in records.iter().filter(|record| record.action.starts_with("dynamodb:")) {
        *asked.entry((record.function.as_str(), record.action.as_str())).or_default() += 1;
    }
    asked
}

/// Watches an idle agent, and returns how often it polled.
async fn watch_idle(far: &AgentSite) -> usize {
    let front = &far.site.server.cloud().front;
    front.forget();
    tokio::time::sleep(IDLE).await;
    let records = front.records();
    let asked = asked(&records);
    println!("idle for {IDLE:?}: {asked:?}");
    let of_api: usize =
        asked.iter().filter(|((function, _), _)| *function == "api").map(|(_, count)| count).sum();
    let polls = asked[&("api", "dynamodb:PutItem")];
    // Up to five requests of a poll whose record came before the watch began.
    assert!(of_api <= 6 * polls + 5, "each time it asks costs {of_api} / {polls}: {asked:?}");
    // Lambda polls the stream all the time, in the role's name and at no cost.
    let is_woken = |(function, action): &(&str, &str)| {
        *function == "launcher" && *action != "dynamodb:GetRecords"
    };
    assert!(
        !asked.keys().any(is_woken),
        "an agent's reports about itself wake no function: {asked:?}"
    );
    polls
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_beside_the_functions_deploys_and_cancels_and_costs_little_when_it_is_idle() {
    let far = AgentSite::new().await;
    // The template's `AgentPollSeconds` is 5.
    let polls = watch_idle(&far).await;
    assert!((2..=4).contains(&polls), "{polls} times in {IDLE:?}");

    let began = Instant::now();
    let id = far.begin(1, "2").await;
    println!("the apply began after {:?}", began.elapsed());
    assert!(
        processes::runners(&far.site.server.data()).is_empty(),
        "nothing runs beside the functions"
    );
    let ended = far.site.end(&id).await;
    assert_succeeded(&ended);
    assert_eq!(ended.attempts.len(), 1);
    ledger::assert_once(&far.site.server.path("ledger"), 1, 1);

    let id = far.begin(2, "300").await;
    let began = Instant::now();
    far.site.client.cancel(&id).await.unwrap();
    assert_eq!(far.site.end(&id).await.status, "cancelled");
    println!("cancelled after {:?}", began.elapsed());
    far.is_cleared().await;
    let agent = far.site.client.get(&["agents", NAME]).await.unwrap();
    assert_eq!(agent["session"]["number"], 1, "it was never sent away: {agent}");
    let denied = far.site.server.cloud().front.denied();
    assert!(denied.is_empty(), "{denied:#?}");
}
