//! `canyon import`.

use super::state::address;
use super::state_run::{StateRun, WatchFlags};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::resource::Resource;
use crate::{module_argument, variables};
use canyon_api::client::Client;
use canyon_domain::job::Module;
use canyon_domain::plan_options::ResourceAddress;
use canyon_domain::state_command::{ImportId, StateCommand};
use std::path::PathBuf;

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
    /// The module that declares the resource, as for `deploy`; without it, the one deployed last
    #[arg(long, allow_hyphen_values = true)]
    module: Option<String>,
    /// Set a variable of the module: `name=value`, where lists and maps are written in HCL
    #[arg(long, value_name = "NAME=VALUE", requires = "module")]
    var: Vec<String>,
    /// Read variables from a .tfvars, .tfvars.json or .yaml file
    #[arg(long, value_name = "FILE", requires = "module")]
    var_file: Vec<PathBuf>,
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
    let Arguments { project, environment, address, resource, module, var, var_file, watch } =
        arguments;
    let folder = module.as_deref().and_then(module_argument::folder);
    let inputs = variables::values(&var_file, &var, folder.as_deref())?;
    let module = match &module {
        None => None,
        Some(given) => {
            let source = module_argument::resolve(given, client, output).await?;
            Some(Module { source: source.source, source_code: source.source_code, inputs })
        }
    };
    let environment = Resource::environment(project, environment);
    let command = StateCommand::Import { address, id: resource };
    StateRun { environment, command, module, watch }.change(client, output).await?;
    Ok(Exit::Ok)
}
