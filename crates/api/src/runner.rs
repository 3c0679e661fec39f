//! Runners.

use crate::named_role::EnabledRole;
use canyon_domain::account::AccountCredentials;
use canyon_domain::runner;
use canyon_domain::secret_store::StoreConfiguration;
use canyon_domain::state_storage::StateStorage;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// In the OpenAPI document: `runner_configuration` of each type of runner. See [`described`].
#[derive(Debug, ToSchema)]
pub struct RunnerConfiguration {}

/// In the OpenAPI document: the same, in which every part but the `type` may be left out. See [`described`].
#[derive(Debug, ToSchema)]
pub struct RunnerConfigurationUpdate {}

/// In the OpenAPI document: `state_storage_configuration` of each type of state storage. See [`described`].
#[derive(Debug, ToSchema)]
pub struct StateStorageConfiguration {}

/// The schemas of the three structs above, of `StoreConfiguration` and of `AccountCredentials`, as the domain reads them. The functions make the document at each start, with
/// schemas of these structs that are empty: the described ones take milliseconds, so only a reader of the document
/// causes them.
pub fn described() -> [(&'static str, RefOr<Schema>); 5] {
    let configuration = runner::RunnerConfiguration::schema();
    let mut update = configuration.clone();
    for of_type in update["oneOf"].as_array_mut().into_iter().flatten() {
        of_type["required"] = json!(["type"]);
    }
    // The domain's JSON Schema is OpenAPI's.
    let schema = |of_domain: Value| RefOr::T(serde_json::from_value(of_domain).unwrap_or_default());
    [
        ("RunnerConfiguration", schema(configuration)),
        ("RunnerConfigurationUpdate", schema(update)),
        ("StateStorageConfiguration", schema(StateStorage::schema())),
        ("StoreConfiguration", schema(StoreConfiguration::schema())),
        ("AccountCredentials", schema(AccountCredentials::schema_of_members())),
    ]
}

/// A runner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Runner {
    /// The organization.
    pub org_id: String,
    /// Its id, unique in the organization.
    #[schema(example = "my-gke-runner")]
    pub id: String,
    /// Uuid of the runner, which clouds trust. A later runner of the same id has another one.
    pub uuid: Uuid,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether an administrator has disabled it: nothing new is launched with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Where and how jobs run; `type` determines the properties. Secrets are never shown.
    #[schema(value_type = RunnerConfiguration)]
    pub runner_configuration: Map<String, Value>,
    /// Where state is stored; `type` determines the properties.
    #[schema(value_type = StateStorageConfiguration)]
    pub state_storage_configuration: Map<String, Value>,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// Disabled roles of its jobs that administrators have enabled for some hours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enabled_roles: Vec<EnabledRole>,
    /// Faults of its configurations that Canyon accepts but that prevent every job from starting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<FieldWarning>,
}

/// A fault of a stored definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldWarning {
    /// Path of the faulty property, from the root of the body.
    #[schema(example = "runner_configuration.cluster.cluster_data.server")]
    pub path: String,
    /// The fault, without the value. The text continues a sentence after the path.
    pub reason: String,
}

/// A runner in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerSummary {
    /// The organization.
    pub org_id: String,
    /// Its id, unique in the organization.
    #[schema(example = "my-gke-runner")]
    pub id: String,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether an administrator has disabled it: nothing new is launched with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Where and how jobs run.
    pub runner_configuration: ConfigurationSummary,
    /// Where state is stored.
    pub state_storage_configuration: ConfigurationSummary,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// The type of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigurationSummary {
    /// Its type.
    #[serde(rename = "type")]
    #[schema(example = "kubernetes-gke")]
    pub kind: String,
}

/// Filter of the list of runners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RunnerQuery {
    /// Only runners of this type.
    #[serde(default, rename = "byRunnerType", skip_serializing_if = "Option::is_none")]
    pub by_runner_type: Option<String>,
}

/// A request to create a runner. Every property of the configurations is checked; each fault is
/// named with its path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunnerCreateBody {
    /// Its id.
    #[schema(pattern = "^[a-z][a-z0-9_-]+$", max_length = 63)]
    pub id: String,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where and how jobs run.
    #[schema(value_type = RunnerConfiguration)]
    pub runner_configuration: Value,
    /// Where state is stored.
    #[schema(value_type = StateStorageConfiguration)]
    pub state_storage_configuration: Value,
}

/// A request to change a runner. An absent field keeps its value; a part of `runner_configuration`
/// that is given replaces the stored part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunnerUpdateBody {
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it is disabled. Running jobs continue; new ones wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Where and how jobs run; `type` must be the stored one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RunnerConfigurationUpdate>)]
    pub runner_configuration: Option<Value>,
    /// Where state is stored. While linked environments have resources in their state, another
    /// storage is accepted only with `migrate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<StateStorageConfiguration>)]
    pub state_storage_configuration: Option<Value>,
    /// Let the next run of each linked environment move its state to the new storage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub migrate: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_describes_a_runner_by_the_schema_that_the_domain_reads_it_with() {
        let [configuration, update, storage, store, account] =
            described().map(|(_, schema)| serde_json::to_value(schema).unwrap());
        let domain = runner::RunnerConfiguration::schema();
        assert_eq!((&configuration, storage), (&domain, StateStorage::schema()));
        assert_eq!(store, StoreConfiguration::schema());
        assert_eq!(account, AccountCredentials::schema_of_members());
        for (of_update, of_runner) in
            update["oneOf"].as_array().unwrap().iter().zip(domain["oneOf"].as_array().unwrap())
        {
            assert_eq!(of_update["required"], json!(["type"]));
            assert_eq!(of_update["properties"], of_runner["properties"]);
        }
    }
}
