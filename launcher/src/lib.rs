//! Launches due deployments and enforces their deadlines.
//!
//! [`Launcher::reconcile`] reconciles one deployment: it does what [`canyon_domain::deadline`] says is
//! to be done now (take the turn, start the job, observe it, stop it, end it). Several processes
//! may call it at any time for any deployment, because each write is conditional and each call to a
//! platform may be repeated.
//!
//! The calls are only hints: a stream record, a committed write, the exit of a process.
//! [`Sweeper::pass`] finds in the table what is due, and alone suffices.

pub mod agents;
mod checks;
mod cleanup;
mod concurrency;
mod disabled_runner;
mod drift_checks;
mod fair_slots;
mod fallbacks;
#[cfg(feature = "lambda")]
pub mod function;
mod image_digest;
mod late_salvage;
mod launch;
mod lock_owner;
mod orphaned_jobs;
mod orphaned_resources;
mod plan_checks;
pub mod platforms;
mod profiles;
pub mod publish;
pub mod rate_limiter;
mod reconcile;
mod resolved_runner;
mod retention;
mod salvage;
mod step_outcome;
#[cfg(feature = "lambda")]
pub mod stream;
mod sweep;
mod time_limited;

use canyon_dispatch::{JobRef, Platform};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{OrgId, OrgUuid};
use canyon_domain::ports::{Clock, Entropy};
use canyon_domain::runner::RunnerType;
use canyon_identity::master_keys::{MasterKeyError, MasterKeys};
use canyon_identity::signed_request::SignedRequests;
use canyon_store::blobs::Blobs;
use canyon_store::{StoreError, Table};
use jiff::Timestamp;
use publish::Publish;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Why a deployment cannot be reconciled now. It stays due, so the sweep retries it.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The table or object store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No claim code can be made.
    #[error(transparent)]
    MasterKey(#[from] MasterKeyError),
    /// The event bus did not accept the events.
    #[error("cannot publish the events of deployment {deployment}")]
    Publish {
        /// The deployment.
        deployment: canyon_domain::ids::DeploymentId,
        /// What the event bus answered.
        #[source]
        source: canyon_store::error::BoxError,
    },
    /// Other writers changed the deployment between each read and write.
    #[error("deployment {0} is being changed by other requests; the launcher will retry it")]
    Contended(canyon_domain::ids::DeploymentId),
    /// One reconciliation took longer than all requests to its platform may take.
    #[error(
        "reconciling deployment {0} took longer than {limit} s and was cancelled; it stays due and will be \
         retried",
        limit = reconcile::RECONCILE_TIMEOUT.as_secs()
    )]
    Late(canyon_domain::ids::DeploymentId),
}

impl LaunchError {
    /// Whether an immediate retry may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Store(error) => error.is_retryable(),
            Self::MasterKey(error) => error.is_retryable,
            Self::Publish { .. } | Self::Contended(_) => true,
            // The caller has waited long enough.
            Self::Late(_) => false,
        }
    }
}

/// Launches and watches deployments. Cheap to clone.
#[derive(Clone)]
pub struct Launcher {
    /// The table.
    pub table: Table,
    /// The object store: logs, events, orphaned resources.
    pub blobs: Blobs,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of random ids.
    pub entropy: Arc<dyn Entropy>,
    /// Derives claim codes.
    pub master_keys: Arc<MasterKeys>,
    /// Since when runners can reach the API; `Timestamp::MIN` if it is always available.
    pub up_since: Timestamp,
    /// The URL of the API for runners.
    pub api_url: String,
    /// Cached names of organizations; the name of a uuid never changes.
    pub organizations: Arc<Mutex<HashMap<OrgUuid, OrgId>>>,
    /// The platform that starts jobs, for each type of runner.
    pub platforms: HashMap<RunnerType, Arc<dyn Platform>>,
    /// When the jobs of each runner were last checked for orphaned jobs.
    pub last_job_lists: Arc<LastJobLists>,
    /// The cached concurrency limits of organizations.
    pub limits: Arc<KnownLimits>,
    /// Where events are published; `None` if nowhere.
    pub publisher: Option<Arc<dyn Publish>>,
    /// Sends the requests for external checks of plans; `None` if Canyon has no issuer that signs them.
    pub signed_requests: Option<Arc<SignedRequests>>,
}

/// The jobs of a deployment's attempts, the last one first.
fn jobs_of(deployment: &Deployment) -> impl Iterator<Item = JobRef> {
    deployment.attempts.iter().rev().map(|attempt| JobRef {
        deployment: deployment.id,
        attempt: attempt.number,
        handle: attempt.handle.clone(),
    })
}

/// The job of a deployment's last attempt.
fn last_job(deployment: &Deployment) -> Option<JobRef> {
    jobs_of(deployment).next()
}

pub use checks::STREAM_CHECK_TIMEOUT;
pub use cleanup::REMOVAL_RETRY_PAUSE;
pub use concurrency::KnownLimits;
pub use orphaned_jobs::LastJobLists;
pub use reconcile::{RECONCILE_TIMEOUT, ReconcileTrigger};
pub use sweep::{Pass, Sweeper};
