//! `canyon destroy`: another name of `canyon deploy --destroy`.

use super::deploy::{self, Request, RunFlags};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use canyon_api::client::Client;
use canyon_api::deployment::RequestedMode;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What to destroy.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The project
    project: String,
    /// The environment
    environment: String,
    /// Another module than the one deployed last, as for `deploy`
    #[arg(long, allow_hyphen_values = true)]
    module: Option<String>,
    /// Set a variable of the module: `name=value`, where lists and maps are written in HCL
    #[arg(long, value_name = "NAME=VALUE", requires = "module")]
    var: Vec<String>,
    /// Read variables from a .tfvars, .tfvars.json or .yaml file
    #[arg(long, value_name = "FILE", requires = "module")]
    var_file: Vec<PathBuf>,
    #[command(flatten)]
    flags: RunFlags,
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Arguments { project, environment, module, var, var_file, flags } = arguments;
    let mode = RequestedMode::Destroy;
    let rollback_to = None;
    let secret_inputs = BTreeMap::new();
    let request = Request {
        project,
        environment,
        mode,
        module,
        var,
        var_file,
        secret_inputs,
        rollback_to,
        flags,
    };
    deploy::execute(request, client, output).await
}
