//! The use cases, and what they need.

pub(crate) mod accounts;
mod agent_enrollment;
mod agent_jobs;
mod agent_limits;
pub(crate) mod agent_proofs;
pub mod agent_registry;
mod agent_sessions;
mod agent_work;
mod agents;
pub mod announcements;
mod approvals;
mod approver_groups;
mod archives;
mod artifacts;
pub(crate) mod at_a_glance;
mod attempt_readers;
mod audit_records;
pub mod authentication;
mod cancel;
mod chosen_agent;
pub(crate) mod concurrency_limits;
mod container_jobs;
mod container_request;
mod defined_resources;
pub(crate) mod definitions;
pub mod deploy;
pub mod deploy_requests;
pub(crate) mod deployment_diffs;
mod deployment_end;
mod deployment_order;
pub(crate) mod deployment_request;
mod drift;
mod due_schedules;
pub(crate) mod env_types;
mod environment_removal;
mod environment_states;
pub(crate) mod environments;
pub mod error;
pub(crate) mod event_sources;
mod former_secrets;
mod git_credentials;
mod held_jobs;
mod idempotency;
pub(crate) mod identity_providers;
mod job_description;
mod job_hints;
mod job_inputs;
pub mod job_tokens;
mod join_allowances;
mod kept_plans;
pub(crate) mod last_deployments;
mod modules;
mod named_roles;
pub mod names;
pub(crate) mod narrowing;
pub(crate) mod network_address;
mod never_connected;
mod new_agents;
mod organizations;
mod people;
pub(crate) mod permissions;
mod plan_checks;
mod policies;
mod polled_jobs;
mod projects;
mod reconciling;
pub(crate) mod remote_runners;
mod repetitions;
mod resource_jobs;
mod results;
mod retention;
mod review_rights;
mod run_token;
mod runner_checks;
pub(crate) mod runner_profiles;
mod runner_rules;
pub(crate) mod runners;
mod runs;
mod scheduled_request;
pub(crate) mod schedules;
pub(crate) mod secret_stores;
pub(crate) mod service_accounts;
mod session_refusals;
pub(crate) mod shared_waits;
pub(crate) mod sign_out;
mod sources;
mod state_command_request;
mod state_locks;
mod streams;
mod superseding;
pub mod token_exchange;
pub(crate) mod tokens;
mod type_rules;
mod upload_quota;
pub(crate) mod usage;
mod users;
mod variable_sets;
mod variable_uses;
mod waiting;
mod watchers;

pub(crate) use approvals::ReviewRequest;
pub(crate) use run_token::RunToken;
pub(crate) use runs::foreign_path;
pub(crate) use sources::Source;

use crate::changes::Changes;
use canyon_domain::attempt::SecretHash;
use canyon_domain::audit::AuditRecord;
use canyon_domain::ports::{Clock, Entropy};
use canyon_domain::principal::Principal;
use canyon_identity::issuer::Issuer;
use canyon_identity::master_keys::MasterKeys;
use canyon_store::Table;
use canyon_store::blobs::Blobs;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// What the use cases share: clients, keys, settings and caches. Cheap to clone.
#[derive(Clone)]
pub struct App {
    /// The DynamoDB table.
    pub table: Table,
    /// The object store, for data that is too large for the table.
    pub blobs: Blobs,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Random bytes and ids.
    pub entropy: Arc<dyn Entropy>,
    /// The keys that seal the secrets of runners.
    pub master_keys: Arc<MasterKeys>,
    /// The URL of the OIDC issuer of tokens about runners. The API cannot sign as that issuer.
    pub issuer_url: String,
    /// The OIDC issuer of jobs' tokens.
    pub job_issuer: Arc<Issuer>,
    /// The hash of the operator's token, which may only create organizations; `None` if there is none.
    pub operator: Option<SecretHash>,
    /// The state that the agents' requests share.
    pub agents: agent_registry::AgentRegistry,
    /// The URL at which jobs reach the API.
    pub api_url: String,
    /// The lifetime of a job's token for a cloud.
    pub job_token_life: Duration,
    /// Wakes requests that wait for a change.
    pub changes: Changes,
    /// Verifies the tokens of other issuers.
    pub sign_in_verifier: Arc<token_exchange::SignInVerifier>,
    /// A cache of the tokens that were valid in the last seconds.
    pub authenticated: authentication::RecentTokens,
    /// A cache of the names of principals.
    pub names: names::RecentNames,
    /// When this process began to serve requests; `Timestamp::MIN` where the API is always available.
    pub up_since: Timestamp,
    /// Whether this installation runs jobs as processes of its own machine (`type: local`).
    pub serves_local_runners: bool,
}

impl App {
    /// The current time. Read it once for each request.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The audit record of a change that `by` requested.
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
