//! `canyon refresh-runner`.

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::resource::Resource;
use canyon_api::client::Client;
use serde_json::Value;

/// The environment.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The project
    project: String,
    /// The environment
    environment: String,
    /// Only show from which runner to which the environment would change
    #[arg(long)]
    dry_run: bool,
    /// If that runner stores state elsewhere, have the next run move the environment's state
    #[arg(long)]
    migrate: bool,
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let environment = Resource::environment(arguments.project, arguments.environment);
    let before = match client.get(&environment.path()).await {
        Ok(found) => found,
        Err(error) => return Err(environment.explain(client, error).await),
    };
    let mut path = environment.path();
    path.extend(["actions", "refresh_runner"]);
    let mut options = vec![("dry_run", arguments.dry_run.to_string())];
    options.extend(arguments.migrate.then(|| ("migrate", "true".to_owned())));
    match client.act(&path, &options).await {
        Ok(mut result) => {
            output.notice(&change(&environment.full_name(), &before, &result, arguments.dry_run));
            result["previous_runner_id"] = before["runner_id"].clone();
            output.resource(&result)?;
        }
        Err(error) => return Err(environment.explain(client, error).await),
    }
    Ok(Exit::Ok)
}

/// From which runner to which, in a sentence.
fn change(environment: &str, before: &Value, result: &Value, is_dry_run: bool) -> String {
    let (before, after) = (linked(before), linked(result));
    if before == after {
        return format!("{environment} keeps runner {before}");
    }
    let verb = if is_dry_run { "would change" } else { "has changed" };
    format!("{environment} {verb} from runner {before} to runner {after}")
}

/// The runner in an answer, with its fallbacks.
fn linked(answer: &Value) -> String {
    let name = |runner: &Value| format!("`{}`", runner.as_str().unwrap_or("?"));
    let runner = name(&answer["runner_id"]);
    let fallbacks: Vec<_> =
        answer["fallback_runner_ids"].as_array().into_iter().flatten().map(name).collect();
    if fallbacks.is_empty() { runner } else { format!("{runner} (else {})", fallbacks.join(", ")) }
}
