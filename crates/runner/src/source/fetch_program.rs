//! A program that fetches a source: git, or OpenTofu.

use super::SourceError;
use crate::reaper::OwnChild;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// Runs `command` to its end. `program` is its name for messages, `call` what it does, and `host` what it must reach.
pub(super) async fn run(
    mut command: Command,
    program: &str,
    call: &str,
    host: &str,
    limit: Duration,
) -> Result<Output, SourceError> {
    // Standard input is the job's lock: every process that holds it belongs to the job.
    command.stdin(Stdio::inherit()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| SourceError::Unusable(format!("cannot start {program}: {error}")))?;
    let _own = OwnChild::new(child.id());
    match tokio::time::timeout(limit, child.wait_with_output()).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) => Err(SourceError::Unusable(format!("cannot wait for {program}: {error}"))),
        Err(_) => Err(SourceError::Unreachable(format!(
            "`{call}` took longer than {} s; check that the job can reach the {host}",
            limit.as_secs()
        ))),
    }
}
