//! The use cases, and what they need.

pub mod agent_desk;
mod agent_enrollment;
mod agent_jobs;
mod agent_limits;
pub(crate) mod agent_proofs;
mod agent_sessions;
mod agent_work;
mod agents;
mod archives;
mod artifacts;
mod attempt_readers;
mod audit_records;
pub mod authentication;
mod cancel;
mod chosen_agent;
pub(crate) mod concurrency_limits;
pub mod deploy;
pub mod deploy_requests;
mod deployment_end;
mod env_types;
mod environment_states;
pub(crate) mod environments;
pub mod error;
pub(crate) mod event_sources;
mod held_jobs;
mod job_hints;
pub mod job_tokens;
mod modules;
pub(crate) mod network_address;
mod new_agents;
mod opening_refusals;
mod organizations;
pub(crate) mod permissions;
mod polled_jobs;
mod projects;
pub(crate) mod remote_runners;
mod repetitions;
mod results;
mod runner_checks;
pub(crate) mod runner_profiles;
mod runner_rules;
pub(crate) mod runners;
mod runs;
pub(crate) mod service_accounts;
pub(crate) mod shared_waits;
mod sources;
mod state_locks;
mod streams;
pub mod token_exchange;
pub(crate) mod tokens;
mod upload_quota;
mod users;
mod waiting;
mod watchers;

pub(crate) use runs::foreign_path;
pub(crate) use sources::Source;

use crate::changes::Changes;
use canyon_domain::attempt::SecretHash;
use canyon_domain::audit::AuditRecord;
use canyon_domain::principal::Principal;
use canyon_domain::seam::{Clock, Entropy};
use canyon_identity::issuer::Issuer;
use canyon_identity::master_keys::MasterKeys;
use canyon_store::Table;
use canyon_store::blobs::Blobs;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// Everything that a use case needs. Cheap to clone.
#[derive(Clone)]
pub struct App {
    /// The table.
    pub table: Table,
    /// What is too large for the table.
    pub blobs: Blobs,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// Seals the secrets of runners.
    pub master_keys: Arc<MasterKeys>,
    /// Canyon's name as the OIDC issuer of tokens about runners. The API cannot sign as that issuer.
    pub issuer_url: String,
    /// Canyon as the OIDC issuer of jobs' tokens.
    pub job_issuer: Arc<Issuer>,
    /// The hash of the token that may make organizations and nothing else, if there is one.
    pub operator: Option<SecretHash>,
    /// Where agents ask for work.
    pub agents: agent_desk::AgentDesk,
    /// Where jobs reach the API.
    pub api_url: String,
    /// How long a job's token for a cloud is good.
    pub job_token_life: Duration,
    /// Hints for whoever waits.
    pub changes: Changes,
    /// Judges the tokens of other issuers.
    pub sign_ins: Arc<token_exchange::SignIns>,
    /// Who has shown a good token in the last seconds.
    pub authenticated: authentication::Recent,
    /// Since when it serves requests; `Timestamp::MIN` where the API is always there.
    pub up_since: Timestamp,
    /// Whether this installation runs jobs as processes of its own machine (`type: local`).
    pub serves_local_runners: bool,
}

impl App {
    /// The time, for everything that one request does.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The record of a change that `by` asked for.
    pub(crate) fn record(&self, by: &Principal, action: &str, subject: String) -> AuditRecord {
        let at = self.now();
        AuditRecord {
            id: self.entropy.id(at),
            at,
            by: by.id,
            action: action.to_owned(),
            subject,
            by_right: by.right(),
            details: Vec::new(),
        }
    }
}
