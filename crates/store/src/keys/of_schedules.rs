//! Keys of schedules.

use super::{Key, org, parse_organization};
use canyon_domain::ids::{EnvUuid, OrgUuid};
use canyon_domain::schedule::ScheduleId;
use uuid::Uuid;

/// A schedule. Its key names the environment by its uuid: a new environment of the same name has no schedule of its predecessor.
pub fn schedule(of: OrgUuid, env: EnvUuid, id: &ScheduleId) -> Key {
    Key::new(schedules(of), format!("{}{id}", schedules_of_environment(env)))
}

/// Partition of an organization's schedules.
pub fn schedules(of: OrgUuid) -> String {
    format!("{}#schedules", org(of))
}

/// Prefix of the sort keys of an environment's schedules.
pub fn schedules_of_environment(env: EnvUuid) -> String {
    format!("{}#", env.0.simple())
}

/// Parses the key of a [`schedule`].
pub fn parse_schedule(pk: &str, sk: &str) -> Option<(OrgUuid, EnvUuid, ScheduleId)> {
    let of = parse_organization(pk.strip_suffix("#schedules")?)?;
    let (env, id) = sk.split_once('#')?;
    Some((of, EnvUuid(Uuid::parse_str(env).ok()?), id.parse().ok()?))
}

/// Partition, in `gsi2`, of the schedules of all organizations, by their due time.
pub const SCHEDULES: &str = "schedules";
