//! `runner_configuration`: the type of a runner and how it runs jobs.

use super::{
    agents::{AgentSettings, DockerAgent, EcsAgent, KubernetesAgent},
    aks::Aks,
    ecs::ServerlessEcs,
    eks::Eks,
    fields::Fields,
    gke::Gke,
    kubernetes::{Kubernetes, KubernetesJob},
    local::Local,
    string_enum::{UnknownValue, string_enum},
    timeouts::{TimeoutSettings, Timeouts},
};
use crate::field_error::{FieldErrors, join};
use crate::job_identity::JobIdentity;
use serde::Serialize;
use serde_json::Value;
use std::str::FromStr;

string_enum! {
    /// The types of runners.
    RunnerType {
        /// Any Kubernetes cluster, by its address.
        Kubernetes = "kubernetes",
        /// A Google Kubernetes Engine cluster.
        Gke = "kubernetes-gke",
        /// An Amazon EKS cluster.
        Eks = "kubernetes-eks",
        /// An Azure Kubernetes Service cluster.
        Aks = "kubernetes-aks",
        /// AWS Fargate.
        ServerlessEcs = "serverless-ecs",
        /// A Kubernetes cluster that only an agent inside can reach.
        KubernetesAgent = "kubernetes-agent",
        /// Fargate tasks that an agent inside the account starts.
        EcsAgent = "ecs-agent",
        /// Containers that an agent starts on a Docker host.
        DockerAgent = "docker-agent",
        /// A process on Canyon's own machine.
        Local = "local",
    }
}

impl RunnerType {
    /// Whether jobs are Kubernetes Jobs.
    pub const fn is_kubernetes(self) -> bool {
        match self {
            Self::Kubernetes | Self::Gke | Self::Eks | Self::Aks | Self::KubernetesAgent => true,
            Self::ServerlessEcs | Self::EcsAgent | Self::DockerAgent | Self::Local => false,
        }
    }

    /// Whether an agent launches the jobs; otherwise Canyon does.
    pub const fn needs_agent(self) -> bool {
        match self {
            Self::KubernetesAgent | Self::EcsAgent | Self::DockerAgent => true,
            Self::Kubernetes
            | Self::Gke
            | Self::Eks
            | Self::Aks
            | Self::ServerlessEcs
            | Self::Local => false,
        }
    }
}

impl RunnerType {
    /// Whether an agent can launch the jobs, if a deployment requests it.
    pub fn may_have_agent(self) -> bool {
        self.needs_agent() || self == Self::Local
    }
}

/// `runner_configuration`.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type")]
pub enum RunnerConfiguration {
    /// Any Kubernetes cluster, by its address.
    #[serde(rename = "kubernetes")]
    Kubernetes(Kubernetes),
    /// A Google Kubernetes Engine cluster.
    #[serde(rename = "kubernetes-gke")]
    Gke(Gke),
    /// An Amazon EKS cluster.
    #[serde(rename = "kubernetes-eks")]
    Eks(Eks),
    /// An Azure Kubernetes Service cluster.
    #[serde(rename = "kubernetes-aks")]
    Aks(Aks),
    /// AWS Fargate.
    #[serde(rename = "serverless-ecs")]
    ServerlessEcs(Box<ServerlessEcs>),
    /// A Kubernetes cluster that only an agent inside can reach.
    #[serde(rename = "kubernetes-agent")]
    KubernetesAgent(KubernetesAgent),
    /// Fargate tasks that an agent inside the account starts.
    #[serde(rename = "ecs-agent")]
    EcsAgent(Box<EcsAgent>),
    /// Containers that an agent starts on a Docker host.
    #[serde(rename = "docker-agent")]
    DockerAgent(DockerAgent),
    /// A process on Canyon's own machine.
    #[serde(rename = "local")]
    Local(Local),
}

impl RunnerConfiguration {
    /// The type.
    pub fn runner_type(&self) -> RunnerType {
        match self {
            Self::Kubernetes(_) => RunnerType::Kubernetes,
            Self::Gke(_) => RunnerType::Gke,
            Self::Eks(_) => RunnerType::Eks,
            Self::Aks(_) => RunnerType::Aks,
            Self::ServerlessEcs(_) => RunnerType::ServerlessEcs,
            Self::KubernetesAgent(_) => RunnerType::KubernetesAgent,
            Self::EcsAgent(_) => RunnerType::EcsAgent,
            Self::DockerAgent(_) => RunnerType::DockerAgent,
            Self::Local(_) => RunnerType::Local,
        }
    }

