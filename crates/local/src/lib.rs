//! Canyon as one process on a laptop: the same router and the same launcher as on AWS, over an
//! embedded DynamoDB.
//!
//! The differences are wiring alone. The table is a SQLite file behind the same SDK client; blobs
//! are files; keys are files; and what a stream record does on AWS, a committed write does here: it
//! wakes the launcher, which looks at the table for what is due.

mod bootstrap;
mod environment_file;
mod launching;
mod listener;

use canyon_functions::App;
use canyon_functions::app::agent_desk::AgentDesk;
use canyon_functions::app::authentication::Recent;
use canyon_functions::app::token_exchange::SignIns;
use canyon_functions::changes::Changes;
use canyon_functions::http::{HttpSettings, Issuers};
use canyon_identity::file_signer::FileSigner;
use canyon_identity::issuer::{Issuer, of_jobs};
use canyon_identity::key_file::{self, KeyFileError};
use canyon_identity::master_key::{InvalidKey, KEY_LENGTH, MasterKey};
use canyon_identity::master_keys::MasterKeys;
use canyon_identity::system::System;
use canyon_identity::verify::{PrivateIssuers, PrivateIssuersError};
use canyon_store::blobs::Blobs;
use canyon_store::embedded::Embedded;
use canyon_store::{StoreError, Table};
use rustix::fs::Mode;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How long requests that are being answered may take when the process is asked to end.
const DRAIN: Duration = Duration::from_secs(3);

/// Where to listen, and where to keep everything.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of the API. Whoever can connect still needs a token.
    pub listen: SocketAddr,
    /// The folder of the table, blobs, keys and jobs; made if it is absent, for its owner alone.
    pub data_dir: PathBuf,
    /// Where jobs on other machines reach the API, if not where it listens.
    pub advertise_url: Option<String>,
    /// Canyon's name as an OIDC issuer; where it listens, without it, which no cloud will trust.
    pub issuer_url: Option<String>,
    /// The image of jobs in clusters and on ECS whose runner names no other.
    pub runner_image: Option<String>,
    /// Issuers on an inner network whose keys Canyon may fetch.
    pub private_issuers: Vec<String>,
    /// The file with the authority of their certificates, if not one that the system trusts.
    pub private_issuers_ca: Option<PathBuf>,
}

/// What to tell whoever started it.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The address of the API.
    pub url: String,
    /// The file to source for the command line's settings.
    pub environment_file: PathBuf,
}

/// Why it did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The kernel does not keep the master key from the modules of local jobs.
    #[error("the kernel does not keep Canyon's keys from the modules of local jobs")]
    Unprotected(#[source] std::io::Error),
    /// The table or the blobs cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A key cannot be read or made.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The master key file has another length.
    #[error("the master key in `{}` is damaged; restore it from a backup", path.display())]
    MasterKey {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: InvalidKey,
    },
    /// The issuers that it may ask for keys are none, or their authority is none.
    #[error(transparent)]
    PrivateIssuers(#[from] PrivateIssuersError),
    /// The address is taken or not ours.
    #[error(
        "cannot listen on {address}; is another Canyon running there? choose another with --listen"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The program of jobs is missing.
    #[error(
        "there is no `canyon-runner` beside `canyon` or on the PATH; install both programs in the same folder"
    )]
    NoRunner,
    /// What launches jobs has stopped.
    #[error("the launcher stopped; its last words are in the log above. Start Canyon again")]
    Launcher,
    /// The server stopped by itself.
    #[error("the server stopped")]
    Serve(#[source] std::io::Error),
}

