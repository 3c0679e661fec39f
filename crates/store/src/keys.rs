//! Every key string of the table, in one place.
//!
//! A key begins with the organization's uuid (in base64, 22 characters: keys are paid for in every
//! write), and that uuid comes from the caller's token. So no request, whatever its path says, can
//! reach another organization's items.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_domain::attempt::SecretHash;
use canyon_domain::event_source;
use canyon_domain::ids::{
    DeploymentId, EnvId, EnvTypeId, EnvUuid, EventSourceId, OrgId, OrgUuid, PrincipalId, ProjectId,
    RuleId, RunnerId,
};
use canyon_domain::runner_rules::Scope;
use jiff::Timestamp;
use uuid::Uuid;

/// Where an item is.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// Guards that an organization's name is given once.
pub fn organization_name(id: &OrgId) -> Key {
    Key::new(format!("org#{id}"), "O")
}

/// What a secret opens. The one item that is found without an organization: it names it.
pub fn token_by_secret(hash: &SecretHash) -> Key {
    Key::new(format!("token#{}", hash.0), "T")
}

/// The wrapped master key, which belongs to no organization. `#` cannot occur in the 22 characters
/// that an organization's keys begin with.
pub fn wrapped_key() -> Key {
    Key::new("system#master-key".to_owned(), "K")
}

/// How far ahead the calls of one rate are taken. Accounts of clouds may be shared by organizations,
/// so it belongs to none.
pub fn pace(rate: &str) -> Key {
    Key::new(format!("pace#{rate}"), "P")
}

/// A token in its organization's list.
pub fn token(of: OrgUuid, id: Uuid) -> Key {
    Key::new(tokens(of), id.to_string())
}

