//! The agent that this process is, from its adoption until it is forgotten.

use super::{Here, Interrupts};
use crate::error::CliError;
use crate::follow;
use crate::output::Output;
use crate::progress_bar::Display;
use canyon_agent::exit::Exit as AgentExit;
use canyon_api::client::{Client, ClientError};
use canyon_api::deployment::Deployment;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// How long it may take until the agent works: Canyon takes up few new ones in a second.
pub(super) const JOINING: Duration = Duration::from_secs(30);
/// How long the agent stays to clear away after the end.
pub(super) const DRAIN: Duration = Duration::from_secs(15);
/// How long its last word may take when somebody has asked twice.
const HURRIED: Duration = Duration::from_secs(3);
/// Tries of a request that must not be lost.
const TRIES: u32 = 5;
pub(super) const PAUSE: Duration = Duration::from_millis(300);
/// Between two looks whether the agent works.
const LOOK: Duration = Duration::from_millis(50);

/// The agent at work.
pub(crate) struct OwnAgent {
    pub(super) name: String,
    /// Counts how often it was asked to end.
    pub(super) stop: watch::Sender<u32>,
    /// Its loop, once it has begun.
    pub(super) work: Option<JoinHandle<AgentExit>>,
    pub(super) state_dir: PathBuf,
}

impl Here {
    /// Becomes the agent. What was begun is taken back when that fails.
    pub(crate) async fn join(
        self,
        client: &Client,
        interrupts: &mut Interrupts,
        output: Output,
    ) -> Result<OwnAgent, CliError> {
        self.check_right(client, output).await?;
        let (stop, stops) = watch::channel(0);
        let (name, state_dir) = (self.name.to_string(), self.state_dir.clone());
        let mut agent = OwnAgent { name, stop, work: None, state_dir };
        let joined = tokio::select! {
            joined = self.enter(&mut agent, client, stops) => joined,
            _ = interrupts.next() => Err(CliError::usage("interrupted; nothing was deployed")),
        };
        match joined {
            Ok(()) => Ok(agent),
            Err(error) => {
                agent.leave(client, interrupts, output).await;
                Err(error)
            }
        }
    }
}

impl OwnAgent {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Until Canyon could offer it work.
    pub(super) async fn until_it_works(&mut self, client: &Client) -> Result<(), CliError> {
        let deadline = Instant::now() + JOINING;
        loop {
            self.check_alive().await?;
            if client.agent(&self.name).await?.availability == "idle" {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(CliError::usage("the agent in this process did not come to work"));
            }
            sleep(LOOK).await;
        }
    }

    async fn check_alive(&mut self) -> Result<(), CliError> {
        match &mut self.work {
            Some(work) if work.is_finished() => Err(ended(work.await.ok().as_ref())),
            _ => Ok(()),
        }
    }

    /// Launches the deployment and watches it to its end. The first signal cancels it and waits for the end of that;
    /// the second does not.
    pub(crate) async fn serve(
        &mut self,
        client: &Client,
        id: &str,
        interrupts: &mut Interrupts,
        display: &Display,
    ) -> Result<Deployment, CliError> {
        let watch = follow::watch(client, id, display);
        tokio::pin!(watch);
        loop {
            tokio::select! {
                ended = &mut watch => return ended,
                exit = ending(&mut self.work) => {
                    self.work = None;
                    cancel(client, id).await?;
                    return Err(ended(exit.as_ref()));
                }
                count = interrupts.next() => {
                    if count > 1 {
                        return Err(CliError::Detached { id: id.to_owned() });
                    }
                    display.line("cancelling: the run saves its state and frees its lock");
                    tokio::select! {
                        done = cancel(client, id) => done?,
                        _ = interrupts.next() => return Err(CliError::Detached { id: id.to_owned() }),
                    }
                }
            }
        }
    }

    /// Clears away what the deployment has left, and has Canyon forget the agent.
    pub(crate) async fn leave(
        mut self,
        client: &Client,
        interrupts: &mut Interrupts,
        output: Output,
    ) {
        if let Some(work) = &mut self.work {
            self.stop.send_modify(|count| *count += if interrupts.is_hurried() { 2 } else { 1 });
            tokio::select! {
                _ = timeout(DRAIN + PAUSE, work) => {}
                _ = interrupts.next(), if !interrupts.is_hurried() => {}
            }
        }
        let hurried = interrupts.is_hurried();
        let patience = if hurried { HURRIED } else { DRAIN };
        let problem = tokio::select! {
            forgotten = timeout(patience, forget(client, &self.name)) => match forgotten {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("it does not answer".to_owned()),
            },
            _ = interrupts.next(), if !hurried => Some("interrupted".to_owned()),
        };
        if let Some(problem) = problem {
            let name = &self.name;
            output.notice(&format!(
                "warning: Canyon still knows of agent `{name}` ({problem}): canyon forget agent {name}"
            ));
        }
        self.clear(output);
    }

    /// Removes its folder, unless a job is in it still.
    fn clear(&self, output: Output) {
        let folders = |path| fs::read_dir(path).into_iter().flatten().flatten();
        let mut jobs =
            folders(self.state_dir.join("jobs")).flat_map(|runner| folders(runner.path()));
        if jobs.next().is_some() {
            let path = self.state_dir.display();
            output.notice(&format!("the job ends by itself; its files are in `{path}`"));
            return;
        }
        // What cannot be removed holds nothing of worth.
        let _ = fs::remove_dir_all(&self.state_dir);
    }
}

/// The end of the agent's loop, which comes too early.
async fn ending(work: &mut Option<JoinHandle<AgentExit>>) -> Option<AgentExit> {
    match work {
        Some(work) => work.await.ok(),
        None => std::future::pending().await,
    }
}

fn ended(exit: Option<&AgentExit>) -> CliError {
    let reason = exit.and_then(AgentExit::message).unwrap_or("it was stopped");
    CliError::usage(format!("the agent in this process has ended: {reason}"))
}

async fn cancel(client: &Client, id: &str) -> Result<(), CliError> {
    match repeated(async || client.cancel(id).await.map(drop)).await {
        // It has ended by itself.
        Err(error) if error.status() == Some(409) => Ok(()),
        answer => Ok(answer?),
    }
}

async fn forget(client: &Client, name: &str) -> Result<(), ClientError> {
    match repeated(async || client.forget_agent(name).await).await {
        Err(error) if error.status() == Some(404) => Ok(()),
        answer => answer,
    }
}

async fn repeated(call: impl AsyncFn() -> Result<(), ClientError>) -> Result<(), ClientError> {
    let mut tries = 1;
    loop {
        match call().await {
            Err(error) if error.is_retryable() && tries < TRIES => tries += 1,
            answer => return answer,
        }
        sleep(PAUSE).await;
    }
}
