//! Launches what is due, and sees that nothing waits past its deadline.
//!
//! [`Launcher::tend`] looks at one deployment and does what [`canyon_domain::deadline`] says is to
//! be done now: take the turn, start the job, look whether it lives, stop it, end it. It may be
//! called at any time, for any deployment, by several processes at once: each step is written on
//! condition that nothing has changed, and each call to a platform may be repeated.
//!
//! What calls it is only a hint: a stream record, a committed write, the death of a process.
//! [`Sweeper::pass`] finds in the table what is due, and alone suffices.

pub mod agents;
mod bounded;
mod checks;
mod concurrency;
mod farewell;
#[cfg(feature = "lambda")]
pub mod function;
mod holders;
mod launch;
mod orphans;
pub mod pace;
mod places;
pub mod platforms;
mod profiles;
pub mod publish;
mod remembered;
mod salvage;
mod site;
mod strays;
#[cfg(feature = "lambda")]
pub mod stream;
mod sweep;
mod tend;

use canyon_dispatch::{JobRef, Platform};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{OrgId, OrgUuid};
use canyon_domain::runner::RunnerType;
use canyon_domain::seam::{Clock, Entropy};
use canyon_identity::master_keys::{MasterKeyError, MasterKeys};
use canyon_store::blobs::Blobs;
use canyon_store::{StoreError, Table};
use jiff::Timestamp;
use publish::Publish;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// What can go wrong while tending a deployment. It is due again later, so nothing is lost.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The table or object store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No claim code can be made.
    #[error(transparent)]
    MasterKey(#[from] MasterKeyError),
    /// The event bus did not take what was to be told.
    #[error("cannot tell what became of deployment {deployment}")]
    Publish {
        /// The deployment.
        deployment: canyon_domain::ids::DeploymentId,
        /// Why.
        #[source]
        source: canyon_store::error::BoxError,
    },
    /// Others changed the deployment again and again.
    #[error("deployment {0} is being changed by others; it will be looked at again")]
    Contended(canyon_domain::ids::DeploymentId),
    /// One look took longer than all that its platform may be asked.
    #[error(
        "one look at deployment {0} took longer than {limit} s and was given up; it stays due and will \
         be looked at again",
        limit = tend::PATIENCE.as_secs()
    )]
    Late(canyon_domain::ids::DeploymentId),
}

impl LaunchError {
    /// Whether the same may succeed in a moment.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Store(error) => error.is_retryable(),
            Self::MasterKey(error) => error.is_retryable,
            Self::Publish { .. } | Self::Contended(_) => true,
            // Whoever waits for it has waited long enough.
            Self::Late(_) => false,
        }
    }
}

/// Launches and watches deployments. Cheap to clone.
#[derive(Clone)]
pub struct Launcher {
    /// The table.
    pub table: Table,
    /// Where streams lie.
    pub blobs: Blobs,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// Makes claim codes.
    pub master_keys: Arc<MasterKeys>,
    /// Since when runners can report; `Timestamp::MIN` where the API is always there.
    pub up_since: Timestamp,
    /// Where runners reach the API.
    pub api_url: String,
    /// Names of organizations; a uuid keeps its name for life.
    pub organizations: Arc<Mutex<HashMap<OrgUuid, OrgId>>>,
    /// What starts the jobs of each type of runner.
    pub platforms: HashMap<RunnerType, Arc<dyn Platform>>,
    /// When the jobs of each runner were last looked through for strays.
    pub last_looks: Arc<LastLooks>,
    /// How many attempts may run at once, where somebody has said so.
    pub limits: Arc<KnownLimits>,
    /// Where events are published, if anywhere.
    pub publisher: Option<Arc<dyn Publish>>,
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

pub use checks::BRIEFLY;
pub use concurrency::KnownLimits;
pub use farewell::STAY_PAUSE;
pub use strays::LastLooks;
pub use sweep::{Pass, Sweeper};
pub use tend::{PATIENCE, Why};
