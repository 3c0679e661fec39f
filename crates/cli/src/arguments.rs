//! The commands and flags of `canyon`.

use crate::commands::{
    agents, apply, approve, cancel, completion, config, create, delete, deploy, destroy, doctor,
    drift, explain, force_unlock, get, import, limit, list, login, logout, logs, outputs,
    refresh_runner, retention, rollback, show, state, status, switch, token, update, variables,
    version, wait, whoami,
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

/// The flags of every command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Global {
    /// Format of the results [default: table; with --jq: json]
    #[arg(short, long, global = true, value_enum, value_name = "FORM")]
    pub(crate) out: Option<Format>,
    /// Filter the result as JSON, in the language of jq; text is printed without quotes
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) jq: Option<String>,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a resource
    Create(create::Arguments),
    /// Show one resource
    Get(get::Arguments),
    /// List resources
    List(list::Arguments),
    /// Change a resource
    Update(update::Arguments),
    /// Delete a resource
    Delete(delete::Arguments),
    /// Set variables that modules get, git credentials, or how long Canyon keeps what it stores
    Set(variables::SetArguments),
    /// Remove variables
    Unset(variables::UnsetArguments),
    /// Show what an environment gets, and from where
    Explain(explain::Arguments),
    /// Deploy a module to an environment
    Deploy(deploy::Arguments),
    /// Plan a deployment, and change nothing
    Plan(deploy::Arguments),
    /// Apply a plan that `canyon plan` has made: exactly that one
    Apply(apply::Arguments),
    /// Approve a plan that waits for it
    Approve(approve::Arguments),
    /// End a deployment whose plan is not to be applied
    Discard(approve::DiscardArguments),
    /// Show the changes of a plan
    Show(show::Arguments),
    /// Show what differs from what was deployed last
    Drift(drift::Arguments),
    /// Repeat an earlier deployment of an environment
    Rollback(rollback::Arguments),
    /// Destroy everything in an environment's state
    Destroy(destroy::Arguments),
    /// Add a resource that exists to an environment's state
    Import(import::Arguments),
    /// Read and change an environment's state
    State(state::Arguments),
    /// Free the lock of an environment's state
    #[command(visible_alias = "unlock")]
    ForceUnlock(force_unlock::Arguments),
    /// Wait for the end of a deployment
    Wait(wait::Arguments),
    /// Show what runs, what waits and why, and what failed in the last 24 hours
    Status(status::Arguments),
    /// Show the logs of a deployment
    Logs(logs::Arguments),
    /// Show the outputs of a deployment
    Outputs(outputs::Arguments),
    /// Stop a deployment
    Cancel(cancel::Arguments),
    /// Link an environment to the runner that the rules choose now
    RefreshRunner(refresh_runner::Arguments),
    /// Show what to configure for a runner, and check whether it works
    Doctor(doctor::Arguments),
    /// Let an agent that has presented its key work
    Adopt(agents::AdoptArguments),
    /// Refuse a plan that waits for approval, or an agent
    Reject(approve::RejectArguments),
    /// Delete an agent's registration: it must be adopted again
    Forget(agents::Arguments),
    /// Stop giving an agent or a runner new work
    Disable(switch::DisableArguments),
    /// Give an agent or a runner new work again
    Enable(switch::EnableArguments),
    /// Count what the organization stores, and estimate what a retention would remove of it
    Usage(retention::UsageArguments),
    /// Limit how many jobs run at once
    Limit(limit::Arguments),
    /// Sign in, and store address, organization and token in a context for later commands
    Login(login::Arguments),
    /// End the sign-in of a context
    Logout(logout::Arguments),
    /// Show who the commands act as, and with which roles
    Whoami(whoami::Arguments),
    /// Show the stored contexts, and choose the one that later commands use
    Config(config::Arguments),
    /// Create a token, on the server or on this machine
    Token(token::Arguments),
    /// Run Canyon on this machine
    #[cfg(feature = "local")]
    Local(crate::commands::local::Arguments),
    /// Print a completion script for a shell
    Completion(completion::Arguments),
    /// Print the versions of this program and of the server
    Version(version::Arguments),
}
