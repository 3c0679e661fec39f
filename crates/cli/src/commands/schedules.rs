//! Schedules of an environment.

use crate::assignment::Step;
use crate::body::{BodyArguments, assigned};
use crate::confirm;
use crate::environment_facts::EnvironmentFacts;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::resource::Resource;
use canyon_api::client::{Client, ClientError};
use serde_json::{Map, Value};

/// The environment whose schedules are meant.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// The project
    project: String,
    /// The environment
    environment: String,
}

/// A schedule.
#[derive(Debug, clap::Args)]
pub(crate) struct One {
    #[command(flatten)]
    place: Place,
    /// Its id
    id: String,
}

/// A schedule to write.
#[derive(Debug, clap::Args)]
pub(crate) struct Written {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    body: BodyArguments,
    #[command(flatten)]
    confirmed: Confirmed,
}

/// The answers in advance to both questions about a schedule that destroys.
#[derive(Debug, clap::Args)]
struct Confirmed {
    /// Do not ask whether a schedule may destroy
    #[arg(long)]
    yes: bool,
    /// Do not ask for the name of the environment that a schedule destroys: it is this one
    #[arg(long, value_name = "ENVIRONMENT")]
    confirm: Option<String>,
}

/// A schedule to delete.
#[derive(Debug, clap::Args)]
pub(crate) struct Deleted {
    #[command(flatten)]
    one: One,
    /// Do not ask for confirmation of the end of a schedule that destroys
    #[arg(long)]
    yes: bool,
}

/// The columns of a list. Columns that may be long are last.
const COLUMNS: [&str; 6] = ["id", "kind", "times", "enabled", "next_due_at", "last"];

/// The fields that a request may have, apart from the id.
const FIELDS: [&str; 9] = [
    "kind",
    "cron",
    "timezone",
    "at",
    "every_seconds",
    "enabled",
    "on_missed",
    "reconcile",
    "spec",
];

/// The fields that give the times: a new one replaces the others.
const TIMES: [&str; 4] = ["cron", "timezone", "at", "every_seconds"];

impl Place {
    fn path(&self) -> Vec<&str> {
        vec!["projects", &self.project, "envs", &self.environment, "schedules"]
    }

    /// If the environment does not exist, the error is about that.
    async fn explain(&self, client: &Client, error: ClientError) -> CliError {
        let environment = Resource::environment(self.project.clone(), self.environment.clone());
        if error.status() == Some(404)
            && let Err(explained) = environment.require(client).await
        {
            return explained;
        }
        error.into()
    }
}

impl One {
    fn path(&self) -> Vec<&str> {
        let mut path = self.place.path();
        path.push(&self.id);
        path
    }

    fn full_name(&self) -> String {
        format!("{}/{}/{}", self.place.project, self.place.environment, self.id)
    }

    async fn read(&self, client: &Client) -> Result<Value, CliError> {
        match client.get(&self.path()).await {
            Ok(found) => Ok(found),
            Err(error) => Err(self.place.explain(client, error).await),
        }
    }

    /// Asks twice before a schedule that destroys is written: whether it may, and for the name of the environment.
    async fn confirm(
        &self,
        body: &Map<String, Value>,
        given: &Confirmed,
        client: &Client,
        output: Output,
    ) -> Result<(), CliError> {
        if body.get("kind").and_then(Value::as_str) != Some("destroy") {
            return Ok(());
        }
        // It destroys nothing until an update enables it, and that update asks.
        if body.get("enabled") == Some(&Value::Bool(false)) {
            return Ok(());
        }
        let Place { project, environment } = &self.place;
        let times = times(&Value::Object(body.clone()));
        let action = format!(
            "let schedule `{}` destroy everything in the state of {project}/{environment} {times}",
            self.id
        );
        let name = given.confirm.as_deref();
        confirm::require_yes(given.yes, &action)?;
        confirm::require_name(name, environment, &action)?;
        if !given.yes {
            let of = Resource::environment(project.clone(), environment.clone());
            output.notice(&EnvironmentFacts::read(client, &of).await?.describe());
            confirm::ask(&action, confirm::ctrl_c(), output).await?;
        }
        if name.is_some() {
            return Ok(());
        }
        let question = format!(
            "It destroys without a further question. Type the name of the environment, `{environment}`:"
        );
        confirm::ask_for(&question, environment, confirm::ctrl_c(), output).await
    }
}

async fn asked(action: &str, yes: bool, output: Output) -> Result<(), CliError> {
    confirm::require_yes(yes, action)?;
    if yes { Ok(()) } else { confirm::ask(action, confirm::ctrl_c(), output).await }
}

/// `canyon create schedule`.
pub(crate) async fn create(
    given: Written,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Written { one, body, confirmed } = given;
    let mut body = body.body()?;
    let id = Value::String(one.id.clone());
    if body.insert("id".to_owned(), id.clone()).is_some_and(|other| other != id) {
        return Err(CliError::usage_with_hint(
            format!("the document has another `id` than `{}`", one.id),
            "remove `id` from the document, or give the same id",
        ));
    }
    one.confirm(&body, &confirmed, client, output).await?;
    match client.create(&one.place.path(), &Value::Object(body)).await {
        Ok(made) => {
            output.notice(&format!("created schedule `{}`", one.full_name()));
            output.resource(&made)?;
            Ok(Exit::Ok)
        }
        Err(error) => Err(one.place.explain(client, error).await),
    }
}

