use super::*;
use crate::settings::faults::Faults;
use crate::settings::identity::Machine;
use crate::settings::layers::Layer;
use crate::sign_in::SignIn;
use canyon_api::client::Client;
use canyon_domain::agent_job::OFFER_TIMEOUT;
use serde_json::{Value, from_value, json};
use std::path::Path;

const ID: &str = "00000000-0000-7000-8000-000000000001";

/// The settings of an agent whose state is in `folder`.
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
    let machine = Machine { variable: &|_| None, exists: &|_| false };
    Settings::read(&layer, &machine, faults).unwrap()
}

/// An agent without jobs.
fn agent_loop(folder: &Path) -> AgentLoop {
    let (settings, status) = (settings(folder), Arc::<Status>::default());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let (url, name, served) = (&settings.api_url, &settings.name, settings.served[0].clone());
    let client = Client::over(http, url, served.org.as_str());
    let api = ApiConnection::new(client, name, SignIn::Token("t".into()));
    AgentLoop {
        api: Arc::new(api),
        kind: kinds::of(&settings).unwrap(),
        settings: Arc::new(settings),
        served,
        reporter: Reporter::new(status.clone()).0,
        status,
        stop: Stop::of(watch::channel(0).1),
        lost: mpsc::unbounded_channel().1,
        undelivered: watch::channel(0).1,
        session: watch::channel(None).0,
        jobs: HashMap::new(),
        tasks: JoinSet::new(),
        places: Places::new(10),
        unconfirmed: UnconfirmedTakes::default(),
        has_taken: false,
        unknown: Vec::new(),
        stands_by: false,
    }
}

fn job(attempt: u32) -> JobKey {
    from_value(json!({ "runner": ID, "deployment": ID, "attempt": attempt })).unwrap()
}

/// A session in which the agent holds a job of a type that it does not launch.
fn holding(job: JobKey, desired: DesiredState) -> SessionOpened {
    let order = json!({
        "org_id": "acme", "runner_id": "far", "kind": "kubernetes-agent", "project": "shop", "env": "dev",
        "definition": {}, "launched_at": "2026-01-01T10:00:00Z",
    });
    opened(&json!([{ "job": job, "order": order, "wish": desired }]))
}

fn opened(held: &Value) -> SessionOpened {
    let opened =
        json!({ "session": 2, "state": "adopted", "protocol": 1, "pause_ms": 0, "held": held });
    from_value(opened).unwrap()
}

/// The jobs that are due at once in this session. The take of the first job has failed before the session, and the second
/// one is offered in it.
fn due_at_once_in(opened: SessionOpened) -> Vec<JobKey> {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = agent_loop(folder.path());
    agent.unconfirmed.add(vec![job(1)], &agent.places);
    agent.unconfirmed.failed(1, Some(OFFER_TIMEOUT));
    assert!(agent.unconfirmed.due().is_empty(), "not before its time");
    agent.begin(opened);
    agent.unconfirmed.add(vec![job(2)], &agent.places);
    agent.unconfirmed.due().to_vec()
}

#[tokio::test]
async fn once_a_session_leaves_no_take_unconfirmed_the_next_offer_is_taken_at_once() {
    let not_held = due_at_once_in(opened(&json!([])));
    assert_eq!(not_held, [job(2)]);
    let never_to_start = due_at_once_in(holding(job(1), DesiredState::Stop));
    assert_eq!(never_to_start, [job(2)]);
    let still_unconfirmed = due_at_once_in(holding(job(1), DesiredState::Run));
    assert!(still_unconfirmed.is_empty(), "{still_unconfirmed:?}");
}
