//! Runs a command on an environment's state: as a deployment, which the environment's runner works on.

use super::deploy;
use super::module_flags::ModuleOfRequest;
use crate::error::CliError;
use crate::identity::Key;
use crate::output::{Format, Output};
use crate::progress_bar::Display;
use crate::resource::Resource;
use crate::retry::retry_call;
use crate::{follow, summary};
use canyon_api::client::Client;
use canyon_api::deployment::{Deployment, DeploymentCreateBody, RequestedMode};
use canyon_domain::json::Json;
use canyon_domain::state_command::StateCommand;
use std::collections::BTreeMap;

/// How long to watch it.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct WatchFlags {
    /// Stop waiting after this many seconds; the command on the state continues
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

/// A command, and the environment whose state it works on.
#[derive(Debug)]
pub(crate) struct StateRun {
    pub(crate) environment: Resource,
    pub(crate) command: StateCommand,
    /// Another module than that of the last deployment.
    pub(crate) module: ModuleOfRequest,
    pub(crate) watch: WatchFlags,
}

impl StateRun {
    /// Changes the state, and prints how that ended.
    pub(crate) async fn change(self, client: &Client, output: Output) -> Result<(), CliError> {
        let ended = self.ended(None, client, output).await?;
        summary::print(client, ended, None, output).await
    }

    /// Reads what is in the state: the value that the command prints.
    pub(crate) async fn read(self, client: &Client, output: Output) -> Result<Json, CliError> {
        let ended = self.ended(None, client, output).await?;
        let id = succeeded(ended)?;
        let read = async || client.outputs(&id).await;
        let outputs = retry_call(output, "retrying", read).await?;
        only(outputs.into_values().filter_map(|output| output.value), &id)
    }

    /// Reads values of the state, which the runner encrypts to a key of this process.
    pub(crate) async fn read_sealed(
        self,
        client: &Client,
        output: Output,
    ) -> Result<String, CliError> {
        let key = Key::generate();
        let ended = self.ended(Some(key.recipient()), client, output).await?;
        let id = succeeded(ended)?;
        let read = async || client.encrypted_outputs(&id).await;
        let sealed = retry_call(output, "retrying", read).await?;
        let text = key.open_base64(&sealed.raw)?;
        let values: BTreeMap<String, String> = serde_json::from_slice(&text)
            .map_err(|_| CliError::usage("the decrypted state is not text"))?;
        only(values.into_values(), &id)
    }

    async fn ended(
        self,
        recipient: Option<String>,
        client: &Client,
        output: Output,
    ) -> Result<Deployment, CliError> {
        let project = self.environment.project.as_deref().unwrap_or_default();
        let body = DeploymentCreateBody {
            module: self.module.module,
            secret_inputs: self.module.secret_inputs,
            state_command: Some(self.command.into()),
            encrypted_outputs_recipient: recipient,
            ..DeploymentCreateBody::new(RequestedMode::State, project, &self.environment.id)
        };
        let id = deploy::create(client, &body, &deploy::new_key(), output).await?.id.to_string();
        let display = Display::new(output);
        display.line(&format!("deployment {id}"));
        let ended = follow::until_end(client, &id, &display, self.watch.timeout).await;
        drop(display);
        summary::or_unended(client, ended, output).await
    }
}

/// The id of a run that succeeded.
fn succeeded(ended: Deployment) -> Result<String, CliError> {
    if ended.status == "succeeded" {
        Ok(ended.id.to_string())
    } else {
        Err(summary::failure(ended))
    }
}

fn only<T>(mut values: impl Iterator<Item = T>, id: &str) -> Result<T, CliError> {
    values.next().ok_or_else(|| {
        CliError::usage_with_hint(
            "the run did not deliver what it read".to_owned(),
            format!("read the reason in its log: canyon logs {id}"),
        )
    })
}

/// Prints a list as lines, without quotes; for programs as it is.
pub(crate) fn print(value: &Json, output: Output) -> Result<(), CliError> {
    match (value, output.format) {
        (Json::Array(items), Format::Table) => {
            let line = |item: &Json| match item {
                Json::String(text) => format!("{text}\n"),
                other => format!("{other}\n"),
            };
            output.text(&items.iter().map(line).collect::<String>())
        }
        _ => output.exact(value),
    }
}
