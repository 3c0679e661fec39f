//! Runs the command that the arguments name.

use crate::arguments::{Cli, Command};
#[cfg(feature = "local")]
use crate::commands::local;
use crate::commands::{
    agents, apply, approve, cancel, completion, config, create, delete, deploy, destroy, doctor,
    drift, explain, force_unlock, get, import, limit, list, login, logout, logs, outputs,
    refresh_runner, retention, rollback, show, state, status, switch, token, update, variables,
    version, wait, whoami,
};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::settings::{SettingFlags, Settings};
use crate::sign_in::{Renewal, refused, renewed};
use canyon_api::client::Client;

/// Runs the command of `cli`. A client needs only one thread, and a runtime of one thread starts faster.
pub(crate) fn dispatch(cli: Cli, output: Output) -> Result<Exit, CliError> {
    if cli.global.jq.is_some() && prints_text(&cli.command) {
        return Err(CliError::usage("--jq needs a result in JSON; this command prints only text"));
    }
    let command = match cli.command {
        Command::Completion(arguments) => {
            return completion::run(&arguments, output);
        }
        Command::Token(arguments) if arguments.is_offline() => return token::new(output),
        #[cfg(feature = "local")]
        Command::Local(arguments) => return local::run(arguments, output),
        command => command,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(CliError::Runtime)?.block_on(call(command, &cli.global.settings, output))
}

/// Whether the command's result is text whatever `-o` says.
fn prints_text(command: &Command) -> bool {
    #[cfg(feature = "local")]
    if matches!(command, Command::Local(_)) {
        return true;
    }
    matches!(
        command,
        Command::Logs(_) | Command::Completion(_) | Command::Login(_) | Command::Logout(_)
    )
}

async fn call(command: Command, flags: &SettingFlags, output: Output) -> Result<Exit, CliError> {
    if let Command::Login(arguments) = command {
        return login::run(&arguments, flags, output).await;
    }
    if let Command::Logout(arguments) = command {
        return logout::run(&arguments, flags, output).await;
    }
    if let Command::Config(arguments) = command {
        return config::run(arguments, flags, output).await;
    }
    if let Command::Version(arguments) = command {
        return version::run(&arguments, flags, output).await;
    }
    let settings = match &command {
        Command::Create(arguments) if arguments.is_organization() => {
            Settings::load_without_org(flags)?
        }
        _ => Settings::load(flags)?,
    };
    let settings = renewed(settings, output).await?;
    let client = client(&settings, output)?;
    let _renewal = Renewal::start(&settings, &client, output);
    let is_whoami = matches!(command, Command::Whoami(_));
    let done = run(command, &client, output).await;
    if is_whoami && done.is_ok() {
        output.notice(&format!("the commands use {}", settings.source_of_token()));
    }
    done.map_err(|error| refused(&settings, error))
}

/// Runs a command that calls Canyon.
async fn run(command: Command, client: &Client, output: Output) -> Result<Exit, CliError> {
    match command {
        Command::Create(arguments) => create::run(arguments, client, output).await,
        Command::Get(arguments) => get::run(arguments, client, output).await,
        Command::List(arguments) => list::run(arguments, client, output).await,
        Command::Update(arguments) => update::run(arguments, client, output).await,
        Command::Delete(arguments) => delete::run(arguments, client, output).await,
        Command::Set(arguments) => variables::set(arguments, client, output).await,
        Command::Unset(arguments) => variables::unset(arguments, client, output).await,
        Command::Explain(arguments) => explain::run(arguments, client, output).await,
        Command::Deploy(arguments) => deploy::run(arguments, client, output).await,
        Command::Plan(arguments) => deploy::plan(arguments, client, output).await,
        Command::Apply(arguments) => apply::run(arguments, client, output).await,
        Command::Show(arguments) => show::run(arguments, client, output).await,
        Command::Drift(arguments) => drift::run(arguments, client, output).await,
        Command::Rollback(arguments) => rollback::run(arguments, client, output).await,
        Command::Destroy(arguments) => destroy::run(arguments, client, output).await,
        Command::Import(arguments) => import::run(arguments, client, output).await,
        Command::State(arguments) => state::run(arguments, client, output).await,
        Command::ForceUnlock(arguments) => force_unlock::run(arguments, client, output).await,
        Command::Wait(arguments) => wait::run(arguments, client, output).await,
        Command::Status(arguments) => status::run(arguments, client, output).await,
        Command::Logs(arguments) => logs::run(arguments, client, output).await,
        Command::Outputs(arguments) => outputs::run(arguments, client, output).await,
        Command::Cancel(arguments) => cancel::run(arguments, client, output).await,
        Command::RefreshRunner(arguments) => refresh_runner::run(arguments, client, output).await,
        Command::Doctor(arguments) => doctor::run(arguments, client, output).await,
        Command::Adopt(arguments) => agents::adopt(arguments, client, output).await,
        Command::Approve(arguments) => approve::run(arguments, client, output).await,
        Command::Discard(arguments) => approve::discard(arguments, client, output).await,
        Command::Reject(arguments) => approve::reject(arguments, client, output).await,
        Command::Forget(arguments) => agents::forget(arguments, client, output).await,
        Command::Usage(arguments) => retention::usage(arguments, client, output).await,
        Command::Limit(arguments) => limit::run(arguments, client, output).await,
        Command::Disable(arguments) => switch::disable(arguments, client, output).await,
        Command::Enable(arguments) => switch::enable(arguments, client, output).await,
        Command::Token(arguments) => token::run(arguments, client, output).await,
        Command::Whoami(arguments) => whoami::run(&arguments, client, output).await,
        // `dispatch` and the lines above run these.
        Command::Login(_)
        | Command::Logout(_)
        | Command::Config(_)
        | Command::Completion(_)
        | Command::Version(_) => Ok(Exit::Ok),
        #[cfg(feature = "local")]
        Command::Local(_) => Ok(Exit::Ok),
    }
}

fn client(settings: &Settings, output: Output) -> Result<Client, CliError> {
    if settings.is_exposed() {
        output.notice("warning: the token goes over the network unencrypted; use https");
    }
    settings.clone().client()
}
