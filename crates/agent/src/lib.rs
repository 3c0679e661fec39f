//! The companion of Canyon where nothing reaches in: it connects outward, asks for work, and launches jobs as
//! what its place has, Kubernetes, ECS, Docker or plain processes.
//!
//! One loop asks for work ([`work`](self)), one opens sessions, one delivers what became of jobs; each job is
//! a small loop of its own over the kind's `Dispatcher`. The agent keeps nothing that it could not do
//! without: after a `kill -9` the next session is told which jobs it holds, and finds them in its place.

pub mod arguments;
pub mod backoff;
pub mod check;
mod desk;
pub mod exit;
pub mod health;
mod job;
mod job_api_url;
pub mod kinds;
pub mod line;
pub mod logging;
mod reporter;
mod retry_after;
pub mod server_clock;
mod session;
pub mod settings;
pub mod sign_in;
pub mod status;
pub mod stop;
mod take;
mod unread_order;
mod work;

use crate::backoff::Backoff;
use crate::desk::Desk;
use crate::exit::Exit;
use crate::kinds::Kind;
use crate::line::Line;
use crate::reporter::Reporter;
use crate::server_clock::ServerClock;
use crate::settings::Settings;
use crate::sign_in::SignIn;
use crate::status::Status;
use crate::stop::Stop;
use crate::take::InDoubt;
use crate::work::Next;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

/// A session that held for so long was no failed try.
const STEADY: Duration = Duration::from_mins(1);

/// Works as an agent until it is asked to end.
pub async fn run(settings: Settings, stop: Stop) -> Exit {
    let kind = match kinds::of(&settings) {
        Ok(kind) => kind,
        Err(error) => return Exit::Settings(error.to_string()),
    };
    let http = match line_client(&settings) {
        Ok(http) => http,
        Err(exit) => return exit,
    };
    match sign_in::of(&settings, &http).await {
        Ok(sign_in) => run_as(settings, kind, sign_in, http, stop).await,
        Err(exit) => exit,
    }
}

fn line_client(settings: &Settings) -> Result<reqwest::Client, Exit> {
    line::http_client(settings.authorities.as_ref()).map_err(Exit::Settings)
}

/// The same with a kind and a proof of the caller's.
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
    let clock = Arc::new(ServerClock::default());
    let (url, org, name) = (&settings.api_url, &settings.org, &settings.name);
    let line = Arc::new(Line::new(http, url, org, name, sign_in, clock));
    say_start(&settings, &line);
    let (reporter, reports) = Reporter::new(status.clone());
    let (session, sessions) = watch::channel(None);
    let (losing, lost) = mpsc::unbounded_channel();
    let (waiting, undelivered) = watch::channel(0);
    others.spawn(reporter::deliver(line.clone(), reports, sessions, losing, waiting));
    let mut desk = Desk {
        settings: Arc::new(settings),
        line,
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
        in_doubt: InDoubt::default(),
        has_taken: false,
        unknown: Vec::new(),
        stands_by: false,
    };
    desk.run().await
}

fn say_start(settings: &Settings, line: &Line) {
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    let kind = settings.dispatcher.kind.as_str();
    let fingerprint = line.fingerprint().unwrap_or_default();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        agent = %settings.name,
        org = %settings.org,
        api = settings.api_url,
        kind,
        fingerprint,
        "starts"
    );
}

impl Desk {
    async fn run(&mut self) -> Exit {
        let mut backoff = Backoff::default();
        loop {
            let opened = match self.open().await {
                Ok(opened) => opened,
                Err(exit) => return exit,
            };
            let Some(session) = opened.session else { continue };
            tracing::info!(session, held = opened.held.len(), "session opened");
            self.status.heard(Some(session));
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
                    if since.elapsed() > STEADY {
                        backoff.reset();
                    }
                    self.rest(backoff.pause()).await;
                }
            }
        }
    }
}
