//! Waits until Canyon has destroyed an environment's resources and deleted the environment.

use crate::confirm;
use crate::error::CliError;
use crate::output::Output;
use crate::resource::Resource;
use crate::retry::retry_through_outage;
use canyon_api::client::{Client, ClientError};
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep;
use uuid::Uuid;

/// The pause between two reads of the environment.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long to wait for the deletion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// Seconds; `None` for no limit.
    pub(super) timeout: Option<u64>,
}

impl Wait {
    /// Returns when the environment with this uuid is deleted.
    ///
    /// # Errors
    ///
    /// [`CliError::DeletionFailed`], and [`CliError::DeletionContinues`] after `--timeout` or Ctrl-C.
    pub(super) async fn until_deleted(
        self,
        environment: &Resource,
        uuid: Option<Uuid>,
        client: &Client,
        output: Output,
    ) -> Result<(), CliError> {
        let deadline = async {
            match self.timeout {
                Some(seconds) => sleep(Duration::from_secs(seconds)).await,
                None => std::future::pending().await,
            }
        };
        let continues = |is_interrupted| CliError::DeletionContinues {
            project: environment.project.clone().unwrap_or_default(),
            env: environment.id.clone(),
            is_interrupted,
        };
        tokio::select! {
            ended = poll(environment, uuid, client) => ended?,
            () = deadline => return Err(continues(false)),
            () = confirm::ctrl_c() => return Err(continues(true)),
        }
        output.notice(&format!("deleted environment `{}`", environment.full_name()));
        Ok(())
    }
}

async fn poll(environment: &Resource, uuid: Option<Uuid>, client: &Client) -> Result<(), CliError> {
    loop {
        let read = async || match client.get(&environment.path()).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err::<Option<Value>, ClientError>(error),
        };
        let Some(found) = retry_through_outage(read).await? else { return Ok(()) };
        // A new environment may have the name by now.
        let is_another = uuid.is_some_and(|uuid| found["uuid"] != uuid.to_string());
        if is_another {
            return Ok(());
        }
        if found["status"] != "deleting" {
            return Err(failed(environment, &found));
        }
        sleep(POLL_INTERVAL).await;
    }
}

fn failed(environment: &Resource, found: &Value) -> CliError {
    let text = |name: &str| found[name].as_str().unwrap_or_default();
    let reason = match text("status_message") {
        "" => text("status"),
        message => message,
    };
    let project = environment.project.as_deref().unwrap_or_default();
    CliError::DeletionFailed {
        message: format!("environment {} was not deleted: {reason}", environment.full_name()),
        hint: format!(
            "read the log of its last run with `canyon logs {project} {}`",
            environment.id
        ),
    }
}
