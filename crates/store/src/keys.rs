//! Every key string of the table, in one place.
//!
//! A key begins with the organization's uuid in base64: 22 characters, because every write pays for
//! the length of its keys. That uuid comes from the caller's token, so no request, whatever its
//! path is, can reach another organization's items.

mod of_agents;
mod of_callers;
mod of_schedules;

pub use of_agents::{
    agent, agent_job, agent_job_in_order, agent_jobs, agent_work, agent_work_of, agent_work_order,
    agents,
};
pub use of_callers::{
    identity_provider, identity_providers, known_principal, known_principals, service_account,
    service_accounts, token, token_by_secret, tokens,
};
pub use of_schedules::{SCHEDULES, parse_schedule, schedule, schedules, schedules_of_environment};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_domain::account::AccountId;
use canyon_domain::concurrency::{ConcurrencySlot, LimitScope};
use canyon_domain::definition::DefinitionId;
use canyon_domain::deployment::Status;
use canyon_domain::event_source::{self, EventSourceId};
use canyon_domain::ids::{
    DeploymentId, EnvId, EnvTypeId, EnvUuid, OrgId, OrgUuid, ProjectId, RuleId, RunnerId,
    RunnerProfileId,
};
use canyon_domain::principal::CallerId;
use canyon_domain::runner_rules::Scope;
use canyon_domain::secret_reference::SecretStoreId;
use canyon_domain::variable_scope::VariableScope;
use jiff::Timestamp;
use uuid::Uuid;

/// Key of an item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Partition key.
    pub pk: String,
    /// Sort key.
    pub sk: String,
}

impl Key {
    fn new(pk: String, sk: impl Into<String>) -> Self {
        Self { pk, sk: sk.into() }
    }
}

fn org(org: OrgUuid) -> String {
    URL_SAFE_NO_PAD.encode(org.0.as_bytes())
}

/// The organization itself.
pub fn organization(of: OrgUuid) -> Key {
    Key::new(org(of), "O")
}

/// How long the organization keeps what it no longer needs.
pub fn retention(of: OrgUuid) -> Key {
    Key::new(org(of), "R")
}

/// Partition, in `gsi2`, of the retentions of all organizations, by the time at which the launcher continues.
pub const RETENTIONS: &str = "retentions";

/// Parses the partition key of an [`organization`] or its [`retention`].
pub fn parse_organization(pk: &str) -> Option<OrgUuid> {
    let bytes: [u8; 16] = URL_SAFE_NO_PAD.decode(pk).ok()?.try_into().ok()?;
    Some(OrgUuid(Uuid::from_bytes(bytes)))
}

/// Guard that makes an organization's name unique.
pub fn organization_name(id: &OrgId) -> Key {
    Key::new(format!("org#{id}"), "O")
}

/// The wrapped master key, which belongs to no organization. `#` cannot occur in the 22 characters
/// that an organization's keys begin with.
pub fn wrapped_key() -> Key {
    Key::new("system#master-key".to_owned(), "K")
}

/// State of a rate limiter that all launchers share. Several organizations may share a cloud
/// account, so it belongs to no organization.
pub fn rate_limiter(rate: &str) -> Key {
    Key::new(format!("pace#{rate}"), "P")
}

/// State of a rate limit of [`crate::api_rate_limit`].
pub fn api_rate_limit(name: &str) -> Key {
    Key::new(format!("allowance#{name}"), "P")
}

/// An environment type.
pub fn env_type(of: OrgUuid, id: &EnvTypeId) -> Key {
    Key::new(env_types(of), id.as_str())
}

/// Partition of an organization's environment types.
pub fn env_types(of: OrgUuid) -> String {
    format!("{}#envtypes", org(of))
}

/// A project.
pub fn project(of: OrgUuid, id: &ProjectId) -> Key {
    Key::new(projects(of), id.as_str())
}

/// Partition of an organization's projects.
pub fn projects(of: OrgUuid) -> String {
    format!("{}#projects", org(of))
}

/// Prefix of the sort keys of the projects in a group.
pub fn projects_in_group(group: &ProjectId) -> String {
    format!("{group}/")
}

/// A runner.
pub fn runner(of: OrgUuid, id: &RunnerId) -> Key {
    Key::new(runners(of), id.as_str())
}

/// Partition of an organization's runners.
pub fn runners(of: OrgUuid) -> String {
    format!("{}#runners", org(of))
}

/// A runner profile.
pub fn runner_profile(of: OrgUuid, id: &RunnerProfileId) -> Key {
    Key::new(runner_profiles(of), id.as_str())
}

