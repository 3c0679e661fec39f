//! `canyon limit`: how many jobs run at once.

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use canyon_api::client::Client;
use serde_json::json;

/// What to limit, and to how many jobs.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Everything in the organization
    Organization {
        #[command(flatten)]
        max: Max,
    },
    /// The jobs of a runner
    Runner {
        /// Its id
        id: String,
        #[command(flatten)]
        max: Max,
    },
    /// The deployments to a project, or to the projects of a group
    Project {
        /// Its id, or the path of the group
        id: String,
        #[command(flatten)]
        max: Max,
    },
    /// The checks for drift of a runner; 4 without a limit
    Checks {
        /// The runner's id
        runner: String,
        #[command(flatten)]
        max: Max,
    },
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Max {
    /// How many jobs may run at once
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,
    /// Remove the limit
    #[arg(long)]
    none: bool,
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let (scope, max) = match arguments.what {
        What::Organization { max } => ("organization".to_owned(), max),
        What::Runner { id, max } => (format!("runner:{id}"), max),
        What::Project { id, max } => (format!("project:{id}"), max),
        What::Checks { runner, max } => (format!("checks:{runner}"), max),
    };
    let path = ["concurrency-limits", &scope];
    if let Some(max_jobs) = max.jobs {
        let set = client.put(&path, &json!({ "max_jobs": max_jobs })).await?;
        output.notice(&format!("limited {scope} to {max_jobs} jobs at once"));
        output.resource(&set)?;
    } else {
        client.delete(&path, &[]).await?;
        output.notice(&format!("removed the limit of {scope}"));
    }
    Ok(Exit::Ok)
}
