//! Variables that an organization keeps for its jobs.

use canyon_domain::json::Json;
use canyon_domain::variables::secret_json::SecretJson;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa::openapi::Ref;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, Type};
use uuid::Uuid;

/// The variables of one scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VariableSet {
    /// What they apply to: `runner:ID`, `organization`, `project:ID` (a project, or the projects of a group),
    /// `env-type:ID` or `environment:PROJECT/ENV`.
    #[schema(example = "project:shop")]
    pub scope: String,
    /// Variables of modules, by name. A module gets those that it declares.
    pub terraform: BTreeMap<String, Variable>,
    /// Variables of OpenTofu's environment, by name.
    pub environment: BTreeMap<String, Variable>,
    /// Time of the last change. Absent if none was ever set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub updated_at: Option<Timestamp>,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Variable {
    /// The value. Absent for a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub value: Option<Json>,
    /// Where jobs read the value, if a store keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<SecretReference>,
    /// Whether the value is a secret: Canyon stores it sealed, shows it to no caller, and masks it in logs.
    pub secret: bool,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Time at which it was last set.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// The principal that set it.
    pub updated_by: Uuid,
}

/// A secret of a secret store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretReference {
    /// The store.
    #[schema(example = "team-vault", max_length = 63)]
    pub store: String,
    /// The name of the secret in the store. After a `#` follows the name of one member, if the secret is a JSON object.
    #[serde(rename = "ref")]
    #[schema(example = "shop/db#password", max_length = 2048)]
    pub locator: String,
    /// The version. Default: the current one at the time of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub version: Option<String>,
}

/// A change of the variables of one scope. Variables that it does not name keep their values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VariableSetUpdateBody {
    /// Terraform variables by name; `null` removes one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(schema_with = terraform_changes)]
    pub terraform: BTreeMap<String, Option<VariableBody>>,
    /// Environment variables by name; `null` removes one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(schema_with = environment_changes)]
    pub environment: BTreeMap<String, Option<VariableBody>>,
}

fn terraform_changes() -> Schema {
    changes("Terraform variables by name; `null` removes one.", "^[A-Za-z_][A-Za-z0-9_-]{0,199}$")
}

fn environment_changes() -> Schema {
    changes(
        "Environment variables by name; `null` removes one. Names that the runner needs for itself are refused.",
        "^[A-Za-z_][A-Za-z0-9_]{0,199}$",
    )
}

fn changes(description: &str, names: &str) -> Schema {
    let name = ObjectBuilder::new().schema_type(Type::String).pattern(Some(names));
    let null = ObjectBuilder::new().schema_type(Type::Null);
    let change = OneOfBuilder::new().item(null).item(Ref::from_schema_name("VariableBody"));
    ObjectBuilder::new()
        .property_names(Some(Schema::from(name)))
        .additional_properties(Some(AdditionalProperties::RefOr(Schema::from(change).into())))
        .description(Some(description))
        .into()
}

/// A change of one variable. An absent field keeps its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VariableBody {
    /// The value: at most 64 KiB of JSON, for an environment variable a text. A secret has at least 6 bytes. A new
    /// variable needs it, or a `reference`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub value: Option<SecretJson>,
    /// Where jobs read the value, in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<SecretReference>,
    /// Whether the value is a secret. Default: as before, and `false` for a new variable. A secret becomes plain only
    /// with a new value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<bool>,
    /// Purpose, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub description: Option<String>,
}

/// The variables that a job of an environment gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EffectiveVariables {
    /// Variables of the module, by name. It gets those that it declares; inputs of a deployment take precedence.
    pub terraform: BTreeMap<String, EffectiveVariable>,
    /// Variables of OpenTofu's environment, by name.
    pub environment: BTreeMap<String, EffectiveVariable>,
}

/// A variable that a job of an environment gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EffectiveVariable {
    /// The value. Absent for a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub value: Option<Json>,
    /// Where jobs read the value, if a store keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<SecretReference>,
    /// Whether the value is a secret.
    pub secret: bool,
    /// The scope whose value it is: of those that have it, the nearest.
    #[schema(example = "project:shop")]
    pub from: String,
    /// The wider scopes that have it too, the widest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
}
