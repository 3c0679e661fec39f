//! `canyon import`.

use super::module_flags::ModuleFlags;
use super::state::address;
use super::state_run::{StateRun, WatchFlags};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::resource::Resource;
use canyon_api::client::Client;
use canyon_domain::plan_options::ResourceAddress;
use canyon_domain::state_command::{ImportId, StateCommand};

/// What to import, and into which environment's state.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The project
    project: String,
    /// The environment
    environment: String,
    /// The address at which the module declares the resource
    #[arg(value_parser = address)]
    address: ResourceAddress,
    /// The id of the resource, as its provider writes it
    #[arg(value_name = "ID", value_parser = id, allow_hyphen_values = true)]
    resource: ImportId,
    #[command(flatten)]
    module: ModuleFlags,
    #[command(flatten)]
    watch: WatchFlags,
}

fn id(text: &str) -> Result<ImportId, String> {
    ImportId::try_from(text.to_owned()).map_err(|error| error.to_string())
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Arguments { project, environment, address, resource, module, watch } = arguments;
    let module = module.resolve(client, output).await?;
    let environment = Resource::environment(project, environment);
    let command = StateCommand::Import { address, id: resource };
    StateRun { environment, command, module, watch }.change(client, output).await?;
    Ok(Exit::Ok)
}
