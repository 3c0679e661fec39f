//! Canyon as one process on a laptop: the same router and the same launcher as on AWS, over an
//! embedded DynamoDB.
//!
//! Only the wiring differs. The table is a SQLite file behind the same SDK client; blobs are files; keys are
//! files; and where a stream record wakes the launcher on AWS, a committed write that makes something due does so
//! here, and brings the deployment along as the record does.

mod bootstrap;
mod container_access;
mod containers;
mod environment_file;
mod launching;
mod listener;
mod schedules;

use canyon_functions::App;
use canyon_functions::app::agent_registry::AgentRegistry;
use canyon_functions::app::authentication::RecentTokens;
use canyon_functions::app::names::RecentNames;
use canyon_functions::app::token_exchange::SignInVerifier;
use canyon_functions::changes::Changes;
use canyon_functions::http::{HttpSettings, Issuers};
use canyon_identity::file_signer::FileSigner;
use canyon_identity::issuer::{Issuer, jobs_issuer_url};
use canyon_identity::key_file::{self, KeyFileError};
use canyon_identity::master_key::{InvalidKey, KEY_LENGTH, MasterKey};
use canyon_identity::master_keys::MasterKeys;
use canyon_identity::system::System;
use canyon_identity::verify::{PrivateIssuers, PrivateIssuersError};
use canyon_store::StoreError;
use canyon_store::blobs::Blobs;
use canyon_store::embedded::Embedded;
use canyon_store::write_requests::makes_due;
use container_access::ContainerAccess;
use containers::Containers;
use listener::Listeners;
use rustix::fs::Mode;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};

/// How long open requests may take to complete when the process is asked to end.
const DRAIN: Duration = Duration::from_secs(3);

/// The settings of `canyon local`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of the API. Every caller that can connect still needs a token.
    pub listen: SocketAddr,
    /// The folder of the table, blobs, keys and jobs. If it does not exist, it is created for its owner only.
    pub data_dir: PathBuf,
    /// The address at which jobs on other machines reach the API; default: the address of the API.
    pub advertise_url: Option<String>,
    /// Canyon's name as an OIDC issuer; default: the address of the API, which no cloud can trust.
    pub issuer_url: Option<String>,
    /// The image of jobs in clusters, on ECS and on Docker whose runner names none.
    pub runner_image: Option<String>,
    /// Issuers in a private network whose keys Canyon may fetch.
    pub private_issuers: Vec<String>,
    /// The file with the certificate authority of those issuers, if the system does not trust it.
    pub private_issuers_ca: Option<PathBuf>,
}

/// What the user needs to know once Canyon is ready.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The address of the API.
    pub url: String,
    /// The file to source for the command line's settings.
    pub environment_file: PathBuf,
}

/// Why Canyon did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The kernel cannot protect the master key from the modules of local jobs.
    #[error("the kernel cannot protect Canyon's keys from the modules of local jobs")]
    Unprotected(#[source] std::io::Error),
    /// The table or the blobs cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A key cannot be read or created.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The master key file has the wrong length.
    #[error("the master key in `{}` is damaged; restore it from a backup", path.display())]
    MasterKey {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: InvalidKey,
    },
    /// The private issuers, or the file with their authority, are invalid.
    #[error(transparent)]
    PrivateIssuers(#[from] PrivateIssuersError),
    /// The address is in use, or does not belong to this machine.
    #[error(
        "cannot listen on {address}; another Canyon may run there: choose another address with --listen"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// `canyon-runner` is missing.
    #[error(
        "`canyon-runner` is neither beside `canyon` nor on the PATH; install both programs in the same folder"
    )]
    NoRunner,
    /// The launcher has stopped.
    #[error("the launcher stopped; the log above has the reason. Start Canyon again")]
    Launcher,
    /// The server has stopped.
    #[error("the server stopped")]
    Serve(#[source] std::io::Error),
}

