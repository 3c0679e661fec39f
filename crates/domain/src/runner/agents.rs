//! `kubernetes-agent`, `ecs-agent` and `docker-agent`: launched by an agent that polls Canyon.

use super::{
    ecs::EcsJob,
    fields::Fields,
    kubernetes::KubernetesJob,
    patterns::{EXTRA_HOST, IMAGE, PUBLIC_KEY, VALUE, VARIABLE},
    timeouts::TimeoutSettings,
};
use crate::job_identity::JobIdentity;
use serde::Serialize;
use std::collections::BTreeMap;

/// `kubernetes-agent`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KubernetesAgent {
    /// Public ed25519 key of the agent, PEM.
    pub key: String,
    /// What to run.
    pub job: KubernetesJob,
}

/// `ecs-agent`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EcsAgent {
    /// Public ed25519 key of the agent, PEM. Without one, the agent proves itself by its platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What to run, and where.
    pub job: EcsJob,
}

/// `docker-agent`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DockerAgent {
    /// Public ed25519 key of the agent, PEM. Without one, the agent proves itself by its platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
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
    /// Most memory, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u32>,
    /// Whom the job is at the clouds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<JobIdentity>,
    /// Limits of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<TimeoutSettings>,
}

impl KubernetesAgent {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        Self {
            key: fields.required_text("key", &PUBLIC_KEY),
            job: fields.required_object("job", KubernetesJob::read),
        }
    }
}

impl EcsAgent {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        Self {
            key: fields.text("key", &PUBLIC_KEY),
            job: fields.required_object("job", EcsJob::read),
        }
    }
}

impl DockerAgent {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        Self {
            key: fields.text("key", &PUBLIC_KEY),
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
