//! How variables are printed.

use crate::commands::variable_scope::Kind;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use canyon_api::variable_set::{SecretReference, VariableSet};
use canyon_domain::json::Json;
use serde::Serialize;
use serde_json::json;
use std::io;

pub(crate) fn one(value: &impl Serialize, output: Output) -> Result<Exit, CliError> {
    let text = serde_json::to_string(value).map_err(io::Error::other)?;
    output.exact(&Json::parse(&text).map_err(io::Error::other)?)?;
    Ok(Exit::Ok)
}

pub(crate) fn show(sets: Vec<VariableSet>, output: Output) -> Result<Exit, CliError> {
    if output.format != Format::Table {
        return one(&sets, output);
    }
    let mut rows = Vec::new();
    for VariableSet { scope, terraform, environment, .. } in sets {
        for (kind, of_kind) in [(Kind::Terraform, terraform), (Kind::Environment, environment)] {
            rows.extend(of_kind.into_iter().map(|(name, variable)| {
                json!({
                    "scope": scope, "kind": kind.as_str(), "name": name,
                    "value": shown(variable.value.as_ref(), variable.reference.as_ref()),
                    "description": variable.description, "updated_at": variable.updated_at,
                })
            }));
        }
    }
    output.list(rows, &["scope", "kind", "name", "value", "description", "updated_at"])?;
    Ok(Exit::Ok)
}

/// A value in a table: a text as it is, anything else as JSON, a secret as stars, and where a store keeps it.
pub(crate) fn shown(value: Option<&Json>, reference: Option<&SecretReference>) -> String {
    match (value, reference) {
        (Some(Json::String(text)), _) if !text.is_empty() => text.clone(),
        (Some(value), _) => value.to_string(),
        (None, Some(SecretReference { store, locator, version })) => {
            let version = version.as_ref().map_or_else(String::new, |text| format!(" ({text})"));
            format!("{store}: {locator}{version}")
        }
        (None, None) => "******".to_owned(),
    }
}
