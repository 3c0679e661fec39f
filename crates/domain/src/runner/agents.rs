//! `kubernetes-agent`, `ecs-agent` and `docker-agent`: an agent that polls Canyon launches the jobs.

pub use super::{agent_target::AgentTarget, profile::ProfileName};

use super::check_step::CheckStep;
use super::kind::{Facts, JobPlace, JobSettings, Kind, LaunchedBy};
use super::properties::properties;
use super::{
    docker::DockerJob,
    ecs::EcsJob,
    kubernetes::KubernetesJob,
    patterns::{PROFILE, PUBLIC_KEY},
};
use serde::Serialize;
use serde_json::{Value, json};

properties! {
    /// The settings that all runners of agents share.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct AgentSettings {
        /// Public ed25519 key of the agent, PEM. Without it, the agent authenticates by its platform, or was adopted.
        pub key: Option<String> = text(&PUBLIC_KEY),
        /// Which agents may launch its jobs. Default: any.
        pub agents: Option<AgentTarget> = object_or_fault(AgentTarget::read),
        /// The profile with the agent's launch settings.
        pub profile: Option<ProfileName> = parsed(&PROFILE),
    }
}

impl AgentSettings {
    /// The part of the platform's identity that these settings decide: other agents or another profile may
    /// launch elsewhere. A new key does not change the platform.
    pub(super) fn platform_identity(&self) -> Value {
        json!({ "agents": self.agents, "profile": self.profile })
    }
}

properties! {
    /// `kubernetes-agent`.
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct KubernetesAgent {
        /// What to run.
        pub job: KubernetesJob = required_object(KubernetesJob::read),
        /// Which agents launch.
        pub settings: AgentSettings = flatten,
    }
}

properties! {
    /// `ecs-agent`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct EcsAgent {
        /// The job, and where it runs.
        pub job: EcsJob = required_object(EcsJob::read),
        /// Who launches.
        pub settings: AgentSettings = flatten,
    }
}

properties! {
    /// `docker-agent`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct DockerAgent {
        /// What to run.
        pub job: Option<DockerJob> = object(DockerJob::read),
        /// Which agents launch.
        pub settings: AgentSettings = flatten,
    }
}

impl KubernetesAgent {
    pub(super) const FACTS: Facts =
        Facts { place: JobPlace::Cluster, launched_by: LaunchedBy::Agent };
}

impl Kind for KubernetesAgent {
    fn job(&self) -> Option<JobSettings<'_>> {
        Some(JobSettings::Cluster(&self.job))
    }

    fn check_steps(&self) -> &'static [CheckStep] {
        &[CheckStep::Agent]
    }

    fn agent_settings(&self) -> Option<&AgentSettings> {
        Some(&self.settings)
    }
}

impl EcsAgent {
    pub(super) const FACTS: Facts = Facts { place: JobPlace::Ecs, launched_by: LaunchedBy::Agent };
}

impl Kind for EcsAgent {
    fn job(&self) -> Option<JobSettings<'_>> {
        Some(JobSettings::Ecs(&self.job))
    }

    fn check_steps(&self) -> &'static [CheckStep] {
        &[CheckStep::Agent]
    }

    fn agent_settings(&self) -> Option<&AgentSettings> {
        Some(&self.settings)
    }
}

impl DockerAgent {
    pub(super) const FACTS: Facts =
        Facts { place: JobPlace::Docker, launched_by: LaunchedBy::Agent };
}

impl Kind for DockerAgent {
    fn job(&self) -> Option<JobSettings<'_>> {
        self.job.as_ref().map(JobSettings::Docker)
    }

    fn check_steps(&self) -> &'static [CheckStep] {
        &[CheckStep::Agent]
    }

    fn agent_settings(&self) -> Option<&AgentSettings> {
        Some(&self.settings)
    }
}
