//! `canyon logs`.

use crate::deployment_target::DeploymentTarget;
use crate::error::CliError;
use crate::exit::Exit;
use crate::identity::{Key, SealedLog};
use crate::output::Output;
use crate::retry::{retry_call, retry_through_outage};
use canyon_api::attempt::Stream;
use canyon_api::client::Client;
use std::path::PathBuf;
use std::time::Duration;

/// The log to show.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: DeploymentTarget,
    /// Continue until the deployment ends
    #[arg(short, long)]
    follow: bool,
    /// OpenTofu's `-json` lines instead of its text
    #[arg(long)]
    events: bool,
    /// `age` secret key to decrypt the log with
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

/// The longest time after which the server answers a long poll.
const POLL_SECONDS: u32 = 25;

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let key = arguments.identity.as_deref().map(Key::read).transpose()?;
    let mut sealed = key.map(SealedLog::new);
    let stream = if arguments.events { Stream::Events } else { Stream::Log };
    let wait = if arguments.follow { POLL_SECONDS } else { 0 };
    let id = &arguments.target.id(client, output).await?;
    let mut offset = 0;
    loop {
        let read = async || client.log_part(id, stream, offset, wait).await;
        let part = if arguments.follow && offset > 0 {
            // The server still has the log after a restart.
            retry_through_outage(read).await?
        } else {
            retry_call(output, "retrying", read).await?
        };
        offset = part.next_offset;
        match &mut sealed {
            Some(sealed) => output.bytes(&sealed.read(&part.bytes)?)?,
            None => output.bytes(&part.bytes)?,
        }
        if part.complete || (part.bytes.is_empty() && !arguments.follow) {
            return Ok(Exit::Ok);
        }
        if part.bytes.is_empty() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}
