//! Waits for the end of a deployment and shows its progress.
//!
//! Three tasks poll concurrently: one waits for the end and one reads the event stream, both by long
//! polls; one reads the status twice a second. After a lost connection they retry: the deployment does
//! not depend on this process.

use crate::error::CliError;
use crate::progress::Progress;
use crate::progress_bar::Display;
use crate::retry::{OutageTimer, retry_through_outage};
use canyon_api::attempt::Stream;
use canyon_api::client::{Client, ClientError, LogPart};
use canyon_api::deployment::Deployment;
#[cfg(feature = "local")]
use canyon_domain::waiting::WaitingCode;
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// The longest time after which the server answers a long poll.
const POLL_SECONDS: u32 = 25;
/// The pause between two reads of the status.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// An agent that is connected takes a job within a second or two.
#[cfg(feature = "local")]
const AGENT_HINT_DELAY: Duration = Duration::from_secs(2);

enum Update {
    Ended(Box<Deployment>),
    Status(Box<Deployment>),
    Events(LogPart),
    Failed(ClientError),
}

/// Follows deployment `id`, shows its progress, and returns the deployment at its end.
pub(crate) async fn until_end(
    client: &Client,
    id: &str,
    display: &Display,
    timeout: Option<u64>,
) -> Result<Deployment, CliError> {
    until_end_for(client, id, display, timeout, false).await
}

/// The same. With `is_informed`, the user knows already what to do if no agent takes the deployment.
pub(crate) async fn until_end_for(
    client: &Client,
    id: &str,
    display: &Display,
    timeout: Option<u64>,
    is_informed: bool,
) -> Result<Deployment, CliError> {
    let deadline = async {
        match timeout {
            Some(seconds) => sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = watch_for(client, id, display, is_informed) => ended,
        () = deadline => {
            Err(CliError::TimedOut { id: id.to_owned(), seconds: timeout.unwrap_or_default() })
        }
        _ = tokio::signal::ctrl_c() => Err(CliError::Detached { id: id.to_owned() }),
    }
}

/// Does the same without a timeout, and without listening to Ctrl-C.
pub(crate) async fn watch(
    client: &Client,
    id: &str,
    display: &Display,
) -> Result<Deployment, CliError> {
    watch_for(client, id, display, false).await
}

#[cfg_attr(
    not(feature = "local"),
    expect(unused_variables, reason = "only for the hint about `--local`")
)]
async fn watch_for(
    client: &Client,
    id: &str,
    display: &Display,
    is_informed: bool,
) -> Result<Deployment, CliError> {
    let (sender, updates) = mpsc::channel(64);
    let mut pollers = JoinSet::new();
    pollers.spawn(poll_end(client.clone(), id.to_owned(), sender.clone()));
    pollers.spawn(poll_events(client.clone(), id.to_owned(), sender.clone()));
    pollers.spawn(poll_status(client.clone(), id.to_owned(), sender));
    let mut watch = Watch {
        client,
        id,
        display,
        updates,
        progress: Progress::default(),
        offset: 0,
        complete: false,
        #[cfg(feature = "local")]
        has_hinted: is_informed,
        #[cfg(feature = "local")]
        waits_for_agent_since: None,
    };
    watch.run().await
}

struct Watch<'w> {
    client: &'w Client,
    id: &'w str,
    display: &'w Display,
    updates: Receiver<Update>,
    progress: Progress,
    offset: u64,
    /// Whether the server has sent the whole event stream.
    complete: bool,
    /// Whether the hint about `--local` was shown.
    #[cfg(feature = "local")]
    has_hinted: bool,
    /// When the deployment was first seen to wait for an agent.
    #[cfg(feature = "local")]
    waits_for_agent_since: Option<Instant>,
}

