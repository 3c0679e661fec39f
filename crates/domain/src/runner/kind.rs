//! What a type of runner is. Each type states it in its own file, and everything that differs by type follows from it.

use super::agents::AgentSettings;
use super::check_step::CheckStep;
use super::docker::DockerJob;
use super::ecs::EcsJob;
use super::kubernetes::KubernetesJob;
use super::local::LocalJob;
use super::timeouts::TimeoutSettings;
use super::trust::{Grants, TrustSubject};
use crate::job_identity::JobIdentity;
use crate::state_storage::StateStorage;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What all runners of a type have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) place: JobPlace,
    pub(crate) launched_by: LaunchedBy,
}

/// What a job is. It decides which dispatcher launches it, and which state storages the job can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobPlace {
    /// A Job in a Kubernetes cluster.
    Cluster,
    /// A task on Amazon ECS.
    Ecs,
    /// A container on a Docker host.
    Docker,
    /// A process on a machine.
    Machine,
}

impl JobPlace {
    /// Whether a job there can run in an image of its own.
    pub(super) const fn runs_containers(self) -> bool {
        match self {
            Self::Docker | Self::Cluster | Self::Ecs => true,
            Self::Machine => false,
        }
    }

    /// Whether people can look into a container there. On ECS that needs a root file system to which the container may write
    /// (Amazon ECS developer guide, "Monitor Amazon ECS containers with ECS Exec").
    pub(super) const fn opens_containers(self) -> bool {
        match self {
            Self::Docker | Self::Cluster => true,
            Self::Ecs | Self::Machine => false,
        }
    }

    /// The longest `grace_seconds` of a container job, if the platform limits it. ECS kills a task 120 seconds after it was
    /// told to stop; the runner program needs ten of them to deliver the result.
    pub(super) const fn max_grace_seconds(self) -> Option<u32> {
        match self {
            Self::Ecs => Some(110),
            Self::Docker | Self::Cluster | Self::Machine => None,
        }
    }
}

/// Who launches the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchedBy {
    /// Canyon itself.
    Canyon,
    /// An agent.
    Agent,
    /// An agent if the runner or a deployment requests one, otherwise Canyon.
    CanyonOrAgent,
}

/// The parts of a runner's definition that every type has, under whatever name.
pub(crate) trait Kind {
    /// The settings of its jobs, if they are given.
    fn job(&self) -> Option<JobSettings<'_>>;

    /// The steps of a check after the definition. If an agent launches the jobs, only the agent could test what
    /// follows [`CheckStep::Agent`].
    fn check_steps(&self) -> &'static [CheckStep];

    /// Its cluster at a cloud, in the words of resource definitions.
    fn cloud_cluster(&self) -> Option<Map<String, Value>> {
        None
    }

    /// The agent settings, if agents launch its jobs.
    fn agent_settings(&self) -> Option<&AgentSettings> {
        None
    }

    /// What makes its platform trust Canyon. An agent authenticates to Canyon, and a process on Canyon's own machine
    /// needs no trust.
    fn grants(&self, _: &TrustSubject, _: &StateStorage) -> Grants {
        Grants::default()
    }
}

/// `job` of a runner, by what the job is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JobSettings<'a> {
    Cluster(&'a KubernetesJob),
    Ecs(&'a EcsJob),
    Docker(&'a DockerJob),
    Machine(&'a LocalJob),
}

impl<'a> JobSettings<'a> {
    pub(super) fn identity(self) -> Option<&'a JobIdentity> {
        match self {
            Self::Cluster(job) => job.identity.as_ref(),
            Self::Ecs(job) => job.identity.as_ref(),
            Self::Docker(job) => job.identity.as_ref(),
            Self::Machine(job) => job.identity.as_ref(),
        }
    }

    pub(super) fn timeouts(self) -> Option<&'a TimeoutSettings> {
        match self {
            Self::Cluster(job) => job.timeouts.as_ref(),
            Self::Ecs(job) => job.timeouts.as_ref(),
            Self::Docker(job) => job.timeouts.as_ref(),
            Self::Machine(job) => job.timeouts.as_ref(),
        }
    }

    /// The images that container jobs may run. `None` allows every image.
    pub(super) fn allowed_images(self) -> Option<&'a [String]> {
        match self {
            Self::Docker(job) => job.allowed_images.as_deref(),
            Self::Cluster(job) => job.allowed_images.as_deref(),
            Self::Ecs(job) => job.allowed_images.as_deref(),
            Self::Machine(_) => None,
        }
    }

    /// The variables that the platform sets in the job's container.
    pub(super) fn container_environment(self) -> Option<&'a BTreeMap<String, String>> {
        match self {
            Self::Ecs(job) => job.environment.as_ref(),
            Self::Docker(job) => job.environment.as_ref(),
            Self::Cluster(_) | Self::Machine(_) => None,
        }
    }
}
