//! Keys of agents and their work.

use super::{Key, org};
use canyon_domain::ids::{AgentId, DeploymentId, OrgUuid, RunnerUuid};

/// An agent.
pub fn agent(of: OrgUuid, id: &AgentId) -> Key {
    Key::new(agents(of), id.as_str())
}

/// Partition of an organization's agents.
pub fn agents(of: OrgUuid) -> String {
    format!("{}#agents", org(of))
}

/// The job of an attempt that an agent launches.
pub fn agent_job(of: OrgUuid, runner: RunnerUuid, deployment: DeploymentId, attempt: u32) -> Key {
    Key::new(agent_jobs(of, runner), format!("{deployment}#{attempt:04}"))
}

/// Partition of the jobs of a runner that agents launch.
pub fn agent_jobs(of: OrgUuid, runner: RunnerUuid) -> String {
    format!("{}#agentjobs#{}", org(of), runner.0.simple())
}

/// Partition, in `gsi2`, of the jobs of a runner that no agent has taken yet.
pub fn agent_work(of: OrgUuid, runner: RunnerUuid) -> String {
    format!("{}#agentwork#{}", org(of), runner.0.simple())
}

/// Partition, in `gsi2`, of the jobs that this agent has taken and that need an action of it, of
/// any runner. The jobs of an agent that never returns stay in its own partition only.
pub fn agent_work_of(of: OrgUuid, agent: &AgentId) -> String {
    format!("{}#agentwork-of#{agent}", org(of))
}

/// Sort key, in `gsi2`, of such a job: higher priority first, then older deployments.
pub fn agent_work_order(
    priority: i8,
    deployment: DeploymentId,
    attempt: u32,
    runner: RunnerUuid,
) -> String {
    let behind = 127 - i16::from(priority);
    format!("{behind:03}#{deployment}#{attempt:04}#{}", runner.0.simple())
}

/// Parses an [`agent_work_order`]: returns the key of the job.
pub fn agent_job_in_order(of: OrgUuid, order: &str) -> Option<Key> {
    let (_, job) = order.split_once('#')?;
    let (job, runner) = job.rsplit_once('#')?;
    Some(Key::new(agent_jobs(of, RunnerUuid(runner.parse().ok()?)), job))
}
