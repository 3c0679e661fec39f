//! `kubernetes-agent`, `ecs-agent` and `docker-agent`: an agent that polls Canyon launches the jobs.

pub use super::{agent_target::AgentTarget, patterns::is_extra_host, profile::ProfileName};

use super::profile::ProfileNameError;
use super::{
    ecs::EcsJob,
    fields::Fields,
    kubernetes::KubernetesJob,
    patterns::{EXTRA_HOST, IMAGE, PROFILE, PUBLIC_KEY, VALUE, VARIABLE},
    timeouts::TimeoutSettings,
};
use crate::job_identity::JobIdentity;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The settings that all runners of agents share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgentSettings {
    /// Public ed25519 key of the agent, PEM. Without it, the agent authenticates by its platform, or was
    /// adopted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Which agents may launch its jobs. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<AgentTarget>,
    /// The profile with the agent's launch settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileName>,
}

impl AgentSettings {
    /// The part of the platform's identity that these settings decide: other agents or another profile may
    /// launch elsewhere. A new key does not change the platform.
    pub(super) fn platform_identity(&self) -> Value {
        json!({ "agents": self.agents, "profile": self.profile })
    }

    pub(crate) fn read(fields: &mut Fields) -> Self {
        Self {
            key: fields.text("key", &PUBLIC_KEY),
            agents: fields.object("agents", AgentTarget::read).flatten(),
            profile: read_profile(fields),
        }
    }
}

fn read_profile(fields: &mut Fields) -> Option<ProfileName> {
    match fields.text("profile", &PROFILE)?.parse() {
        Ok(name) => Some(name),
        Err(error) => {
            fields.fault("profile", ProfileNameError::to_string(&error));
            None
        }
    }
}

/// `kubernetes-agent`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KubernetesAgent {
    /// Which agents launch.
    #[serde(flatten)]
    pub settings: AgentSettings,
    /// What to run.
    pub job: KubernetesJob,
}

/// `ecs-agent`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EcsAgent {
    /// Who launches.
    #[serde(flatten)]
    pub settings: AgentSettings,
    /// The job, and where it runs.
    pub job: EcsJob,
}

/// `docker-agent`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DockerAgent {
    /// Which agents launch.
    #[serde(flatten)]
    pub settings: AgentSettings,
    /// What to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<DockerJob>,
}

/// `job` of `docker-agent`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DockerJob {
    /// Image to run instead of Canyon's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Further environment variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<BTreeMap<String, String>>,
    /// Further entries of `/etc/hosts`: `NAME:ADDRESS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_hosts: Option<Vec<String>>,
    /// Memory limit, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u32>,
    /// The job's identity at clouds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<JobIdentity>,
    /// Timeouts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<TimeoutSettings>,
}

impl KubernetesAgent {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        Self {
            settings: AgentSettings::read(fields),
            job: fields.required_object("job", KubernetesJob::read),
        }
    }
}

impl EcsAgent {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        Self {
            settings: AgentSettings::read(fields),
            job: fields.required_object("job", EcsJob::read_by_agent),
        }
    }
}

impl DockerAgent {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        Self {
            settings: AgentSettings::read(fields),
            job: fields.object("job", |job| DockerJob {
                image: job.text("image", &IMAGE),
                environment: job.text_map("environment", 200, &VARIABLE, &VALUE),
                extra_hosts: job.texts("extra_hosts", &(0..=64), &EXTRA_HOST),
                memory_limit: job.number("memory_limit", 64..=1_048_576),
                identity: job.object("identity", JobIdentity::read),
                timeouts: job.object("timeouts", TimeoutSettings::read),
            }),
        }
    }
}