impl Watch<'_> {
    async fn run(&mut self) -> Result<Deployment, CliError> {
        while let Some(update) = self.updates.recv().await {
            match update {
                Update::Events(part) => self.events(&part),
                Update::Status(deployment) => {
                    let notices = self.progress.update_status(&deployment);
                    self.display.show(&self.progress, notices);
                    #[cfg(feature = "local")]
                    self.hint(&deployment);
                }
                Update::Ended(deployment) => {
                    self.last_events().await;
                    let notices = self.progress.end();
                    self.display.show(&self.progress, notices);
                    return Ok(*deployment);
                }
                Update::Failed(source) => {
                    return Err(if source.is_retryable() {
                        CliError::ConnectionLost { id: self.id.to_owned(), source }
                    } else {
                        source.into()
                    });
                }
            }
        }
        // Each task sends an update before it returns; only a task that panicked ends the channel early.
        Err(CliError::usage("following the deployment failed; the deployment continues"))
    }

    /// A user whose runner has no agent may use this machine instead.
    #[cfg(feature = "local")]
    fn hint(&mut self, deployment: &Deployment) {
        let code = deployment.waiting.as_ref().map(|waiting| waiting.code.as_str());
        if self.has_hinted || code != Some(WaitingCode::Agent.as_str()) {
            return;
        }
        let waits_since = *self.waits_for_agent_since.get_or_insert_with(Instant::now);
        if waits_since.elapsed() >= AGENT_HINT_DELAY {
            self.has_hinted = true;
            let text = "hint: start an agent of that runner, or adopt the one that waits for that (canyon list agents --pending); or cancel this deployment and run it on this machine with `canyon deploy --local`";
            self.display.line(text);
        }
    }

    fn events(&mut self, part: &LogPart) {
        self.offset = part.next_offset;
        self.complete = part.complete;
        let notices = self.progress.feed(&part.bytes);
        self.display.show(&self.progress, notices);
    }

    /// Reads the events between the last part and the end. The result is known already, so a failure
    /// here is ignored.
    async fn last_events(&mut self) {
        while let Ok(update) = self.updates.try_recv() {
            if let Update::Events(part) = update {
                self.events(&part);
            }
        }
        while !self.complete {
            let (client, offset) = (self.client, self.offset);
            let read = async || client.log_part(self.id, Stream::Events, offset, 0).await;
            match retry_through_outage(read).await {
                Ok(part) if !part.bytes.is_empty() => self.events(&part),
                Ok(_) | Err(_) => return,
            }
        }
    }
}

async fn poll_end(client: Client, id: String, updates: Sender<Update>) {
    let mut outage = OutageTimer::default();
    loop {
        let sent_at = Instant::now();
        let update = match client.wait(&id, POLL_SECONDS).await {
            Ok(Some(deployment)) => Update::Ended(Box::new(deployment)),
            Ok(None) => {
                outage = OutageTimer::default();
                pause_if_early(sent_at).await;
                continue;
            }
            Err(error) => match outage.pause_or_fail(error).await {
                None => continue,
                Some(error) => Update::Failed(error),
            },
        };
        let _ = updates.send(update).await;
        return;
    }
}

/// Retries without a limit of its own: [`poll_end`] reports an outage that lasts too long.
async fn poll_events(client: Client, id: String, updates: Sender<Update>) {
    let mut offset = 0;
    loop {
        let sent_at = Instant::now();
        match client.log_part(&id, Stream::Events, offset, POLL_SECONDS).await {
            Ok(part) => {
                let (empty, complete) = (part.bytes.is_empty(), part.complete);
                offset = part.next_offset;
                if updates.send(Update::Events(part)).await.is_err() || complete {
                    return;
                }
                if empty {
                    pause_if_early(sent_at).await;
                }
            }
            Err(error) if error.is_retryable() => sleep(POLL_INTERVAL).await,
            Err(_) => return,
        }
    }
}

async fn poll_status(client: Client, id: String, updates: Sender<Update>) {
    loop {
        match client.deployment(&id).await {
            Ok(deployment) => {
                let ended = deployment.completed_at.is_some();
                if ended || updates.send(Update::Status(Box::new(deployment))).await.is_err() {
                    return;
                }
            }
            Err(error) if error.is_retryable() => {}
            Err(_) => return,
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Pauses if a server, or a proxy in front of it, answered without holding the long poll.
async fn pause_if_early(sent_at: Instant) {
    if sent_at.elapsed() < POLL_INTERVAL {
        sleep(POLL_INTERVAL).await;
    }
}
