//! Environments whose deployments no agent could ever take, because none has ever connected.

use super::{LocalRun, protect_this_process};
use crate::error::CliError;
use crate::hint::hint;
use canyon_api::client::Client;

/// An environment without an agent.
#[derive(Debug)]
pub(crate) struct NoAgent {
    project: String,
    environment: String,
    /// `waiting for an agent of runner ...: none has ever connected`.
    reason: String,
}

impl NoAgent {
    /// Asks Canyon with one request; `None` if an agent may take the deployment, and if the answer does not say.
    pub(crate) async fn ask(client: &Client, project: &str, environment: &str) -> Option<Self> {
        // Before the first request, as for `--local`. `LocalRun::prepare` reports a failure.
        let _ = protect_this_process();
        let path = ["projects", project, "envs", environment];
        // A failure is no reason to stop: the request to deploy follows, and reports it.
        let found = client.get_with(&path, &[("no_agent_reason", "true")]).await.ok()?;
        let reason = found.get("no_agent_reason")?.as_str()?.to_owned();
        let (project, environment) = (project.to_owned(), environment.to_owned());
        Some(Self { project, environment, reason })
    }

    /// Finds out whether this machine and the caller's token can run deployments of the environment.
    pub(crate) async fn prepare(&self, client: &Client) -> Result<LocalRun, CliError> {
        let run = LocalRun::prepare(client, &self.project, &self.environment).await?;
        if client.get(&[]).await?["agent_requests"] == "refused" {
            return Err(super::joining::refused(client.org()));
        }
        run.check_right(client).await.map_err(|error| {
            let needs_admin = || CliError::usage("your token needs the role `admin` for that");
            if error.is_forbidden() { needs_admin() } else { error }
        })?;
        Ok(run)
    }

    /// What the command says before it runs the deployment.
    pub(crate) fn runs_here(&self) -> String {
        format!(
            "this deployment would be {}; so it runs on this machine, with your cloud credentials and kubeconfig \
             (--local=false lets it wait for an agent)",
            self.reason
        )
    }

    /// What the command says before it creates a deployment that waits.
    pub(crate) fn cannot_run_here(&self, error: &CliError) -> String {
        let (reason, hint) = (&self.reason, hint(error));
        let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!(
            "this deployment will be {reason}; it cannot run on this machine: {error}{hint}; start an agent of that runner"
        )
    }
}
