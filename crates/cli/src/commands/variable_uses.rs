//! `canyon list variable-uses`.

use crate::answer::json;
use crate::commands::variable_scope::{Kind, Scope};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use canyon_api::client::Client;
use canyon_api::variable_use::VariableUseQuery;
use serde_json::Value;

/// The variable whose uses are listed.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only the environments that the variable of the organization itself is for
    #[arg(long, conflicts_with_all = ["project", "env", "environment_type", "runner"])]
    organization: bool,
    #[command(flatten)]
    scope: Scope,
    /// Its kind
    #[arg(long, value_enum, default_value_t = Kind::Terraform)]
    kind: Kind,
    /// Its name
    name: String,
}

/// The columns without a scope.
const COLUMNS: [&str; 5] = ["project_id", "env_id", "env_type_id", "from", "overrides"];
/// The columns with one: an environment without `OVERRIDDEN_BY` gets the value of the scope.
const COLUMNS_OF_SCOPE: [&str; 4] = ["project_id", "env_id", "env_type_id", "overridden_by"];

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Arguments { organization, scope, kind, name } = arguments;
    let scope = organization.then(|| "organization".to_owned()).or_else(|| scope.name());
    let columns: &[&str] = if scope.is_some() { &COLUMNS_OF_SCOPE } else { &COLUMNS };
    let of = scope.as_ref().map_or_else(String::new, |scope| format!(" of {scope}"));
    let uses = client.variable_uses(kind.as_str(), &name, &VariableUseQuery { scope }).await?;
    if uses.is_empty() {
        let kind = kind.as_str();
        output.notice(&format!("no environment that you may read gets {kind}.{name}{of}"));
    }
    let mut rows = uses.iter().map(json).collect::<Result<Vec<Value>, _>>()?;
    if output.format == Format::Table {
        for (row, used) in rows.iter_mut().zip(&uses) {
            row["overrides"] = used.overrides.join(", ").into();
        }
    }
    output.list(rows, columns)?;
    Ok(Exit::Ok)
}