/// `canyon update schedule`: reads the schedule, changes what is given, and replaces it.
pub(crate) async fn update(
    given: Written,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Written { one, body, confirmed } = given;
    let (documents, assignments) = (body.documents()?, body.assignments()?);
    let root = |step: Option<&Step>| match step {
        Some(Step::Key(name)) => Some(name.clone()),
        Some(Step::Index(_)) | None => None,
    };
    let named = assignments.iter().filter_map(|one| root(one.path.first()));
    let named: Vec<String> = named.chain(documents.keys().cloned()).collect();
    if named.is_empty() {
        return Err(CliError::usage_with_hint(
            "no change was given",
            "give the values to change with --set or --set-yaml",
        ));
    }
    let stored = one.read(client).await?;
    let mut changed = kept(&stored, &named);
    changed.extend(documents);
    let changed = assigned(changed, &assignments)?;
    let changed = changed.into_iter().filter(|(_, value)| !value.is_null()).collect();
    one.confirm(&changed, &confirmed, client, output).await?;
    match client.put(&one.path(), &Value::Object(changed)).await {
        Ok(changed) => {
            output.notice(&format!("updated schedule `{}`", one.full_name()));
            output.resource(&changed)?;
            Ok(Exit::Ok)
        }
        Err(error) => Err(one.place.explain(client, error).await),
    }
}

/// What stays of a stored schedule if the fields of `named` change.
fn kept(stored: &Value, named: &[String]) -> Map<String, Value> {
    let is_named = |name: &str| named.iter().any(|one| one == name);
    // A new time zone alone keeps its expression.
    let has_new_times = ["cron", "at", "every_seconds"].into_iter().any(is_named);
    let keeps_zone = is_named("cron");
    let stays = |name: &&str| {
        !has_new_times || !TIMES.contains(name) || (*name == "timezone" && keeps_zone)
    };
    let had_drift = stored["kind"] == "drift";
    let kind_stays = !is_named("kind");
    let fits = |name: &&str| match *name {
        "reconcile" => had_drift && kind_stays,
        "spec" => kind_stays,
        _ => true,
    };
    let member = |name: &str| Some((name.to_owned(), stored.get(name)?.clone()));
    FIELDS.iter().copied().filter(stays).filter(fits).filter_map(member).collect()
}

/// `canyon get schedule`.
pub(crate) async fn get(one: One, client: &Client, output: Output) -> Result<Exit, CliError> {
    output.resource(&one.read(client).await?)?;
    Ok(Exit::Ok)
}

/// `canyon list schedules`.
pub(crate) async fn list(place: Place, client: &Client, output: Output) -> Result<Exit, CliError> {
    let mut items = match client.list(&place.path(), &[]).await {
        Ok(items) => items,
        Err(error) => return Err(place.explain(client, error).await),
    };
    if output.format == Format::Table {
        items.iter_mut().for_each(show);
    }
    output.list(items, &COLUMNS)?;
    Ok(Exit::Ok)
}

/// `canyon delete schedule`.
pub(crate) async fn delete(
    given: Deleted,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Deleted { one, yes } = given;
    let stored = one.read(client).await?;
    if stored["kind"] == "destroy" {
        let Place { project, environment } = &one.place;
        let action = format!(
            "delete schedule `{}`, so that it does not destroy {project}/{environment} any more",
            one.id
        );
        asked(&action, yes, output).await?;
    }
    match client.delete(&one.path(), &[]).await {
        Ok(_) => {
            output.notice(&format!("deleted schedule `{}`", one.full_name()));
            Ok(Exit::Ok)
        }
        Err(error) => Err(one.place.explain(client, error).await),
    }
}

/// The times in words.
fn times(of: &Value) -> String {
    if let Some(cron) = of["cron"].as_str() {
        let zone = of["timezone"].as_str().unwrap_or("UTC");
        return format!("{cron} ({zone})");
    }
    if let Some(at) = of["at"].as_str() {
        return format!("at {at}");
    }
    format!("every {} s", of["every_seconds"])
}

/// Puts the columns of a table into a row.
fn show(row: &mut Value) {
    row["times"] = times(row).into();
    row["next_due_at"] = row["next_due_at"].get(0).cloned().unwrap_or_default();
    let last = row["last"].take();
    let id = last["deployment_id"].as_str().map(|id| format!("deployment {id}"));
    let skipped = || last["skipped"].as_str().map(|reason| format!("skipped: {reason}"));
    row["last"] = id.or_else(skipped).map_or(Value::Null, Value::from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_new_time_replaces_the_old_one_and_the_rest_stays() {
        let stored = json!({
            "id": "a", "kind": "drift", "cron": "@daily", "timezone": "Europe/Berlin", "enabled": true, "on_missed": "skip",
            "reconcile": true, "history": [], "next_due_at": [],
        });
        let kept = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            kept(&stored, &names).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
        };
        for (named, expected) in [
            (&["enabled"][..], "cron enabled kind on_missed reconcile timezone"),
            (&["timezone"], "cron enabled kind on_missed reconcile timezone"),
            (&["cron"], "enabled kind on_missed reconcile timezone"),
            (&["at"], "enabled kind on_missed reconcile"),
            (&["every_seconds", "kind"], "enabled kind on_missed"),
        ] {
            assert_eq!(kept(named), expected, "{named:?}");
        }
    }

    #[test]
    fn a_row_shows_the_times_the_next_one_and_the_last_result() {
        let mut row = json!({
            "every_seconds": 300, "next_due_at": ["2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"],
            "last": { "skipped": "missed" },
        });
        show(&mut row);
        let shown = ["times", "next_due_at", "last"].map(|name| row[name].as_str().unwrap());
        assert_eq!(shown, ["every 300 s", "2026-01-01T00:00:00Z", "skipped: missed"]);
        let mut ended = json!({ "at": "2026-01-01T00:00:00Z", "next_due_at": [] });
        show(&mut ended);
        assert_eq!((&ended["next_due_at"], &ended["last"]), (&Value::Null, &Value::Null));
    }
}
