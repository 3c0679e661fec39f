//! The values of a module's variables.

use crate::ids::{EnvUuid, OrgUuid};
use crate::json::Json;
use std::collections::BTreeMap;

/// Values of a module's variables, by name.
pub type Inputs = BTreeMap<String, Json>;

/// The context in which the value of the secret input `name` is sealed. It opens in the runs of one environment, which
/// repeat and destroy what it has deployed, and nowhere else.
pub fn sealing_context(org: OrgUuid, environment: EnvUuid, name: &str) -> String {
    format!("input#{org}#{environment}#{name}")
}
