//! Where variables that an organization keeps are used.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// An environment whose jobs get a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VariableUse {
    /// The environment's project.
    pub project_id: String,
    /// The environment.
    pub env_id: String,
    /// Its type.
    pub env_type_id: String,
    /// The scope whose value its jobs get: of those that have the variable, the nearest.
    #[schema(example = "project:shop")]
    pub from: String,
    /// The wider scopes that have it too, the widest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// With `scope` in the query: the nearer scope whose value the jobs get in its place. Absent if they get the value of
    /// `scope`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden_by: Option<String>,
}

/// Filters of the list of a variable's uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct VariableUseQuery {
    /// Only environments that the variable of this scope is for: `runner:ID`, `organization`, `project:ID`, `env-type:ID`
    /// or `environment:PROJECT/ENV`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// Filters of the list of sets of variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct VariableSetQuery {
    /// Only variables that refer to this secret store, and only sets that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
}
