//! `canyon explain`.

use super::variables;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::resource::Resource;
use canyon_api::client::Client;
use serde_json::{Value, json};

/// What `canyon explain` explains.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: Explain,
}

#[derive(Debug, clap::Subcommand)]
enum Explain {
    /// The variables that a job of an environment gets, and from where
    #[command(
        visible_alias = "variable",
        after_help = "\
Example:
  canyon explain variables shop dev"
    )]
    Variables {
        /// The project
        project: String,
        /// The environment
        env: String,
    },
    /// Which resource definition a resource of an environment gets, and why
    #[command(after_help = "\
Example:
  canyon explain resource shop dev s3#photos")]
    Resource {
        /// The project
        project: String,
        /// The environment
        env: String,
        /// The resource: `TYPE`, `TYPE#ID` or `TYPE.CLASS#ID`
        resource: String,
    },
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    match arguments.what {
        Explain::Variables { project, env } => {
            variables::explain(project, env, client, output).await
        }
        Explain::Resource { project, env, resource } => {
            show_resource(&project, &env, &resource, client, output).await
        }
    }
}

/// Shows the definitions that were considered for a resource, and what would run for it.
async fn show_resource(
    project: &str,
    env: &str,
    resource: &str,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let path = ["projects", project, "envs", env, "resources", resource, "explanation"];
    let found = match client.get(&path).await {
        Ok(found) => found,
        Err(error) => {
            let environment = Resource::environment(project.to_owned(), env.to_owned());
            return Err(environment.explain(client, error).await);
        }
    };
    if output.format != Format::Table {
        output.resource(&found)?;
        return Ok(Exit::Ok);
    }
    let considered = found["considered"].as_array().cloned().unwrap_or_default();
    let row = |one: Value| {
        let is_chosen = if one["is_chosen"] == json!(true) { "yes" } else { "no" };
        json!({ "definition": one["id"], "taken": is_chosen, "reason": one["reason"] })
    };
    output.list(considered.into_iter().map(row).collect(), &["definition", "taken", "reason"])?;
    let name = found["resource"].as_str().unwrap_or(resource);
    let module = found["module"].as_str().map(|source| format!("module {source}"));
    let runs = found["image"].as_str().map(str::to_owned).or(module);
    match (runs, found["runner_id"].as_str(), found["problem"].as_str()) {
        (Some(runs), Some(runner), _) => {
            let place = found["cluster"].as_str();
            let place =
                place.map_or_else(String::new, |cluster| format!(" in cluster `{cluster}`"));
            output.notice(&format!("`{name}` would run {runs} on runner `{runner}`{place}"));
        }
        (_, _, Some(problem)) => {
            output.notice(&format!("nothing would run for `{name}`: {problem}"));
        }
        _ => {}
    }
    Ok(Exit::Ok)
}
