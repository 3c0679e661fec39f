//! `canyon destroy`: another name of `canyon deploy --destroy`.

use super::container_flags::ContainerFlags;
use super::deploy::{self, Request, RunFlags};
use super::module_flags::ModuleFlags;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use canyon_api::client::Client;
use canyon_api::deployment::RequestedMode;

/// What to destroy.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The project
    project: String,
    /// The environment
    environment: String,
    #[command(flatten)]
    module: ModuleFlags,
    #[command(flatten)]
    container: ContainerFlags,
    #[command(flatten)]
    flags: RunFlags,
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Arguments { project, environment, module, container, flags } = arguments;
    let (mode, rollback_to, plan_of) = (RequestedMode::Destroy, None, None);
    let request =
        Request { project, environment, mode, module, container, rollback_to, plan_of, flags };
    deploy::execute(request, client, output).await
}
