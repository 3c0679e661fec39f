//! The agent: it runs in a network that Canyon cannot connect to. It connects to Canyon, asks for work, and launches
//! jobs on the platform there: Kubernetes, ECS, Docker or plain processes.
//!
//! For each organization that it serves, one loop opens sessions and asks for work ([`agent_loop`](self)), and one
//! delivers reports about jobs. Each job has a small
//! loop of its own over the platform's `Dispatcher`. The agent keeps nothing that it needs after a restart: after a
//! `kill -9`, the answer to the next session names the jobs that it holds, and the agent finds them on the platform.

mod agent_loop;
pub mod arguments;
pub mod backoff;
pub mod check;
pub mod connection;
pub mod exit;
pub mod health;
mod job;
mod job_api_url;
mod job_name;
pub mod kinds;
pub mod logging;
mod next;
mod organizations;
mod places;
mod reporter;
mod session;
pub mod settings;
pub mod sign_in;
pub mod status;
pub mod stop;
mod take;
mod unconfirmed_takes;
mod unreadable_job;
mod work;

use crate::agent_loop::AgentLoop;
use crate::connection::ApiConnection;
use crate::exit::Exit;
use crate::health::Health;
use crate::kinds::Kind;
use crate::places::Places;
use crate::reporter::Reporter;
use crate::settings::Settings;
use crate::settings::served::Served;
use crate::sign_in::SignIn;
use crate::status::Status;
use crate::stop::Stop;
use crate::unconfirmed_takes::UnconfirmedTakes;
use canyon_api::client::Client;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Runs the agent until it is asked to end.
pub async fn run(settings: Settings, stop: Stop) -> Exit {
    let kind = match kinds::of(&settings) {
        Ok(kind) => kind,
        Err(error) => return Exit::Settings(error.to_string()),
    };
    let http = match http_client(&settings) {
        Ok(http) => http,
        Err(exit) => return exit,
    };
    let mut proofs = Vec::new();
    for served in &settings.served {
        match sign_in::of(&settings, served, &http).await {
            Ok(proof) => proofs.push((served.clone(), proof)),
            Err(exit) => return exit,
        }
    }
    run_as(settings, kind, proofs, http, stop).await
}

fn http_client(settings: &Settings) -> Result<reqwest::Client, Exit> {
    connection::http_client(settings.authorities.as_ref()).map_err(Exit::Settings)
}

/// As [`run`], with a platform, and with a proof of identity for each organization, that the caller chooses.
pub async fn run_as(
    settings: Settings,
    kind: Arc<dyn Kind>,
    proofs: Vec<(Served, SignIn)>,
    http: reqwest::Client,
    stop: Stop,
) -> Exit {
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    let settings = Arc::new(settings);
    let places = Places::new(if settings.single { 1 } else { settings.concurrency });
    let (mut loops, mut health, mut others) = (Vec::new(), Health::default(), JoinSet::new());
    for (served, proof) in proofs {
        let client = Client::over(http.clone(), &settings.api_url, served.org.as_str());
        let api = Arc::new(ApiConnection::new(client, &settings.name, proof));
        log_start(&settings, &served, &api);
        let status = Arc::new(Status::default());
        health.add(&served.org, status.clone());
        let (reporter, reports) = Reporter::new(status.clone());
        let (session, sessions) = watch::channel(None);
        let (losing, lost) = mpsc::unbounded_channel();
        let (waiting, undelivered) = watch::channel(0);
        others.spawn(reporter::deliver(api.clone(), reports, sessions, losing, waiting));
        loops.push(AgentLoop {
            settings: settings.clone(),
            served,
            api,
            kind: kind.clone(),
            status,
            stop: stop.clone(),
            reporter,
            lost,
            undelivered,
            session,
            jobs: HashMap::new(),
            tasks: JoinSet::new(),
            places: places.clone(),
            unconfirmed: UnconfirmedTakes::default(),
            has_taken: false,
            unknown: Vec::new(),
            stands_by: false,
        });
    }
    if let Some(listen) = settings.listen_health {
        match listen.bind().await {
            Ok(listener) => others.spawn(health::serve(listener, Arc::new(health))),
            Err(error) => {
                let message =
                    format!("CANYON_AGENT_LISTEN_HEALTH: cannot listen on {listen}: {error}");
                return Exit::Settings(message);
            }
        };
    }
    organizations::serve(loops).await
}

fn log_start(settings: &Settings, served: &Served, api: &ApiConnection) {
    let kind = settings.dispatcher.kind.as_str();
    let fingerprint = api.fingerprint().unwrap_or_default();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        agent = %settings.name,
        org = %served.org,
        api = settings.api_url,
        kind,
        fingerprint,
        "agent starts"
    );
}
