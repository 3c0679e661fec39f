//! What may be typed.

use crate::commands::{
    agents, cancel, completion, create, delete, deploy, doctor, get, limit, list, login, logs,
    outputs, refresh_runner, switch, token, update,
};
use crate::exit;
use crate::output::Format;
use crate::settings::SettingFlags;
use clap::{Parser, Subcommand};

/// Defines runners, links environments to them, and deploys OpenTofu modules through them
#[derive(Debug, Parser)]
#[command(name = "canyon", version, after_help = exit::HELP, propagate_version = false)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Global {
    /// Form of the results
    #[arg(short, long, global = true, value_enum, default_value = "table", value_name = "FORM")]
    pub(crate) out: Format,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make something
    Create(create::Arguments),
    /// Show one thing
    Get(get::Arguments),
    /// List things
    List(list::Arguments),
    /// Change something
    Update(update::Arguments),
    /// Delete something
    Delete(delete::Arguments),
    /// Deploy a module to an environment
    Deploy(deploy::Arguments),
    /// Show what a deployment has logged
    Logs(logs::Arguments),
    /// Show what a deployment has put out
    Outputs(outputs::Arguments),
    /// Stop a deployment
    Cancel(cancel::Arguments),
    /// Link an environment to the runner that the rules choose now
    RefreshRunner(refresh_runner::Arguments),
    /// Say what is to be configured for a runner, and try whether it works
    Doctor(doctor::Arguments),
    /// Let an agent work that has shown its key
    Adopt(agents::AdoptArguments),
    /// Refuse an agent
    Reject(agents::Arguments),
    /// Forget an agent: it must be adopted again
    Forget(agents::Arguments),
    /// Give an agent or a runner no further work
    Disable(switch::Arguments),
    /// Give an agent or a runner work again
    Enable(switch::Arguments),
    /// Limit how many jobs run at once
    Limit(limit::Arguments),
    /// Remember address, organization and token
    Login(login::Arguments),
    /// Make a token, at the server or here
    Token(token::Arguments),
    /// Run Canyon on this machine
    #[cfg(feature = "local")]
    Local(crate::commands::local::Arguments),
    /// Print a completion script for a shell
    Completion(completion::Arguments),
    /// Print the version
    Version,
}
