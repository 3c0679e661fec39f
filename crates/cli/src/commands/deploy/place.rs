//! Whether a deployment runs on this machine: because a flag says so, or because no agent could ever take it.

use super::Request;
use crate::error::CliError;
use crate::local_run::{LocalRun, NoAgent};
use crate::output::Output;
use canyon_api::client::Client;

/// Where the deployment runs, as far as the command knows.
#[derive(Debug)]
pub(super) enum Choice {
    /// On this machine.
    Here(Box<LocalRun>),
    /// Where its runner says.
    Elsewhere,
    /// Not decided: no flag says it.
    Open,
    /// On this machine if that is possible, because no agent could ever take it.
    NoAgent(NoAgent),
}

/// Where the deployment runs.
pub(super) enum Place {
    /// On this machine.
    Here(Box<LocalRun>),
    /// Where its runner says. The user may know already that it waits for an agent.
    Elsewhere { is_informed: bool },
}

impl Choice {
    /// What the flags say.
    pub(super) async fn of(
        request: &Request,
        client: &Client,
        output: Output,
    ) -> Result<Self, CliError> {
        match (request.flags.local, request.flags.contradiction_of_local()) {
            (Some(false), _) | (None, Some(_)) => Ok(Self::Elsewhere),
            (Some(true), _) if request.container.is_given() => Err(CliError::usage(
                "--local runs no container jobs: use a runner of type `docker` for them",
            )),
            (None, None) if request.container.is_given() => Ok(Self::Elsewhere),
            (Some(true), Some(flag)) => {
                Err(CliError::usage(format!("--local cannot be used with {flag}")))
            }
            (Some(true), None) => {
                let (project, environment) = (&request.project, &request.environment);
                let run = LocalRun::prepare(client, project, environment).await;
                let run = run.map_err(CliError::of_local_run)?;
                if let Some(notice) = run.disabled_notice() {
                    output.notice(&notice);
                }
                Ok(Self::Here(Box::new(run)))
            }
            (None, None) => Ok(Self::Open),
        }
    }

    /// Asks Canyon, if no flag says it.
    pub(super) async fn asked(self, request: &Request, client: &Client) -> Self {
        let Self::Open = self else { return self };
        let found = NoAgent::ask(client, &request.project, &request.environment).await;
        found.map_or(Self::Elsewhere, Self::NoAgent)
    }

    /// Decides. If no flag says it, tells the user why the deployment runs here, or why that is not possible.
    pub(super) async fn decided(self, client: &Client, output: Output) -> Place {
        match self {
            Self::Here(run) => Place::Here(run),
            Self::Elsewhere | Self::Open => Place::Elsewhere { is_informed: false },
            Self::NoAgent(found) => match found.prepare(client).await {
                Ok(run) => {
                    output.notice(&found.runs_here());
                    Place::Here(Box::new(run))
                }
                Err(error) => {
                    output.notice(&found.cannot_run_here(&error));
                    Place::Elsewhere { is_informed: true }
                }
            },
        }
    }
}