/// Partition of an organization's runner profiles.
pub fn runner_profiles(of: OrgUuid) -> String {
    format!("{}#profiles", org(of))
}

/// A secret store.
pub fn secret_store(of: OrgUuid, id: &SecretStoreId) -> Key {
    Key::new(secret_stores(of), id.as_str())
}

/// Partition of an organization's secret stores.
pub fn secret_stores(of: OrgUuid) -> String {
    format!("{}#stores", org(of))
}

/// A resource definition.
pub fn definition(of: OrgUuid, id: &DefinitionId) -> Key {
    Key::new(definitions(of), id.as_str())
}

/// Partition of an organization's resource definitions.
pub fn definitions(of: OrgUuid) -> String {
    format!("{}#definitions", org(of))
}

/// An account.
pub fn account(of: OrgUuid, id: &AccountId) -> Key {
    Key::new(accounts(of), id.as_str())
}

/// Partition of an organization's accounts.
pub fn accounts(of: OrgUuid) -> String {
    format!("{}#accounts", org(of))
}

/// The variables of a scope.
pub fn variable_set(of: OrgUuid, scope: &VariableScope) -> Key {
    Key::new(variable_sets(of), scope.to_string())
}

/// Partition of an organization's sets of variables.
pub fn variable_sets(of: OrgUuid) -> String {
    format!("{}#variables", org(of))
}

/// The object that a set of variables belongs to, if it is an item of its own: a group of projects is none.
pub fn owner_of_variables(of: OrgUuid, scope: &VariableScope) -> Option<Key> {
    match scope {
        VariableScope::Runner(id) => Some(runner(of, id)),
        VariableScope::Organization => None,
        VariableScope::Project(id) => Some(project(of, id)),
        VariableScope::EnvType(id) => Some(env_type(of, id)),
        VariableScope::Environment(project, env) => Some(environment(of, project, env)),
    }
}

/// The last check of a runner.
pub fn runner_check(of: OrgUuid, runner: &RunnerId) -> Key {
    Key::new(format!("{}#checks", org(of)), runner.as_str())
}

/// Parses a [`runner_check`] key.
pub fn parse_runner_check(pk: &str, sk: &str) -> Option<(OrgUuid, RunnerId)> {
    let of = pk.strip_suffix("#checks")?;
    Some((parse_organization(of)?, sk.parse().ok()?))
}

/// Partition, in `gsi2`, of the checks that no launcher has begun.
pub const OPEN_CHECKS: &str = "checks";

/// A limit on how many attempts run at once.
pub fn limit(of: OrgUuid, scope: &LimitScope) -> Key {
    Key::new(limits(of), scope.to_string())
}

/// Partition of an organization's limits.
pub fn limits(of: OrgUuid) -> String {
    format!("{}#limits", org(of))
}

/// A slot of a limit, while an attempt holds it.
pub fn slot(of: OrgUuid, slot: &ConcurrencySlot) -> Key {
    Key::new(slots(of, &slot.scope), format!("{:05}", slot.number))
}

/// Partition of the held slots of a limit.
pub fn slots(of: OrgUuid, scope: &LimitScope) -> String {
    format!("{}#places#{scope}", org(of))
}

/// A runner rule.
pub fn rule(of: OrgUuid, id: RuleId) -> Key {
    Key::new(rules(of), id.to_string())
}

/// Partition of an organization's runner rules.
pub fn rules(of: OrgUuid) -> String {
    format!("{}#rules", org(of))
}

/// Guard that makes a rule's scope unique. `*` cannot occur in an id.
pub fn rule_scope(of: OrgUuid, scope: &Scope) -> Key {
    let project = scope.project.as_ref().map_or("*", ProjectId::as_str);
    let env_type = scope.env_type.as_ref().map_or("*", EnvTypeId::as_str);
    Key::new(format!("{}#scopes", org(of)), format!("{project}#{env_type}"))
}

/// An event source.
pub fn event_source(of: OrgUuid, id: &EventSourceId) -> Key {
    Key::new(event_sources(of), id.as_str())
}

/// Partition of an organization's event sources.
pub fn event_sources(of: OrgUuid) -> String {
    format!("{}#eventsources", org(of))
}

/// Guard that makes an event source's scope unique. Its parts are printable, and may be long.
pub fn event_scope(of: OrgUuid, scope: &event_source::Scope) -> Key {
    use sha2::Digest as _;
    let parts = [
        Some(scope.account.as_str()),
        scope.source.as_ref().map(event_source::SourceName::as_str),
        scope.rule.as_ref().map(event_source::RuleRef::as_str),
        scope.project.as_ref().map(ProjectId::as_str),
    ];
    let digest = sha2::Sha256::digest(parts.map(Option::unwrap_or_default).join("\n"));
    Key::new(format!("{}#eventscopes", org(of)), URL_SAFE_NO_PAD.encode(digest))
}

