//! Agents, as people see and change them.

use canyon_domain::agent::Adoption;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// An agent, as people see it.
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
    /// What it is chosen by.
    pub labels: BTreeMap<String, String>,
    /// The runner that it serves; without one, those that name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// Whether it takes the jobs of runners that name no agents.
    pub run_untagged_jobs: bool,
    /// Whether its token is for labels alone, and no administrator has adopted it by its name: then runners that name
    /// agents by their ids do not take it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confined_to_labels: bool,
    /// Whether it gets no further work because an administrator has disabled it.
    pub disabled: bool,
    /// Whether it launches only deployments that name it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved: bool,
    /// SHA-256 of its public key, in hexadecimal, to compare with what it printed at its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Its token or service account, where it signs in by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// When it was first heard of.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// The network address that it first asked from, if nothing vouched for it then: of IPv6 its /64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "192.0.2.7")]
    pub asked_from: Option<String>,
    /// Its newest session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionView>,
}

/// One life of an agent's process, as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    /// Its number.
    pub number: u64,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    pub opened_at: Timestamp,
    /// When it was last heard.
    #[schema(value_type = String, format = DateTime)]
    pub last_seen: Timestamp,
    /// Version of the program.
    pub version: String,
    /// Version of the protocol.
    pub protocol: u32,
    /// The types of runners whose jobs it launches.
    pub serves: Vec<String>,
    /// Where its jobs run.
    pub place: String,
    /// How many jobs it runs at once.
    pub concurrency: u32,
    /// How many it runs.
    pub running: u32,
    /// What last went wrong, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// What its operator should know, such as that its version is old.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Which agents to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AgentQuery {
    /// Only those that are `pending`, `adopted` or `rejected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub state: Option<Adoption>,
}

/// By what an agent is adopted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AdoptQuery {
    /// SHA-256 of the key that was compared with what the agent printed at its start, in hexadecimal. An agent that
    /// shows another key by now is not adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// A change to an agent. What is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentUpdateBody {
    /// Whether it gets no further work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Its labels, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Whether it takes the jobs of runners that name no agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_untagged_jobs: Option<bool>,
}
