//! `canyon logs`.

use crate::deployment_target::DeploymentTarget;
use crate::error::CliError;
use crate::exit::Exit;
use crate::identity::{Key, SealedLog, is_sealed};
use crate::log_tail::LogTail;
use crate::output::{Output, is_terminal};
use crate::retry::{retry_call, retry_through_outage};
use crate::timed_log::TimedLog;
use canyon_api::attempt::Stream;
use canyon_api::client::{Client, LogPart};
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
    /// OpenTofu's `-json` lines instead of its text; they have the time of each event
    #[arg(long)]
    events: bool,
    /// Show the time of each line: what OpenTofu reports, without the lines of the runner itself
    #[arg(long, conflicts_with = "events")]
    timestamps: bool,
    /// Begin with the last N lines of what is stored
    #[arg(long, value_name = "N")]
    tail: Option<usize>,
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
    let mut tail = arguments.tail.map(LogTail::new);
    let mut timed = arguments.timestamps.then(TimedLog::default);
    // The log itself has no times.
    let has_times = arguments.events || arguments.timestamps;
    let stream = if has_times { Stream::Events } else { Stream::Log };
    let id = &arguments.target.id(client, output).await?;
    let mut offset = 0;
    loop {
        // The end of what is stored must be seen before its last lines are known.
        let wait = if arguments.follow && tail.is_none() { POLL_SECONDS } else { 0 };
        let read = async || client.log_part(id, stream, offset, wait).await;
        let part = if arguments.follow && offset > 0 {
            // The server still has the log after a restart.
            retry_through_outage(read).await?
        } else {
            retry_call(output, "retrying", read).await?
        };
        if offset == 0 && sealed.is_none() && is_sealed(&part.bytes) {
            refuse_on_terminal(id, output)?;
            // It is piped as it is.
            timed = None;
        }
        offset = part.next_offset;
        let LogPart { bytes, complete, .. } = part;
        let text = match &mut sealed {
            Some(sealed) => sealed.read(&bytes)?,
            None => bytes.to_vec(),
        };
        let text = match &mut timed {
            Some(timed) => timed.read(&text),
            None => text,
        };
        match &mut tail {
            Some(tail) => tail.feed(&text),
            None => output.bytes(&text)?,
        }
        let is_at_end = complete || bytes.is_empty();
        if let Some(tail) = tail.take_if(|_| is_at_end) {
            output.bytes(&tail.into_bytes())?;
        }
        if complete || (bytes.is_empty() && !arguments.follow) {
            return Ok(Exit::Ok);
        }
        if bytes.is_empty() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// An encrypted log would only disturb a terminal. A pipe receives it, for `--identity` later, with a warning.
fn refuse_on_terminal(id: &str, output: Output) -> Result<(), CliError> {
    let message = format!("the log of deployment {id} is encrypted");
    let hint = format!(
        "read it with the secret key of its --logs-recipient: canyon logs {id} --identity FILE"
    );
    if is_terminal() {
        return Err(CliError::usage_with_hint(message, hint));
    }
    output.notice(&format!("warning: {message}\nhint: {hint}"));
    Ok(())
}
