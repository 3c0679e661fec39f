//! The agents that may launch for a runner, and what there is to say of them.

use super::dispatcher::AgentDispatcher;
use canyon_domain::agent::{Adoption, Agent, why_waiting};
use canyon_domain::agent_job::AgentJob;
use canyon_domain::causes::Causes;
use canyon_domain::ids::AgentId;
use canyon_domain::runner::agents::AgentTarget;
use canyon_store::StoreError;

impl AgentDispatcher {
    /// Which agents the runner names, or the deployment's profile for it.
    pub(super) fn agent_target(&self) -> Option<&AgentTarget> {
        let settings = self.target.definition.configuration.agent_settings();
        settings.and_then(|settings| settings.agents.as_ref())
    }

    /// The agents that may launch for the runner, or the one that was named.
    pub(super) async fn agents(&self) -> Result<Vec<Agent>, StoreError> {
        let (table, org, now) = (&self.platform.table, self.target.org, self.now());
        let (runner, target) = (&self.target.runner_id, self.agent_target());
        if let Some(only) = &self.target.agent {
            // Not a remembered one: that there is none any more ends the job.
            let found = table.agent(org, only).await?;
            return Ok(found
                .into_iter()
                .filter(|agent| agent.may_serve_alone(runner, target))
                .collect());
        }
        let all = self.platform.known.of(org, now, table.all_agents(org)).await?;
        Ok(all.iter().filter(|agent| agent.may_serve(runner, target)).cloned().collect())
    }

    /// The agents that a profile of the runner may name.
    async fn agents_of_profiles(&self) -> Result<Vec<Agent>, StoreError> {
        let (table, org, now) = (&self.platform.table, self.target.org, self.now());
        let all = self.platform.known.of(org, now, table.all_agents(org)).await?;
        let may = |agent: &&Agent| {
            let its_own = agent.runner.as_ref().is_none_or(|own| *own == self.target.runner_id);
            agent.adoption == Adoption::Adopted && !agent.reserved && its_own
        };
        Ok(all.iter().filter(may).cloned().collect())
    }

    /// The agent that has the job, if it may not launch for the runner any more: labels, `agents` or the profile were
    /// changed meanwhile. What it has taken is its own while its session lives. One that was refused cannot speak of
    /// it.
    pub(super) async fn outsider(
        &self,
        job: &AgentJob,
        agents: &[Agent],
    ) -> Result<Option<Agent>, StoreError> {
        let is_outside = |id: &&AgentId| agents.iter().all(|agent| agent.id != **id);
        let holder = job.taken.as_ref().map(|taken| &taken.agent);
        let Some(holder) = holder.filter(is_outside) else { return Ok(None) };
        let found = self.platform.table.agent(self.target.org, holder).await?;
        Ok(found.filter(|agent| agent.adoption == Adoption::Adopted))
    }

    /// Which agents are connected that take the runner's jobs.
    ///
    /// # Errors
    ///
    /// Why none does, or why nobody can tell.
    pub(super) async fn connected(&self) -> Result<String, String> {
        let (id, kind) = (&self.target.runner_id, self.target.definition.runner_type());
        let settings = self.target.definition.configuration.agent_settings();
        // A check is for no deployment, so nobody knows which profile it would take.
        let by_profile = settings.is_some_and(|settings| settings.profile.is_some());
        let agents = if by_profile { self.agents_of_profiles().await } else { self.agents().await };
        let agents = agents.map_err(|error| Causes(&error).to_string())?;
        let now = self.now();
        let able: Vec<_> = agents
            .iter()
            .filter(|agent| agent.has_room(kind, now))
            .map(|agent| agent.id.as_str())
            .collect();
        let choice = if by_profile {
            "; the runner's profile chooses among them for each deployment"
        } else {
            ""
        };
        if able.is_empty() {
            return Err(format!(
                "{}{choice}",
                why_waiting(&agents, id, self.agent_target(), kind, now)
            ));
        }
        Ok(format!("these agents are connected and take its jobs: {}{choice}", able.join(", ")))
    }

    /// Why nobody takes up jobs of the runner now, if so. One agent that was named is waited for by its job, which
    /// ends when that agent is gone for good.
    pub(super) async fn nobody_at_work(&self) -> Option<String> {
        if self.target.agent.is_some() {
            return None;
        }
        // If they cannot be read, the launch says so.
        let agents = self.agents().await.ok()?;
        let (kind, now) = (self.target.definition.runner_type(), self.now());
        let is_nobody = agents.iter().all(|agent| !agent.is_at_work(kind, now));
        is_nobody
            .then(|| why_waiting(&agents, &self.target.runner_id, self.agent_target(), kind, now))
    }
}
