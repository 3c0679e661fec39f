//! An hour in which the agent reaches nobody, and its job ends. The hour passes in paused time.

use crate::world::{Seen, Way, World, http, listen, work};
use canyon_agent::settings::identity::SourceSettings;
use canyon_agent::sign_in::SignIn;
use canyon_agent::sign_in::exchange::Exchange;
use canyon_agent::sign_in::source::Source;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio::time::Instant;

const HALF: Duration = Duration::from_mins(30);
/// A request for work without an answer takes 55 s, and the longest pause after it 30 s. What waits for a new token
/// may have its turn one pause later.
const SOON: Duration = Duration::from_mins(2);

/// Lets time pass in which nothing is answered, as fast as the agent's timers allow.
async fn fly(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        // By small steps: paused time goes on to the next timer while bytes are on their way, and a connection that is
        // closed would look like one that is never answered.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Lets a second pass, and what was sent meanwhile be answered: sockets take real time. While a blocking task runs,
/// paused time stands still ("Preventing auto-advance" of [`tokio::time::pause`]).
async fn tick() {
    tokio::time::advance(Duration::from_secs(1)).await;
    let on_the_way = || std::thread::sleep(Duration::from_millis(5));
    tokio::task::spawn_blocking(on_the_way).await.unwrap();
}

/// Half an hour in which every try is in vain; as many tries are expected.
async fn half_an_hour(world: &World, way: Way, tries: RangeInclusive<u32>) {
    let before = {
        let mut seen = world.lock().unwrap();
        seen.way = way;
        seen.in_vain
    };
    fly(HALF).await;
    let made = world.lock().unwrap().in_vain - before;
    assert!(tries.contains(&made), "{made} tries, not {tries:?}");
}

/// What an agent did whose job was started, and ended in an hour in which it reached nobody.
async fn an_hour_alone(world: &World, url: &str, sign_in: SignIn) -> Seen {
    let alone = async {
        let begun = Instant::now();
        while world.lock().unwrap().reports.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(20), "the job was never heard of");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::pause();
        world.lock().unwrap().is_over = true;
        // One asks for work and one reports. Each pauses for 15 to 30 s, after seven shorter pauses; and the place
        // that the job leaves is told of at once.
        half_an_hour(world, Way::Refused, 100..=2 * (1800 / 15 + 8) + 1).await;
        // Besides, one waits for 55 s and one for 30 s until it gives up; without a token both wait for one exchange.
        half_an_hour(world, Way::Silent, 30..=1800 / 70 + 1800 / 45 + 4).await;

        let polls = {
            let mut seen = world.lock().unwrap();
            seen.way = Way::Open;
            seen.polls.len()
        };
        let back = Instant::now();
        let is_heard = |seen: &Seen| seen.reports.len() > 1 && seen.polls.len() > polls;
        while !is_heard(&world.lock().unwrap()) {
            assert!(back.elapsed() < SOON, "nothing is heard of it after {:?}", back.elapsed());
            tick().await;
        }
        for _ in 0..60 {
            tick().await;
        }
        tokio::time::resume();
    };
    let seen = work(world, url, sign_in, alone).await;
    assert_eq!(seen.started.len(), 1, "{:?}", seen.started);
    let states = seen.reports.iter().map(|report| report["observation"]["state"].as_str().unwrap());
    assert_eq!(states.collect::<Vec<_>>(), ["alive", "gone"], "each is said once");
    seen
}

#[tokio::test]
async fn an_agent_that_reached_nobody_for_an_hour_tells_once_what_became_of_its_job() {
    let world = World::default();
    let url = listen(&world).await;
    let seen = an_hour_alone(&world, &url, SignIn::Token("t".into())).await;
    assert_eq!((seen.sessions, seen.takes.len()), (1, 1), "it goes on where it was");
}

#[tokio::test]
async fn an_agent_whose_token_ended_while_it_reached_nobody_signs_in_again_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "h.c.s").unwrap();
    let world = World::default();
    let url = listen(&world).await;
    let source = Source::of(&SourceSettings::File(file)).unwrap();
    let (org, account) = ("acme".parse().unwrap(), "agents".parse().unwrap());
    let exchange = Exchange::new(http(), &url, &org, account, source);
    let sign_in = SignIn::ServiceAccount(Box::new(exchange));
    let seen = an_hour_alone(&world, &url, sign_in).await;
    assert_eq!(seen.tokens.len(), 2, "one for each side of the hour");
    assert_eq!(seen.takes.len(), 1);
}
