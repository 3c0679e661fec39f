//! Watches a deployment until it ends.
//!
//! Three pollers run side by side: long polls for the end and for the stream of events, and a look at
//! the status twice a second. A lost connection is only waited out: the deployment does not need its
//! watcher.

use crate::error::CliError;
use crate::patience::{Patience, wait_out};
use crate::progress::Progress;
use crate::progress_bar::Display;
use canyon_api::attempt::Stream;
use canyon_api::client::{Client, ClientError, LogPart};
use canyon_api::deployment::Deployment;
#[cfg(feature = "local")]
use canyon_domain::agent::NEVER_CONNECTED;
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// The server answers a long poll after this at the latest.
const POLL_SECONDS: u32 = 25;
/// Between two looks at the status.
const LOOK: Duration = Duration::from_millis(500);

enum Update {
    Ended(Box<Deployment>),
    Seen(Box<Deployment>),
    Events(LogPart),
    Lost(ClientError),
}

/// Watches deployment `id`, shows its progress, and returns what it was at the end.
pub(crate) async fn until_end(
    client: &Client,
    id: &str,
    display: &Display,
    timeout: Option<u64>,
) -> Result<Deployment, CliError> {
    let deadline = async {
        match timeout {
            Some(seconds) => sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = watch(client, id, display) => ended,
        () = deadline => {
            Err(CliError::TimedOut { id: id.to_owned(), seconds: timeout.unwrap_or_default() })
        }
        _ = tokio::signal::ctrl_c() => Err(CliError::Detached { id: id.to_owned() }),
    }
}

/// The same for as long as it takes, whatever is pressed.
pub(crate) async fn watch(
    client: &Client,
    id: &str,
    display: &Display,
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
        hinted: false,
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
    /// Whether nothing follows in the stream of events.
    complete: bool,
    /// Whether it was said that this machine could run it.
    #[cfg(feature = "local")]
    hinted: bool,
}

impl Watch<'_> {
    async fn run(&mut self) -> Result<Deployment, CliError> {
        while let Some(update) = self.updates.recv().await {
            match update {
                Update::Events(part) => self.events(&part),
                Update::Seen(deployment) => {
                    let news = self.progress.see(&deployment);
                    self.display.show(&self.progress, news);
                    #[cfg(feature = "local")]
                    self.hint(&deployment);
                }
                Update::Ended(deployment) => {
                    self.last_events().await;
                    let news = self.progress.end();
                    self.display.show(&self.progress, news);
                    return Ok(*deployment);
                }
                Update::Lost(source) => {
                    return Err(if source.is_retryable() {
                        CliError::LostSight { id: self.id.to_owned(), source }
                    } else {
                        source.into()
                    });
                }
            }
        }
        // Every poller says why it stops; this is the end of one that panicked.
        Err(CliError::usage("watching the deployment failed; it goes on"))
    }

    /// Somebody without an agent may have this machine do the work.
    #[cfg(feature = "local")]
    fn hint(&mut self, deployment: &Deployment) {
        let reason = deployment.waiting.as_ref().map_or("", |waiting| &waiting.reason);
        if !self.hinted && reason.contains(NEVER_CONNECTED) {
            self.hinted = true;
            let text = "hint: start an agent of that runner; or cancel this, and `canyon deploy --local` runs it here";
            self.display.line(text);
        }
    }

    fn events(&mut self, part: &LogPart) {
        self.offset = part.next_offset;
        self.complete = part.complete;
        let news = self.progress.feed(&part.bytes);
        self.display.show(&self.progress, news);
    }

    /// What was written between the last part and the end. The result is known already, so that a
    /// failure here is no reason to say anything else.
    async fn last_events(&mut self) {
        while let Ok(update) = self.updates.try_recv() {
            if let Update::Events(part) = update {
                self.events(&part);
            }
        }
        while !self.complete {
            let (client, offset) = (self.client, self.offset);
            let asked = async || client.log_part(self.id, Stream::Events, offset, 0).await;
            match wait_out(asked).await {
                Ok(part) if !part.bytes.is_empty() => self.events(&part),
                Ok(_) | Err(_) => return,
            }
        }
    }
}

async fn poll_end(client: Client, id: String, updates: Sender<Update>) {
    let mut patience = Patience::default();
    loop {
        let asked = Instant::now();
        let update = match client.wait(&id, POLL_SECONDS).await {
            Ok(Some(deployment)) => Update::Ended(Box::new(deployment)),
            Ok(None) => {
                patience = Patience::default();
                pause_if_early(asked).await;
                continue;
            }
            Err(error) => match patience.after(error).await {
                None => continue,
                Some(error) => Update::Lost(error),
            },
        };
        let _ = updates.send(update).await;
        return;
    }
}

/// Without patience of its own: when the connection is gone for good, [`poll_end`] says so.
async fn poll_events(client: Client, id: String, updates: Sender<Update>) {
    let mut offset = 0;
    loop {
        let asked = Instant::now();
        match client.log_part(&id, Stream::Events, offset, POLL_SECONDS).await {
            Ok(part) => {
                let (empty, complete) = (part.bytes.is_empty(), part.complete);
                offset = part.next_offset;
                if updates.send(Update::Events(part)).await.is_err() || complete {
                    return;
                }
                if empty {
                    pause_if_early(asked).await;
                }
            }
            Err(error) if error.is_retryable() => sleep(LOOK).await,
            Err(_) => return,
        }
    }
}

async fn poll_status(client: Client, id: String, updates: Sender<Update>) {
    loop {
        match client.deployment(&id).await {
            Ok(deployment) => {
                let ended = deployment.completed_at.is_some();
                if ended || updates.send(Update::Seen(Box::new(deployment))).await.is_err() {
                    return;
                }
            }
            Err(error) if error.is_retryable() => {}
            Err(_) => return,
        }
        sleep(LOOK).await;
    }
}

/// A server, or a proxy before it, that does not wait must not be asked again at once.
async fn pause_if_early(asked: Instant) {
    if asked.elapsed() < LOOK {
        sleep(LOOK).await;
    }
}