    /// The job of a Kubernetes type.
    pub fn kubernetes_job(&self) -> Option<&KubernetesJob> {
        match self {
            Self::Kubernetes(runner) => Some(&runner.job),
            Self::Gke(runner) => Some(&runner.job),
            Self::Eks(runner) => Some(&runner.job),
            Self::Aks(runner) => Some(&runner.job),
            Self::KubernetesAgent(runner) => Some(&runner.job),
            Self::ServerlessEcs(_) | Self::EcsAgent(_) | Self::DockerAgent(_) | Self::Local(_) => {
                None
            }
        }
    }

    /// The agent settings, if agents launch its jobs.
    pub fn agent_settings(&self) -> Option<&AgentSettings> {
        match self {
            Self::KubernetesAgent(runner) => Some(&runner.settings),
            Self::EcsAgent(runner) => Some(&runner.settings),
            Self::DockerAgent(runner) => Some(&runner.settings),
            Self::Local(runner) => {
                Some(&runner.settings).filter(|settings| **settings != AgentSettings::default())
            }
            Self::Kubernetes(_)
            | Self::Gke(_)
            | Self::Eks(_)
            | Self::Aks(_)
            | Self::ServerlessEcs(_) => None,
        }
    }

    /// The identity of its jobs at clouds.
    pub fn job_identity(&self) -> Option<&JobIdentity> {
        match self {
            Self::Kubernetes(_)
            | Self::Gke(_)
            | Self::Eks(_)
            | Self::Aks(_)
            | Self::KubernetesAgent(_) => {
                self.kubernetes_job().and_then(|job| job.identity.as_ref())
            }
            Self::ServerlessEcs(runner) => runner.job.identity.as_ref(),
            Self::EcsAgent(runner) => runner.job.identity.as_ref(),
            Self::DockerAgent(runner) => runner.job.as_ref().and_then(|job| job.identity.as_ref()),
            Self::Local(runner) => runner.job.as_ref().and_then(|job| job.identity.as_ref()),
        }
    }

    /// The effective timeouts, with defaults.
    pub fn timeouts(&self) -> Timeouts {
        let given = match self {
            Self::Kubernetes(_)
            | Self::Gke(_)
            | Self::Eks(_)
            | Self::Aks(_)
            | Self::KubernetesAgent(_) => {
                self.kubernetes_job().and_then(|job| job.timeouts.as_ref())
            }
            Self::ServerlessEcs(runner) => runner.job.timeouts.as_ref(),
            Self::EcsAgent(runner) => runner.job.timeouts.as_ref(),
            Self::DockerAgent(runner) => runner.job.as_ref().and_then(|job| job.timeouts.as_ref()),
            Self::Local(runner) => runner.job.as_ref().and_then(|job| job.timeouts.as_ref()),
        };
        given.map_or_else(|| Timeouts::from(&TimeoutSettings::default()), Timeouts::from)
    }

    pub(crate) fn read(value: Value, path: &str, errors: &mut FieldErrors) -> Option<Self> {
        let runner_type: RunnerType = type_of(&value, path, errors)?;
        Fields::read(value, path, errors, |fields| {
            fields.take("type");
            match runner_type {
                RunnerType::Kubernetes => Self::Kubernetes(Kubernetes::read(fields)),
                RunnerType::Gke => Self::Gke(Gke::read(fields)),
                RunnerType::Eks => Self::Eks(Eks::read(fields)),
                RunnerType::Aks => Self::Aks(Aks::read(fields)),
                RunnerType::ServerlessEcs => {
                    Self::ServerlessEcs(Box::new(ServerlessEcs::read(fields)))
                }
                RunnerType::KubernetesAgent => Self::KubernetesAgent(KubernetesAgent::read(fields)),
                RunnerType::EcsAgent => Self::EcsAgent(Box::new(EcsAgent::read(fields))),
                RunnerType::DockerAgent => Self::DockerAgent(DockerAgent::read(fields)),
                RunnerType::Local => Self::Local(Local::read(fields)),
            }
        })
    }
}

/// The `type` of the object at `path`; it decides which other fields exist.
pub(crate) fn type_of<T: FromStr<Err = UnknownValue>>(
    value: &Value,
    path: &str,
    errors: &mut FieldErrors,
) -> Option<T> {
    if !value.is_object() {
        errors.add(path, "must be an object with a `type`");
        return None;
    }
    let at = join(path, "type");
    match value.get("type") {
        None | Some(Value::Null) => errors.add(at, "is required"),
        Some(Value::String(text)) => match text.parse() {
            Ok(value) => return Some(value),
            Err(unknown) => errors.add(at, unknown.to_string()),
        },
        Some(_) => errors.add(at, "must be text"),
    }
    None
}
