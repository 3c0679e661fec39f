//! Resource definitions.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// How resources of a type are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResourceDefinition {
    /// The organization.
    pub org_id: String,
    /// Its id.
    #[schema(example = "my-s3-bucket")]
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// The type of the resources that it is for.
    #[serde(rename = "type")]
    #[schema(example = "s3")]
    pub resource_type: String,
    /// What makes them.
    #[schema(example = "humanitec/container-runner")]
    pub driver_type: String,
    /// The account that the driver uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_account: Option<String>,
    /// The driver's inputs. Secret values are not shown.
    pub driver_inputs: DriverInputs,
    /// Which resources it is for.
    pub criteria: Vec<MatchingCriterion>,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// The inputs of a driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DriverInputs {
    /// Values.
    #[schema(value_type = Object)]
    pub values: Map<String, Value>,
    /// Secrets: each is a reference to a secret store, or `{"sealed": true}`.
    #[schema(value_type = Object)]
    pub secret_refs: Map<String, Value>,
}

/// What a resource must be for a definition. An absent member fits every resource; `class` is `default` unless it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MatchingCriterion {
    /// Its id.
    #[serde(default)]
    pub id: String,
    /// The type of the resource's environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_type: Option<String>,
    /// Its project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    /// Its environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_id: Option<String>,
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub res_id: Option<String>,
    /// Its class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

/// A resource that a change would give another definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceDefinitionChange {
    /// Its project.
    pub app_id: String,
    /// Its environment.
    pub env_id: String,
    /// The resource.
    #[schema(example = "s3.default#photos")]
    pub res_id: String,
    /// Its definition before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_def: Option<String>,
    /// Its definition after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_def: Option<String>,
}

/// Why a resource gets its definition, and what runs for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResourceExplanation {
    /// The resource.
    #[schema(example = "s3.default#photos")]
    pub resource: String,
    /// Every definition of its type: first the one that it gets.
    pub considered: Vec<ConsideredDefinition>,
    /// The source of the module that would run, if its definition describes a module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The image that would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The runner on which it would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// The cluster in which it would run, if that is not the runner's own: the type of a runner there, and the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "kubernetes-gke my-cluster")]
    pub cluster: Option<String>,
    /// Why nothing would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A definition that was considered for a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsideredDefinition {
    /// Its id.
    pub id: String,
    /// Whether the resource gets it.
    pub is_chosen: bool,
    /// Why.
    pub reason: String,
}
