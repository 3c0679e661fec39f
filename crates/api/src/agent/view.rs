//! Agents, as users see and change them.

use canyon_domain::agent::Adoption;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// An agent, as users see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the API")]
pub struct AgentView {
    /// Its name.
    pub id: String,
    /// `pending`, `adopted` or `rejected`.
    #[schema(value_type = String)]
    pub state: Adoption,
    /// `offline`, `idle`, `busy` or `draining`.
    #[schema(example = "idle")]
    pub availability: String,
    /// Labels by which runners select it.
    pub labels: BTreeMap<String, String>,
    /// The only runner that it serves; absent if it serves every runner that selects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// Whether it takes jobs of runners that name no agents.
    pub run_untagged_jobs: bool,
    /// Whether its token is for labels alone and no administrator has adopted the agent by its name. Runners that name
    /// agents by id do not take it then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confined_to_labels: bool,
    /// Whether an administrator has disabled it: it gets no further work.
    pub disabled: bool,
    /// Whether it launches only deployments that name it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved: bool,
    /// Whether it serves other organizations too: its places for jobs and its platform are theirs as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// SHA-256 of its public key, in hexadecimal, to compare with the one that it printed at its
    /// start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Its token or service account, if it authenticates with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Time of its first request.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Network address of its first request, if it had neither a token nor a runner's key then. Of
    /// IPv6, the /64 prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "192.0.2.7")]
    pub asked_from: Option<String>,
    /// Its newest session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionView>,
}

/// A session of an agent, as users see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    /// Its number.
    pub number: u64,
    /// Time of its start.
    #[schema(value_type = String, format = DateTime)]
    pub opened_at: Timestamp,
    /// Time of its last request.
    #[schema(value_type = String, format = DateTime)]
    pub last_seen: Timestamp,
    /// Version of the program.
    pub version: String,
    /// Version of the protocol.
    pub protocol: u32,
    /// The types of runners whose jobs it launches.
    pub serves: Vec<String>,
    /// Place where its jobs run.
    pub place: String,
    /// Most jobs that it runs at once.
    pub concurrency: u32,
    /// Number of jobs that it runs.
    pub running: u32,
    /// Its last error, as the agent reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Warnings for the agent's operator, such as that its version is old.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Filter of the list of agents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AgentQuery {
    /// Only agents that are `pending`, `adopted` or `rejected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub state: Option<Adoption>,
}

/// Condition of an adoption.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AdoptQuery {
    /// SHA-256, in hexadecimal, of the key that the administrator has compared with the one that
    /// the agent printed at its start. If the agent has another key by now, it is not adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// A change to an agent. An absent field keeps its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentUpdateBody {
    /// Whether it gets no further work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// All its labels; replaces the existing ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Whether it takes jobs of runners that name no agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_untagged_jobs: Option<bool>,
}