/// Partition of an organization's tokens.
pub fn tokens(of: OrgUuid) -> String {
    format!("{}#tokens", org(of))
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

/// How the sort keys of the projects in a group begin.
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

/// The last check of a runner.
pub fn runner_check(of: OrgUuid, runner: &RunnerId) -> Key {
    Key::new(format!("{}#checks", org(of)), runner.as_str())
}

/// Reads a [`runner_check`] key back.
pub fn parse_runner_check(pk: &str, sk: &str) -> Option<(OrgUuid, RunnerId)> {
    let of = pk.strip_suffix("#checks")?;
    let bytes: [u8; 16] = URL_SAFE_NO_PAD.decode(of).ok()?.try_into().ok()?;
    Some((OrgUuid(Uuid::from_bytes(bytes)), sk.parse().ok()?))
}

/// Partition, in `gsi2`, of the checks that no launcher has begun.
pub const OPEN_CHECKS: &str = "checks";

/// A runner rule.
pub fn rule(of: OrgUuid, id: RuleId) -> Key {
    Key::new(rules(of), id.to_string())
}

/// Partition of an organization's runner rules.
pub fn rules(of: OrgUuid) -> String {
    format!("{}#rules", org(of))
}

/// Guards that there is one rule for a scope. `*` cannot occur in an id.
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

/// Guards that there is one event source for a scope. Its parts are printable, and may be long.
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

/// How the sort keys of a project's environments begin. `#` cannot occur in an id.
pub fn environments_of_project(project: &ProjectId) -> String {
    format!("{project}#")
}

/// A deployment. One partition each: deployments are what is written most.
pub fn deployment(of: OrgUuid, id: DeploymentId) -> Key {
    Key::new(format!("{}#dep#{id}", org(of)), "D")
}

/// What a deployment was asked to do.
pub fn bundle(of: OrgUuid, id: DeploymentId) -> Key {
    Key::new(format!("{}#dep#{id}", org(of)), "B")
}

/// Reads a [`deployment`] key back.
pub fn parse_deployment(pk: &str) -> Option<(OrgUuid, DeploymentId)> {
    let (of, id) = pk.split_once("#dep#")?;
    let bytes: [u8; 16] = URL_SAFE_NO_PAD.decode(of).ok()?.try_into().ok()?;
    Some((OrgUuid(Uuid::from_bytes(bytes)), id.parse().ok()?))
}

/// Partition, in `gsi1`, of an organization's deployments.
pub fn deployments(of: OrgUuid) -> String {
    format!("{}#deps", org(of))
}

/// Partition, in `gsi3`, of an environment's deployments.
pub fn deployments_of_environment(of: OrgUuid, env: EnvUuid) -> String {
    format!("{}#env#{}", org(of), env.0.simple())
}

/// What a key ends with: for [`deployments_of_environment`] the environment.
pub fn last_part(key: &str) -> &str {
    key.rsplit('#').next().unwrap_or(key)
}

/// In how many partitions of `gsi2` the due items lie: one takes 1,000 writes a second.
pub const DUE_SHARDS: u8 = 4;

/// Partition, in `gsi2`, of one shard of what is due.
pub fn due_shard(shard: u8) -> String {
    format!("due#{}", shard % DUE_SHARDS)
}

/// Partition, in `gsi2`, of a deployment while it is due at some time. The last byte of a
/// version 7 UUID is random.
pub fn due_shard_of(id: DeploymentId) -> String {
    due_shard(id.0.as_bytes()[15])
}

/// Sort key, in `gsi2`: milliseconds since 1970, 13 digits until the year 2286. Later times, such as
/// [`Timestamp::MAX`] for "whatever is due at all", are cut to that: all keys are equally long, so
/// that they sort as numbers do.
pub fn due_at(at: Timestamp) -> String {
    format!("{:013}", at.as_millisecond().clamp(0, 9_999_999_999_999))
}

/// What an `Idempotency-Key` of one caller has led to.
pub fn idempotency(of: OrgUuid, by: PrincipalId, key: &str) -> Key {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(format!("{by}#{key}"));
    Key::new(format!("{}#idem#{}", org(of), URL_SAFE_NO_PAD.encode(digest)), "I")
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
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_deployment_key_reads_back() {
        let (of, id) = (OrgUuid(Uuid::now_v7()), DeploymentId(Uuid::now_v7()));
        assert_eq!(parse_deployment(&deployment(of, id).pk), Some((of, id)));
        for wrong in ["", "#dep#", "x#dep#y", &environments(of)] {
            assert_eq!(parse_deployment(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_key_of_a_check_reads_back() {
        let (of, runner) = (OrgUuid(Uuid::now_v7()), "my-runner".parse::<RunnerId>().unwrap());
        let key = runner_check(of, &runner);
        assert_eq!(parse_runner_check(&key.pk, &key.sk), Some((of, runner)));
        let deployment = deployment(of, DeploymentId(Uuid::now_v7()));
        assert_eq!(parse_runner_check(&deployment.pk, &deployment.sk), None);
    }

    #[test]
    fn two_organizations_share_no_key() {
        let keys = |of: OrgUuid| {
            let id = DeploymentId(Uuid::nil());
            let (project, env): (ProjectId, EnvId) = ("pp".parse().unwrap(), "ee".parse().unwrap());
            let account = "111122223333".parse().unwrap();
            let anybody = event_source::Scope { account, source: None, rule: None, project: None };
            [
                organization(of).pk,
                tokens(of),
                env_types(of),
                projects(of),
                runners(of),
                runner_check(of, &"rr".parse().unwrap()).pk,
                rules(of),
                rule_scope(of, &Scope::default()).pk,
                event_sources(of),
                event_scope(of, &anybody).pk,
                environment(of, &project, &env).pk,
                deployment(of, id).pk,
                deployments(of),
                deployments_of_environment(of, EnvUuid(Uuid::nil())),
                idempotency(of, PrincipalId(Uuid::nil()), "k").pk,
                audit_month(of, Timestamp::UNIX_EPOCH),
            ]
        };
        let mut all = HashSet::from([wrapped_key().pk, pace("r").pk]);
        for n in 0..3_u128 {
            for key in keys(OrgUuid(Uuid::from_u128(n))) {
                assert!(all.insert(key.clone()), "{key}");
            }
        }
    }

    #[test]
    fn due_keys_sort_by_time() {
        let at = |ms| due_at(Timestamp::from_millisecond(ms).unwrap());
        assert!(at(999) < at(1_000) && at(1_700_000_000_000) < at(1_700_000_000_001));
        assert!(at(9_000_000_000_000) < due_at(Timestamp::MAX));
    }
}
