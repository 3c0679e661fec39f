//! The agent: it runs in a network that Canyon cannot connect to. It connects to Canyon, asks for work, and launches
//! jobs on the platform there: Kubernetes, ECS, Docker or plain processes.
//!
//! One loop opens sessions and asks for work ([`agent_loop`](self)), one delivers reports about jobs. Each job has a small
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
use crate::backoff::Backoff;
use crate::connection::ApiConnection;
use crate::exit::Exit;
use crate::kinds::Kind;
use crate::next::Next;
use crate::reporter::Reporter;
use crate::settings::Settings;
use crate::sign_in::SignIn;
use crate::status::Status;
use crate::stop::Stop;
use crate::unconfirmed_takes::UnconfirmedTakes;
use canyon_api::client::Client;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

/// After a session of at least this length, the backoff starts over.
const STABLE_SESSION: Duration = Duration::from_mins(1);

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
    match sign_in::of(&settings, &http).await {
        Ok(sign_in) => run_as(settings, kind, sign_in, http, stop).await,
        Err(exit) => exit,
    }
}

fn http_client(settings: &Settings) -> Result<reqwest::Client, Exit> {
    connection::http_client(settings.authorities.as_ref()).map_err(Exit::Settings)
}

/// As [`run`], with a platform and a proof of identity that the caller chooses.
pub async fn run_as(
    settings: Settings,
    kind: Arc<dyn Kind>,
    sign_in: SignIn,
    http: reqwest::Client,
    stop: Stop,
) -> Exit {
    let status = Arc::new(Status::default());
    let mut others = JoinSet::new();
    if let Some(listen) = settings.listen_health {
        match listen.bind().await {
            Ok(listener) => others.spawn(health::serve(listener, status.clone())),
            Err(error) => {
                let message =
                    format!("CANYON_AGENT_LISTEN_HEALTH: cannot listen on {listen}: {error}");
                return Exit::Settings(message);
            }
        };
    }
    let client = Client::over(http, &settings.api_url, settings.org.as_str());
    let api = Arc::new(ApiConnection::new(client, &settings.name, sign_in));
    log_start(&settings, &api);
    let (reporter, reports) = Reporter::new(status.clone());
    let (session, sessions) = watch::channel(None);
    let (losing, lost) = mpsc::unbounded_channel();
    let (waiting, undelivered) = watch::channel(0);
    others.spawn(reporter::deliver(api.clone(), reports, sessions, losing, waiting));
    let mut agent = AgentLoop {
        settings: Arc::new(settings),
        api,
        kind,
        status,
        stop,
        reporter,
        lost,
        undelivered,
        session,
        jobs: HashMap::new(),
        tasks: JoinSet::new(),
        freed: Arc::new(Notify::new()),
        unconfirmed: UnconfirmedTakes::default(),
        has_taken: false,
        unknown: Vec::new(),
        stands_by: false,
    };
    agent.run().await
}

fn log_start(settings: &Settings, api: &ApiConnection) {
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    let kind = settings.dispatcher.kind.as_str();
    let fingerprint = api.fingerprint().unwrap_or_default();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        agent = %settings.name,
        org = %settings.org,
        api = settings.api_url,
        kind,
        fingerprint,
        "agent starts"
    );
}

impl AgentLoop {
    async fn run(&mut self) -> Exit {
        let mut backoff = Backoff::default();
        loop {
            let opened = match self.open().await {
                Ok(opened) => opened,
                Err(exit) => return exit,
            };
            let Some(session) = opened.session else { continue };
            tracing::info!(session, held = opened.held.len(), "session opened");
            self.status.answered(Some(session));
            self.begin(opened);
            self.session.send_replace(Some(session));
            let since = Instant::now();
            match self.work(session).await {
                Next::Exit(exit) => return exit,
                Next::StandBy(reason) => {
                    self.stand_by(&reason);
                    backoff.reset();
                }
                Next::Reopen => {
                    self.session.send_replace(None);
                    if since.elapsed() > STABLE_SESSION {
                        backoff.reset();
                    }
                    self.rest(backoff.pause()).await;
                }
            }
        }
    }
}
