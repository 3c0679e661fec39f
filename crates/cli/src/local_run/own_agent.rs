//! The agent that this process is, from its adoption until the command deletes it.

use super::{Interrupts, LocalRun};
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

/// How long it may take until the agent works: Canyon registers only a few new agents per second.
pub(super) const JOIN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the agent may clean up after the deployment's end.
pub(super) const DRAIN: Duration = Duration::from_secs(15);
/// How long the deletion of the agent may take after the user has asked twice to end.
const HURRIED_LEAVE_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a request that must not be lost is sent.
const MAX_TRIES: u32 = 5;
/// The pause before a retry.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(300);
/// The pause between two checks whether the agent works.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The agent at work.
pub(crate) struct OwnAgent {
    pub(super) name: String,
    /// How often it was asked to end.
    pub(super) stop: watch::Sender<u32>,
    /// The agent's loop, once it has started.
    pub(super) work: Option<JoinHandle<AgentExit>>,
    pub(super) state_dir: PathBuf,
}

impl LocalRun {
    /// Becomes the agent. If that fails, removes what it has created.
    pub(crate) async fn join(
        self,
        client: &Client,
        interrupts: &mut Interrupts,
        output: Output,
    ) -> Result<OwnAgent, CliError> {
        self.check_right(client).await.map_err(CliError::of_local_run)?;
        let (stop, stops) = watch::channel(0);
        let (name, state_dir) = (self.name.to_string(), self.state_dir.clone());
        let mut agent = OwnAgent { name, stop, work: None, state_dir };
        let joined = tokio::select! {
            joined = self.enter(&mut agent, client, stops) => joined,
            _ = interrupts.next() => Err(CliError::Interrupted),
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
    /// The agent's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Waits until Canyon can offer the agent work.
    pub(super) async fn wait_until_idle(&mut self, client: &Client) -> Result<(), CliError> {
        let deadline = Instant::now() + JOIN_TIMEOUT;
        loop {
            self.check_alive().await?;
            if client.agent(&self.name).await?.availability == "idle" {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(CliError::usage(
                    "the agent in this process did not start working in time",
                ));
            }
            sleep(IDLE_POLL_INTERVAL).await;
        }
    }

    async fn check_alive(&mut self) -> Result<(), CliError> {
        match &mut self.work {
            Some(work) if work.is_finished() => Err(ended(work.await.ok().as_ref())),
            _ => Ok(()),
        }
    }

    /// Runs the deployment and follows it to its end. After the first signal it cancels the deployment and waits for
    /// its end; after the second it does not wait.
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
                exit = agent_end(&mut self.work) => {
                    self.work = None;
                    cancel(client, id).await?;
                    return Err(ended(exit.as_ref()));
                }
                count = interrupts.next() => {
                    if count > 1 {
                        return Err(CliError::Detached { id: id.to_owned() });
                    }
                    display.line("cancelling: the run saves its state and releases its lock");
                    tokio::select! {
                        done = cancel(client, id) => done?,
                        _ = interrupts.next() => return Err(CliError::Detached { id: id.to_owned() }),
                    }
                }
            }
        }
    }

    /// Cleans up after the deployment, and deletes the agent from Canyon.
    pub(crate) async fn leave(
        mut self,
        client: &Client,
        interrupts: &mut Interrupts,
        output: Output,
    ) {
        if let Some(work) = &mut self.work {
            self.stop.send_modify(|count| *count += if interrupts.is_hurried() { 2 } else { 1 });
            tokio::select! {
                _ = timeout(DRAIN + RETRY_PAUSE, work) => {}
                _ = interrupts.next(), if !interrupts.is_hurried() => {}
            }
        }
        let hurried = interrupts.is_hurried();
        let limit = if hurried { HURRIED_LEAVE_TIMEOUT } else { DRAIN };
        let problem = tokio::select! {
            forgotten = timeout(limit, forget(client, &self.name)) => match forgotten {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("it does not answer".to_owned()),
            },
            _ = interrupts.next(), if !hurried => Some("interrupted".to_owned()),
        };
        if let Some(problem) = problem {
            let name = &self.name;
            output.notice(&format!(
                "warning: agent `{name}` is still registered ({problem}); delete it with: canyon forget agent {name}"
            ));
        }
        self.clear(output);
    }

    /// Removes the agent's folder, unless a job still uses it.
    fn clear(&self, output: Output) {
        let folders = |path| fs::read_dir(path).into_iter().flatten().flatten();
        let mut jobs =
            folders(self.state_dir.join("jobs")).flat_map(|runner| folders(runner.path()));
        if jobs.next().is_some() {
            let path = self.state_dir.display();
            output.notice(&format!("the job continues until it ends; its files are in `{path}`"));
            return;
        }
        // Best effort: files that cannot be removed have no value.
        let _ = fs::remove_dir_all(&self.state_dir);
    }
}

/// Waits for the end of the agent's loop, which should outlive the deployment.
async fn agent_end(work: &mut Option<JoinHandle<AgentExit>>) -> Option<AgentExit> {
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
    match retried(async || client.cancel(id).await.map(drop)).await {
        // It has ended by itself.
        Err(error) if error.status() == Some(409) => Ok(()),
        answer => Ok(answer?),
    }
}

async fn forget(client: &Client, name: &str) -> Result<(), ClientError> {
    match retried(async || client.forget_agent(name).await).await {
        Err(error) if error.status() == Some(404) => Ok(()),
        answer => answer,
    }
}

async fn retried(call: impl AsyncFn() -> Result<(), ClientError>) -> Result<(), ClientError> {
    let mut tries = 1;
    loop {
        match call().await {
            Err(error) if error.is_retryable() && tries < MAX_TRIES => tries += 1,
            answer => return answer,
        }
        sleep(RETRY_PAUSE).await;
    }
}
