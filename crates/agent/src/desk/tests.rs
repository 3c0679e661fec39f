use super::*;
use crate::settings::faults::Faults;
use crate::settings::identity::Place;
use crate::settings::layers::Layer;
use crate::sign_in::SignIn;
use canyon_domain::agent_job::OFFER;
use serde_json::{Value, from_value, json};
use std::path::Path;

const ID: &str = "00000000-0000-7000-8000-000000000001";

/// Of an agent whose processes are in this folder.
fn settings(folder: &Path) -> Settings {
    let program = std::env::current_exe().unwrap();
    let own = [
        ("CANYON_API_URL", "https://canyon.example.com"),
        ("CANYON_RUNNER_PATH", "acme/far"),
        ("CANYON_AGENT_NAME", "east-1"),
        ("CANYON_JOB_DISPATCHER_TYPE", "local"),
        ("CANYON_AGENT_STATE_DIR", folder.to_str().unwrap()),
        ("CANYON_AGENT_RUNNER_PROGRAM", program.to_str().unwrap()),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut faults = Faults::default();
    let layer = Layer::of_environment(own, &mut faults);
    let place = Place { variable: &|_| None, exists: &|_| false };
    Settings::read(&layer, &place, faults).unwrap()
}

/// An agent that has nothing in hand.
fn desk(folder: &Path) -> Desk {
    let (settings, status) = (settings(folder), Arc::<Status>::default());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let (url, org, name) = (&settings.api_url, &settings.org, &settings.name);
    let line = Line::new(http, url, org, name, SignIn::Token("t".into()), Arc::default());
    Desk {
        line: Arc::new(line),
        kind: kinds::of(&settings).unwrap(),
        settings: Arc::new(settings),
        reporter: Reporter::new(status.clone()).0,
        status,
        stop: Stop::of(watch::channel(0).1),
        lost: mpsc::unbounded_channel().1,
        undelivered: watch::channel(0).1,
        session: watch::channel(None).0,
        jobs: HashMap::new(),
        tasks: JoinSet::new(),
        freed: Arc::default(),
        in_doubt: InDoubt::default(),
        has_taken: false,
        unknown: Vec::new(),
        stands_by: false,
    }
}

fn job(attempt: u32) -> JobKey {
    from_value(json!({ "runner": ID, "deployment": ID, "attempt": attempt })).unwrap()
}

/// A session in which the agent holds a job of a kind that it does not launch.
fn holding(job: JobKey, wish: Wish) -> SessionOpened {
    let order = json!({
        "org_id": "acme", "runner_id": "far", "kind": "kubernetes-agent", "project": "shop", "env": "dev",
        "definition": {}, "launched_at": "2026-01-01T10:00:00Z",
    });
    opened(&json!([{ "job": job, "order": order, "wish": wish }]))
}

fn opened(held: &Value) -> SessionOpened {
    let opened =
        json!({ "session": 2, "state": "adopted", "protocol": 1, "pause_ms": 0, "held": held });
    from_value(opened).unwrap()
}

/// What is asked for at once in this session, when the first job was asked for in vain before it, and the second is
/// offered in it.
fn asked_for_at_once_in(opened: SessionOpened) -> Vec<JobKey> {
    let folder = tempfile::tempdir().unwrap();
    let mut desk = desk(folder.path());
    desk.in_doubt.jobs.push(job(1));
    desk.in_doubt.failed(1, Some(OFFER));
    assert!(desk.in_doubt.due().is_empty(), "not before its time");
    desk.begin(opened);
    desk.in_doubt.jobs.push(job(2));
    desk.in_doubt.due().to_vec()
}

#[tokio::test]
async fn once_a_session_leaves_nothing_in_doubt_what_is_offered_next_is_taken_at_once() {
    let is_not_its_own = asked_for_at_once_in(opened(&json!([])));
    assert_eq!(is_not_its_own, [job(2)]);
    let is_never_to_start = asked_for_at_once_in(holding(job(1), Wish::Stop));
    assert_eq!(is_never_to_start, [job(2)]);
    let is_in_doubt_still = asked_for_at_once_in(holding(job(1), Wish::Run));
    assert!(is_in_doubt_still.is_empty(), "{is_in_doubt_still:?}");
}
