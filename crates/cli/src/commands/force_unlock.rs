//! `canyon force-unlock`.

use super::module_flags::ModuleOfRequest;
use super::state_run::{StateRun, WatchFlags};
use crate::confirm;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::resource::Resource;
use canyon_api::client::Client;
use canyon_domain::state_command::{LockId, StateCommand};
use uuid::Uuid;

/// The lock to free.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The project
    project: String,
    /// The environment
    environment: String,
    /// The id of the lock, as the failure of a deployment names it
    #[arg(value_parser = lock_id)]
    lock: LockId,
    /// Free it although its holder is not proved dead; for administrators
    #[arg(long)]
    force: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    watch: WatchFlags,
}

/// OpenTofu gives locks UUIDs, and in Google Cloud Storage the number of the lock file's generation.
fn lock_id(text: &str) -> Result<LockId, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number && Uuid::try_parse(text).is_err() {
        let form = "the id of a lock is a UUID, and in Google Cloud Storage a number; the failure of a deployment names it";
        return Err(form.to_owned());
    }
    LockId::try_from(text.to_owned()).map_err(|error| error.to_string())
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Arguments { project, environment, lock, force, yes, watch } = arguments;
    let environment = Resource::environment(project, environment);
    if force {
        let action = format!(
            "free the lock {} on the state of {}, although its holder may still write that state",
            lock.as_str(),
            environment.full_name()
        );
        confirm::require_yes(yes, &action)?;
        if !yes {
            confirm::ask(&action, confirm::ctrl_c(), output).await?;
        }
    }
    let command = StateCommand::ForceUnlock { lock_id: lock, force };
    StateRun { environment, command, module: ModuleOfRequest::default(), watch }
        .change(client, output)
        .await?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_id_of_a_lock_is_accepted() {
        for id in ["9a7bff58-e09d-5260-5a4f-13cb3c817dd5", "1718000000000000"] {
            assert_eq!(lock_id(id).unwrap().as_str(), id);
        }
        for text in ["not-an-id", "", "-1", "9a7bff58"] {
            assert!(lock_id(text).unwrap_err().contains("is a UUID"), "{text}");
        }
    }
}