/// Runs until the process is asked to end (SIGTERM, SIGINT). Jobs continue without it, and the next start adopts them.
///
/// # Errors
///
/// [`LocalError`] says what to change.
pub async fn run(settings: Settings, on_ready: impl FnOnce(&Ready)) -> Result<(), LocalError> {
    canyon_dispatch::local::protect_this_process().map_err(LocalError::Unprotected)?;
    log_to_stderr();
    // All files, also those of SQLite, are readable only for their owner.
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let limits = listener::Limits::of_descriptors(listener::descriptors::raise());
    let runner = launching::runner_program().ok_or(LocalError::NoRunner)?;
    let data_dir = absolute(&settings.data_dir)?;
    // A long poll holds a connection. A quarter of the connections stays free for requests that are answered at once.
    let changes = Changes::new(Duration::from_secs(1)).with_deployment_events();
    let (changes, ends) = changes.with_max_waits(limits.connections / 4 * 3).with_published_ends();
    let hints = changes.clone();
    let (made_due, due) = mpsc::channel(launching::MAX_WRITTEN);
    let on_write = Arc::new(move |request: &[u8]| {
        hints.written(request);
        if makes_due(request, canyon_domain::ports::Clock::now(&System)) {
            // If the channel is full, the next pass of the launcher finds it.
            let _ = made_due.try_send(request.to_vec());
        }
    });
    let embedded = Embedded::open_with_request_hook(&data_dir.join("canyon.db"), on_write)?;
    let table = embedded.table("canyon");
    table.ensure().await?;
    let listener = TcpListener::bind(settings.listen)
        .await
        .map_err(|source| LocalError::Listen { address: settings.listen, source })?;
    let address = listener.local_addr().map_err(LocalError::Serve)?;
    let url = format!("http://{address}");
    let private_issuers =
        PrivateIssuers::new(&settings.private_issuers, settings.private_issuers_ca)?;
    let issuers = issuers(settings.issuer_url.as_deref().unwrap_or(&url), &data_dir.join("keys"));
    let (listeners, added) = mpsc::channel(1);
    let access = ContainerAccess::new(settings.advertise_url.as_deref(), address, listeners);
    let app = App {
        table,
        blobs: Blobs::folder(&data_dir.join("blobs"))?,
        clock: Arc::new(System),
        entropy: Arc::new(System),
        master_keys: Arc::new(MasterKeys::known(master_key(&data_dir.join("keys/master.key"))?)),
        issuer_url: issuers.runners.url().to_owned(),
        job_issuer: issuers.jobs.clone(),
        // The owner of the laptop has the admin's token, which is also an operator's token.
        operator: None,
        changes,
        sign_in_verifier: Arc::new(SignInVerifier::new(private_issuers, Arc::new(System))),
        authenticated: RecentTokens::default(),
        names: RecentNames::default(),
        agents: AgentRegistry::with_complete_hints(),
        api_url: settings.advertise_url.unwrap_or_else(|| url.clone()),
        up_since: canyon_domain::ports::Clock::now(&System),
        job_token_life: canyon_functions::app::job_tokens::LIFE,
        serves_local_runners: true,
    };
    let environment_file = data_dir.join("env");
    let org = bootstrap::organization(&app, &url, &environment_file).await?;
    let launch = launching::LaunchSettings {
        api_url: app.api_url.clone(),
        issuer: issuers.runners.clone(),
        runner,
        containers: Containers::new(settings.runner_image.clone(), access),
        runner_image: settings.runner_image,
        data_dir,
    };
    let mut launching = tokio::spawn(launching::run(app.clone(), org, ends, due, embedded, launch));
    let schedules = tokio::spawn(schedules::run(app.clone()));
    let router = canyon_functions::http::router(app, Some(issuers), &HttpSettings::default());
    // Registered before the address is printed, so that a signal that comes now is handled.
    let signals = end_signals();
    let (ending, ended) = watch::channel(());
    let server =
        tokio::spawn(listener::serve(Listeners::new(listener, added), router, limits, ended));
    on_ready(&Ready { url, environment_file });
    let asked = launching::until_asked(asked_to_end(signals), &mut launching).await;
    drop(ending);
    launching.abort();
    schedules.abort();
    asked?;
    // Long polls are cut after a moment; their callers retry.
    let _ = tokio::time::timeout(DRAIN, server).await;
    Ok(())
}

/// The log filter without `CANYON_LOG`. It leaves out the log of requests.
///
/// At `warn`, Kubernetes' client would log a whole answer that it cannot parse, however long that is.
const QUIET: &str = "info,canyon_functions::http::access=warn,kube_client=error";

/// Logs to standard error. `CANYON_LOG` sets the level (`warn`, `debug`, `canyon_launcher=debug`, ...). If the program has
/// set up its own logging before, it keeps it.
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
    Issuers {
        runners: issuer(url, "issuer.pk8"),
        jobs: issuer(&jobs_issuer_url(url), "job-issuer.pk8"),
    }
}

fn master_key(path: &Path) -> Result<MasterKey, LocalError> {
    let key = key_file::load_or_create(path, || {
        let mut bytes = vec![0; KEY_LENGTH];
        canyon_domain::ports::Entropy::fill(&System, &mut bytes);
        bytes
    })?;
    MasterKey::new(&key).map_err(|source| LocalError::MasterKey { path: path.to_owned(), source })
}

/// `None` if this process cannot have signal handlers. Then only SIGKILL ends it, which loses no data.
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
