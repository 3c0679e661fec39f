//! `canyon refresh-runner`.

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::resource::Resource;
use canyon_api::client::Client;

/// The environment.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The project
    project: String,
    /// The environment
    environment: String,
    /// Only show which runner the rules choose
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
    let mut path = environment.path();
    path.extend(["actions", "refresh_runner"]);
    let mut options = vec![("dry_run", arguments.dry_run.to_string())];
    options.extend(arguments.migrate.then(|| ("migrate", "true".to_owned())));
    match client.act(&path, &options).await {
        Ok(result) => output.resource(&result)?,
        Err(error) => return Err(environment.explain(client, error).await),
    }
    Ok(Exit::Ok)
}