/// An environment.
pub fn environment(of: OrgUuid, project: &ProjectId, env: &EnvId) -> Key {
    Key::new(environments(of), format!("{project}#{env}"))
}

/// Partition of an organization's environments.
pub fn environments(of: OrgUuid) -> String {
    format!("{}#envs", org(of))
}

/// Prefix of the sort keys of a project's environments. `#` cannot occur in an id.
pub fn environments_of_project(project: &ProjectId) -> String {
    format!("{project}#")
}

/// A deployment. Each has a partition of its own, because deployments get the most writes.
pub fn deployment(of: OrgUuid, id: DeploymentId) -> Key {
    Key::new(format!("{}#dep#{id}", org(of)), "D")
}

/// The bundle of a deployment.
pub fn bundle(of: OrgUuid, id: DeploymentId) -> Key {
    Key::new(format!("{}#dep#{id}", org(of)), "B")
}

/// Parses the partition key of a [`deployment`].
pub fn parse_deployment(pk: &str) -> Option<(OrgUuid, DeploymentId)> {
    let (of, id) = pk.split_once("#dep#")?;
    Some((parse_organization(of)?, id.parse().ok()?))
}

/// Partition, in `gsi1`, of an organization's deployments.
pub fn deployments(of: OrgUuid) -> String {
    format!("{}#deps", org(of))
}

/// Partition, in `gsi1`, of an organization's checks for drift. They have lists of their own, because there may be many.
pub fn checks_for_drift(of: OrgUuid) -> String {
    format!("{}#drifts", org(of))
}

/// Partition of the deployments that ended with this status.
pub fn ended_deployments(of: OrgUuid, status: Status) -> String {
    format!("{}#ended#{status}", org(of))
}

/// A deployment there.
pub fn ended_deployment(of: OrgUuid, status: Status, id: DeploymentId) -> Key {
    Key::new(ended_deployments(of, status), id.to_string())
}

/// Partition, in `gsi3`, of an environment's checks for drift.
pub fn checks_of_environment(of: OrgUuid, env: EnvUuid) -> String {
    format!("{}#drift#{}", org(of), env.0.simple())
}

/// Partition, in `gsi3`, of an environment's deployments.
pub fn deployments_of_environment(of: OrgUuid, env: EnvUuid) -> String {
    format!("{}#env#{}", org(of), env.0.simple())
}

/// The last part of a key; of [`deployments_of_environment`] the environment.
pub fn last_part(key: &str) -> &str {
    key.rsplit('#').next().unwrap_or(key)
}

/// Number of partitions of `gsi2` for due items: one takes 1,000 writes a second.
pub const DUE_SHARDS: u8 = 4;

/// Partition, in `gsi2`, of one shard of the due items.
pub fn due_shard(shard: u8) -> String {
    format!("due#{}", shard % DUE_SHARDS)
}

/// Partition, in `gsi2`, of a deployment while it has a due time. The last byte of a version 7 UUID
/// is random.
pub fn due_shard_of(id: DeploymentId) -> String {
    due_shard(id.0.as_bytes()[15])
}

/// Sort key, in `gsi2`: milliseconds since 1970, 13 digits until the year 2286. Later times, such as [`Timestamp::MAX`] for
/// "any due time", are limited to that: all keys have the same length, so that they sort as numbers.
pub fn due_at(at: Timestamp) -> String {
    format!("{:013}", at.as_millisecond().clamp(0, 9_999_999_999_999))
}

/// What an `Idempotency-Key` of one caller has led to.
pub fn idempotency(of: OrgUuid, by: &CallerId, key: &str) -> Key {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(format!("{by}#{key}"));
    Key::new(format!("{}#idem#{}", org(of), URL_SAFE_NO_PAD.encode(digest)), "I")
}

/// A nonce that a caller has used.
pub fn nonce(of: OrgUuid, by: &CallerId, nonce: &str) -> Key {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(format!("{by}#{nonce}"));
    Key::new(format!("{}#nonce#{}", org(of), URL_SAFE_NO_PAD.encode(digest)), "N")
}

/// An audit record.
pub fn audit(of: OrgUuid, at: Timestamp, id: Uuid) -> Key {
    Key::new(audit_month(of, at), id.to_string())
}

/// Partition of the audit records of the month of `at` (UTC).
pub fn audit_month(of: OrgUuid, at: Timestamp) -> String {
    format!("{}#audit#{}", org(of), at.strftime("%Y-%m"))
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
