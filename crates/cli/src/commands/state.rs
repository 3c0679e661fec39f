//! `canyon state`.

use super::module_flags::ModuleOfRequest;
use super::state_run::{self, StateRun, WatchFlags};
use crate::confirm;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::resource::Resource;
use canyon_api::client::Client;
use canyon_domain::json::Json;
use canyon_domain::plan_options::ResourceAddress;
use canyon_domain::state_command::StateCommand;

/// What to do with the state.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List the resources in the state
    List {
        #[command(flatten)]
        of: Target,
        /// Only these resources and modules
        #[arg(value_name = "ADDRESS", value_parser = address)]
        addresses: Vec<ResourceAddress>,
    },
    /// Show the attributes of a resource, without those that OpenTofu knows as sensitive; the runner encrypts them for this
    /// command alone
    Show {
        #[command(flatten)]
        of: Target,
        /// Its address
        #[arg(value_parser = address)]
        address: ResourceAddress,
    },
    /// Print the whole state, with every secret in it; the runner encrypts it for this command alone
    Pull {
        #[command(flatten)]
        of: Target,
    },
    /// Remove resources from the state, and leave them where they are
    Rm {
        #[command(flatten)]
        of: Target,
        /// The resources and modules
        #[arg(value_name = "ADDRESS", value_parser = address, required = true)]
        addresses: Vec<ResourceAddress>,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Give a resource or a module another address
    Mv {
        #[command(flatten)]
        of: Target,
        /// The address that it has
        #[arg(value_parser = address)]
        from: ResourceAddress,
        /// The address that it gets
        #[arg(value_parser = address)]
        to: ResourceAddress,
    },
}

#[derive(Debug, clap::Args)]
struct Target {
    /// The project
    project: String,
    /// The environment
    environment: String,
    #[command(flatten)]
    watch: WatchFlags,
}

impl Target {
    fn run(self, command: StateCommand) -> StateRun {
        let environment = Resource::environment(self.project, self.environment);
        StateRun { environment, command, module: ModuleOfRequest::default(), watch: self.watch }
    }
}

fn parsed(state: &str) -> Result<Json, CliError> {
    Json::parse(state).map_err(|error| CliError::usage(format!("the state is no JSON: {error}")))
}

/// Parses the address of a resource or a module.
pub(super) fn address(text: &str) -> Result<ResourceAddress, String> {
    ResourceAddress::try_from(text.to_owned()).map_err(|error| error.to_string())
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    match arguments.what {
        What::List { of, addresses } => {
            let listed = of.run(StateCommand::List { addresses }).read(client, output).await?;
            state_run::print(&listed, output)?;
        }
        What::Show { of, address } => {
            let run = of.run(StateCommand::Show { address });
            let shown = run.read_sealed(client, output).await?;
            match output.format {
                Format::Table => output.text(&format!("{}\n", shown.trim_end()))?,
                Format::Yaml | Format::Json => output.exact(&Json::String(shown))?,
            }
        }
        What::Pull { of } => {
            let state = of.run(StateCommand::Pull {}).read_sealed(client, output).await?;
            match output.format {
                Format::Table => output.text(&format!("{}\n", state.trim_end()))?,
                Format::Yaml | Format::Json => output.exact(&parsed(&state)?)?,
            }
        }
        What::Rm { of, addresses, yes } => {
            let run = of.run(StateCommand::Rm { addresses });
            let what = run.command.arguments().join(", ");
            let action = format!(
                "remove {what} from the state of {}, where Canyon no longer manages or destroys it",
                run.environment.full_name()
            );
            confirm::require_yes(yes, &action)?;
            if !yes {
                confirm::ask(&action, confirm::ctrl_c(), output).await?;
            }
            run.change(client, output).await?;
        }
        What::Mv { of, from, to } => {
            of.run(StateCommand::Mv { from, to }).change(client, output).await?;
        }
    }
    Ok(Exit::Ok)
}
