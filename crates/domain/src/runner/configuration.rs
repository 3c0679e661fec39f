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
    schema::{self, TypeSchema},
    string_enum::{UnknownValue, string_enum},
    timeouts::{TimeoutSettings, Timeouts},
};
use crate::field_error::{FieldErrors, join};
use crate::job_identity::JobIdentity;
use serde::Serialize;
use serde_json::Value;
use std::str::FromStr;

/// Declares the types of runners: the value of `type`, and the struct with the properties, which has the variant's name.
macro_rules! runner_types {
    ($($(#[doc = $doc:literal])+ $variant:ident($properties:ty) = $text:literal,)+) => {
        string_enum! {
            /// The types of runners.
            RunnerType {
                $($(#[doc = $doc])+ $variant = $text,)+
            }
        }

        /// `runner_configuration`.
        #[derive(Clone, Debug, Serialize)]
        #[serde(tag = "type")]
        pub enum RunnerConfiguration {
            $($(#[doc = $doc])+ #[serde(rename = $text)] $variant($properties),)+
        }

        impl RunnerConfiguration {
            /// The type.
            pub fn runner_type(&self) -> RunnerType {
                match self {
                    $(Self::$variant(_) => RunnerType::$variant,)+
                }
            }

            fn read_as(runner_type: RunnerType, fields: &mut Fields) -> Self {
                match runner_type {
                    $(RunnerType::$variant => Self::$variant($variant::read(fields).into()),)+
                }
            }

            /// The JSON Schema of `runner_configuration`, by its type.
            pub fn schema() -> Value {
                schema::one_of([$(TypeSchema {
                    name: $text,
                    about: concat!($($doc),+),
                    properties: Fields::describe($variant::read),
                },)+])
            }
        }
    };
}

runner_types! {
    /// Any Kubernetes cluster, by its address.
    Kubernetes(Kubernetes) = "kubernetes",
    /// A Google Kubernetes Engine cluster.
    Gke(Gke) = "kubernetes-gke",
    /// An Amazon EKS cluster.
    Eks(Eks) = "kubernetes-eks",
    /// An Azure Kubernetes Service cluster.
    Aks(Aks) = "kubernetes-aks",
    /// AWS Fargate.
    ServerlessEcs(Box<ServerlessEcs>) = "serverless-ecs",
    /// A Kubernetes cluster that only an agent inside can reach.
    KubernetesAgent(KubernetesAgent) = "kubernetes-agent",
    /// Fargate tasks that an agent inside the account starts.
    EcsAgent(Box<EcsAgent>) = "ecs-agent",
    /// Containers that an agent starts on a Docker host.
    DockerAgent(DockerAgent) = "docker-agent",
    /// A process on Canyon's own machine.
    Local(Local) = "local",
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

impl RunnerConfiguration {
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
            Self::read_as(runner_type, fields)
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
