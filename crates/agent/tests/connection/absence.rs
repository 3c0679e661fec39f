//! A network outage of an hour, during which the agent's job ends. The hour passes in paused time.

use crate::world::{Network, Seen, World, http, listen, work};
use canyon_agent::settings::identity::SourceSettings;
use canyon_agent::sign_in::SignIn;
use canyon_agent::sign_in::exchange::Exchange;
use canyon_agent::sign_in::source::Source;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio::time::Instant;

const HALF: Duration = Duration::from_mins(30);
/// The agent is back within this time. A poll without an answer takes 55 s, and the longest pause after it 30 s. A request
/// that waits for a new token may come one pause later.
const SOON: Duration = Duration::from_mins(2);

/// Lets time pass without any answer, as fast as the agent's timers allow.
async fn pass(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        // In small steps: paused time jumps to the next timer while bytes are in transit, and then a connection that is closed
        // would look like one that never answers.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Lets a second pass, and the requests in transit be answered, because sockets take real time. Paused time does not
/// advance while a blocking task runs ("Preventing auto-advance" of [`tokio::time::pause`]).
async fn tick() {
    tokio::time::advance(Duration::from_secs(1)).await;
    let in_transit = || std::thread::sleep(Duration::from_millis(5));
    tokio::task::spawn_blocking(in_transit).await.unwrap();
}

/// Half an hour in which every request fails. Checks the number of requests.
async fn half_an_hour(world: &World, network: Network, tries: RangeInclusive<u32>) {
    let before = {
        let mut seen = world.lock().unwrap();
        seen.network = network;
        seen.failed
    };
    pass(HALF).await;
    let made = world.lock().unwrap().failed - before;
    assert!(tries.contains(&made), "{made} tries, not {tries:?}");
}

/// What an agent did whose job ended during an outage of an hour.
async fn through_an_outage(world: &World, url: &str, sign_in: SignIn) -> Seen {
    let outage = async {
        let begun = Instant::now();
        while world.lock().unwrap().reports.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(20), "the job was never reported");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::pause();
        world.lock().unwrap().is_over = true;
        // One task polls and one reports. Each pauses for 15 to 30 s, after seven shorter pauses. In addition, the slot
        // that the job frees causes a poll at once.
        half_an_hour(world, Network::Refusing, 100..=2 * (1800 / 15 + 8) + 1).await;
        // In addition, the poll waits for 55 s and the report for 30 s. Without a token, both wait for one exchange.
        half_an_hour(world, Network::Silent, 30..=1800 / 70 + 1800 / 45 + 4).await;

        let polls = {
            let mut seen = world.lock().unwrap();
            seen.network = Network::Open;
            seen.polls.len()
        };
        let back = Instant::now();
        let is_back = |seen: &Seen| seen.reports.len() > 1 && seen.polls.len() > polls;
        while !is_back(&world.lock().unwrap()) {
            assert!(back.elapsed() < SOON, "no report after {:?}", back.elapsed());
            tick().await;
        }
        for _ in 0..60 {
            tick().await;
        }
        tokio::time::resume();
    };
    let seen = work(world, url, sign_in, outage).await;
    assert_eq!(seen.started.len(), 1, "{:?}", seen.started);
    let states = seen.reports.iter().map(|report| report["observation"]["state"].as_str().unwrap());
    assert_eq!(states.collect::<Vec<_>>(), ["alive", "gone"], "each state is reported once");
    seen
}

#[tokio::test]
async fn after_an_outage_of_an_hour_the_agent_reports_its_jobs_end_once() {
    let world = World::default();
    let url = listen(&world).await;
    let seen = through_an_outage(&world, &url, SignIn::Token("t".into())).await;
    assert_eq!((seen.sessions, seen.takes.len()), (1, 1), "the session continues");
}

#[tokio::test]
async fn an_agent_whose_token_expired_during_an_outage_signs_in_again_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "h.c.s").unwrap();
    let world = World::default();
    let url = listen(&world).await;
    let source = Source::of(&SourceSettings::File(file)).unwrap();
    let (org, account) = ("acme".parse().unwrap(), "agents".parse().unwrap());
    let exchange = Exchange::new(http(), &url, &org, account, source);
    let sign_in = SignIn::ServiceAccount(Box::new(exchange));
    let seen = through_an_outage(&world, &url, sign_in).await;
    assert_eq!(seen.tokens.len(), 2, "one before and one after the outage");
    assert_eq!(seen.takes.len(), 1);
}
