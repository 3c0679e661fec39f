//! `canyon disable` and `canyon enable`.

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::resource::{Kind, Resource};
use canyon_api::client::Client;
use serde_json::json;

/// What to disable or enable.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// An agent: while it is disabled it gets no new work, and finishes its current work
    #[command(visible_alias = "agents")]
    Agent {
        /// Its id
        id: String,
    },
    /// A runner: while it is disabled it launches nothing; running jobs continue, the rest waits
    #[command(visible_alias = "runners")]
    Runner {
        /// Its id
        id: String,
    },
}

pub(crate) async fn run(
    arguments: Arguments,
    disabled: bool,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let resource = match arguments.what {
        What::Agent { id } => Resource::new(Kind::Agent, id),
        What::Runner { id } => Resource::new(Kind::Runner, id),
    };
    match client.update(&resource.path(), &json!({ "disabled": disabled })).await {
        Ok(changed) => {
            let done = if disabled { "disabled" } else { "enabled" };
            output.notice(&format!("{done} {} `{}`", resource.kind.noun(), resource.id));
            output.resource(&changed)?;
            Ok(Exit::Ok)
        }
        Err(error) => Err(resource.explain(client, error).await),
    }
}
