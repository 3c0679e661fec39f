//! `canyon get variable`, and `canyon unset variable` with its other name `canyon delete variable`.

use crate::commands::variable_scope::{Kind, Scope};
use crate::commands::variable_table::{one, show};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::retry::retry_contended;
use crate::suggestion::closest;
use canyon_api::client::Client;
use canyon_api::variable_set::{VariableSet, VariableSetUpdateBody};

/// One variable of a scope.
#[derive(Debug, clap::Args)]
pub(crate) struct One {
    #[command(flatten)]
    scope: Scope,
    /// What it is in a job
    #[arg(long, value_enum, default_value = "terraform")]
    kind: Kind,
    /// Its name
    name: String,
}

/// Variables of a scope.
#[derive(Debug, clap::Args)]
pub(crate) struct Several {
    #[command(flatten)]
    scope: Scope,
    /// What they are in a job
    #[arg(long, value_enum, default_value = "terraform")]
    kind: Kind,
    /// Their names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// Shows one variable, without the value if it is a secret.
pub(crate) async fn get(given: One, client: &Client, output: Output) -> Result<Exit, CliError> {
    let One { scope, kind, name } = given;
    let mut found = scope.read(client).await?;
    require(&found, &scope, kind, std::slice::from_ref(&name))?;
    found.terraform.retain(|other, _| kind == Kind::Terraform && *other == name);
    found.environment.retain(|other, _| kind == Kind::Environment && *other == name);
    if output.format == Format::Table {
        return show(vec![found], output);
    }
    let of_kind = match kind {
        Kind::Terraform => found.terraform,
        Kind::Environment => found.environment,
    };
    one(&of_kind.get(&name), output)
}

/// Removes variables. If one of them does not exist, it removes none.
pub(crate) async fn unset(
    given: Several,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Several { scope, kind, names } = given;
    let path = scope.path();
    require(&scope.read(client).await?, &scope, kind, &names)?;
    let removed = names.iter().map(|name| (name.clone(), None)).collect();
    let body = match kind {
        Kind::Terraform => VariableSetUpdateBody { terraform: removed, ..Default::default() },
        Kind::Environment => VariableSetUpdateBody { environment: removed, ..Default::default() },
    };
    let update = async || client.update_variables(&path, &body).await;
    let changed = retry_contended(update).await?;
    output.notice(&format!("removed {} of {}", names.join(", "), changed.scope));
    Ok(Exit::Ok)
}

/// [`CliError::Absent`] if `set`, that of `scope`, has not all variables `names`.
fn require(set: &VariableSet, scope: &Scope, kind: Kind, names: &[String]) -> Result<(), CliError> {
    let (of_kind, others, other_kind) = match kind {
        Kind::Terraform => (&set.terraform, &set.environment, Kind::Environment),
        Kind::Environment => (&set.environment, &set.terraform, Kind::Terraform),
    };
    let Some(name) = names.iter().find(|name| !of_kind.contains_key(*name)) else { return Ok(()) };
    let hint = if others.contains_key(name) {
        let other = other_kind.as_str();
        format!("it has `{name}` as {other} variable: give `--kind {other}`")
    } else if let Some(nearest) = closest(name, of_kind.keys().map(String::as_str)).first() {
        format!("did you mean `{nearest}`?")
    } else {
        let flags = if scope.is_given() { scope.flags() } else { " --organization".to_owned() };
        format!("list the variables: canyon list variables{flags}")
    };
    Err(CliError::Absent {
        message: format!("{} has no {} variable `{name}`", set.scope, kind.as_str()),
        hint,
    })
}