/// Serves until the process is asked to end (SIGTERM, SIGINT). Jobs go on without it; the next
/// start takes them over.
///
/// # Errors
///
/// [`LocalError`] says what to change.
pub async fn run(settings: Settings, on_ready: impl FnOnce(&Ready)) -> Result<(), LocalError> {
    canyon_dispatch::local::protect_this_process().map_err(LocalError::Unprotected)?;
    log_to_stderr();
    // Whatever is written, by SQLite too, is for its owner alone.
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let limits = listener::Limits::of_descriptors(listener::descriptors::raise());
    let runner = launching::runner_program().ok_or(LocalError::NoRunner)?;
    let data_dir = absolute(&settings.data_dir)?;
    // A wait holds a connection. Some are left for requests that are answered at once.
    let changes = Changes::new(Duration::from_secs(1)).telling_deployments();
    let (changes, ends) = changes.with_most_waits(limits.connections / 4 * 3).telling_ends();
    let hints = changes.clone();
    let on_write = Arc::new(move |request: &[u8]| hints.written(request));
    let embedded = Embedded::open_telling(&data_dir.join("canyon.db"), on_write)?;
    let table = Table::new(embedded.client(), "canyon");
    table.ensure().await?;
    let listener = TcpListener::bind(settings.listen)
        .await
        .map_err(|source| LocalError::Listen { address: settings.listen, source })?;
    let address = listener.local_addr().map_err(LocalError::Serve)?;
    let url = format!("http://{address}");
    let private_issuers =
        PrivateIssuers::new(&settings.private_issuers, settings.private_issuers_ca)?;
    let issuers = issuers(settings.issuer_url.as_deref().unwrap_or(&url), &data_dir.join("keys"));
    let app = App {
        table,
        blobs: Blobs::folder(&data_dir.join("blobs"))?,
        clock: Arc::new(System),
        entropy: Arc::new(System),
        master_keys: Arc::new(MasterKeys::known(master_key(&data_dir.join("keys/master.key"))?)),
        issuer_url: issuers.runners.url().to_owned(),
        job_issuer: issuers.jobs.clone(),
        // The owner of the laptop has the admin's token, which is an operator's too.
        operator: None,
        changes,
        sign_ins: Arc::new(SignIns::new(private_issuers, Arc::new(System))),
        authenticated: Recent::default(),
        agents: AgentDesk::hinted(),
        api_url: settings.advertise_url.unwrap_or_else(|| url.clone()),
        up_since: canyon_domain::seam::Clock::now(&System),
        job_token_life: canyon_functions::app::job_tokens::LIFE,
        serves_local_runners: true,
    };
    let environment_file = data_dir.join("env");
    bootstrap::organization(&app, &url, &environment_file).await?;
    let place = launching::Place {
        api_url: app.api_url.clone(),
        issuer: issuers.runners.clone(),
        runner,
        runner_image: settings.runner_image,
        data_dir,
    };
    let mut launching = tokio::spawn(launching::run(app.clone(), ends, embedded, place));
    let router = canyon_functions::http::router(app, Some(issuers), &HttpSettings::default());
    // Registered once, before anyone is told to connect: a signal that comes now must be heard.
    let signals = end_signals();
    let (ending, ended) = watch::channel(());
    let server = tokio::spawn(listener::serve(listener, router, limits, ended));
    on_ready(&Ready { url, environment_file });
    let asked = launching::until_asked(asked_to_end(signals), &mut launching).await;
    drop(ending);
    launching.abort();
    asked?;
    // Long polls are cut after a moment: their callers ask again.
    let _ = tokio::time::timeout(DRAIN, server).await;
    Ok(())
}

/// What is logged without `CANYON_LOG`: not each request.
///
/// Kubernetes' client repeats at `warn` the whole answer that it cannot read, which is as long as the cluster likes.
const QUIET: &str = "info,canyon_functions::http::access=warn,kube_client=error";

/// What happens goes to the standard error stream; `CANYON_LOG` says how much (`warn`, `debug`,
/// `canyon_launcher=debug`, ...). A program that has set up its own logging keeps it.
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("CANYON_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(QUIET));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .try_init();
}

fn absolute(path: &Path) -> Result<PathBuf, LocalError> {
    std::path::absolute(path).map_err(|source| LocalError::File { path: path.to_owned(), source })
}

/// The issuer whose name is `url`, and that of jobs below it, each with a key of its own in the folder `keys`.
fn issuers(url: &str, keys: &Path) -> Issuers {
    let issuer = |url: &str, key: &str| {
        let signer = Arc::new(FileSigner::new(&keys.join(key)));
        Arc::new(Issuer::new(url, signer, Vec::new(), Arc::new(System), Arc::new(System)))
    };
    Issuers { runners: issuer(url, "issuer.pk8"), jobs: issuer(&of_jobs(url), "job-issuer.pk8") }
}

fn master_key(path: &Path) -> Result<MasterKey, LocalError> {
    let key = key_file::load_or_create(path, || {
        let mut bytes = vec![0; KEY_LENGTH];
        canyon_domain::seam::Entropy::fill(&System, &mut bytes);
        bytes
    })?;
    MasterKey::new(&key).map_err(|source| LocalError::MasterKey { path: path.to_owned(), source })
}

/// `None` if this process cannot hear signals; SIGKILL ends it then, and nothing is lost by that.
fn end_signals() -> Option<(Signal, Signal)> {
    signal(SignalKind::terminate()).ok().zip(signal(SignalKind::interrupt()).ok())
}

async fn asked_to_end(signals: Option<(Signal, Signal)>) {
    let Some((mut terminate, mut interrupt)) = signals else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
