//! `runner_configuration`: the type of a runner and how it runs jobs.

use super::{
    agents::{AgentSettings, DockerAgent, EcsAgent, KubernetesAgent},
    aks::Aks,
    check_step::CheckStep,
    docker::{Docker, DockerJob},
    ecs::{EcsJob, ServerlessEcs},
    eks::Eks,
    fields::Fields,
    gke::Gke,
    kind::{Facts, JobPlace, JobSettings, Kind, LaunchedBy},
    kubernetes::{Kubernetes, KubernetesJob},
    local::Local,
    schema::{self, TypeSchema},
    string_enum::{UnknownValue, string_enum},
    timeouts::{TimeoutSettings, Timeouts},
    trust::{Grants, TrustSubject},
};
use crate::field_error::{FieldErrors, join};
use crate::job_identity::JobIdentity;
use crate::state_storage::StateStorage;
use serde::Serialize;
use serde_json::{Map, Value};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Declares the types of runners: the value of `type`, and the struct with the properties, which has the variant's name
/// and says what the type is: its `FACTS`, and [`Kind`].
macro_rules! runner_types {
    ($($(#[doc = $doc:literal])+ $variant:ident($properties:ty) = $text:literal,)+) => {
        string_enum! {
            /// The types of runners.
            RunnerType {
                $($(#[doc = $doc])+ $variant = $text,)+
            }
        }

        impl RunnerType {
            const fn facts(self) -> Facts {
                match self {
                    $(Self::$variant => $variant::FACTS,)+
                }
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

            fn kind(&self) -> &dyn Kind {
                match self {
                    $(Self::$variant(runner) => Borrow::<$variant>::borrow(runner),)+
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
    /// A container of the Docker engine of Canyon's own machine.
    Docker(Docker) = "docker",
    /// A process on Canyon's own machine.
    Local(Local) = "local",
}

impl RunnerType {
    /// What its jobs are.
    pub const fn job_place(self) -> JobPlace {
        self.facts().place
    }

    /// Who launches its jobs.
    pub const fn launched_by(self) -> LaunchedBy {
        self.facts().launched_by
    }

    /// Whether its runners run container jobs.
    pub const fn runs_containers(self) -> bool {
        self.facts().place.runs_containers()
    }

    /// Whether an agent launches the jobs; otherwise Canyon does.
    pub const fn needs_agent(self) -> bool {
        matches!(self.launched_by(), LaunchedBy::Agent)
    }

    /// Whether an agent can launch the jobs, if a deployment requests it.
    pub const fn may_have_agent(self) -> bool {
        !matches!(self.launched_by(), LaunchedBy::Canyon)
    }
}

impl RunnerConfiguration {
    /// The job, if the jobs are Kubernetes Jobs.
    pub fn kubernetes_job(&self) -> Option<&KubernetesJob> {
        match self.kind().job()? {
            JobSettings::Cluster(job) => Some(job),
            JobSettings::Ecs(_) | JobSettings::Docker(_) | JobSettings::Machine(_) => None,
        }
    }

    /// Its cluster at a cloud, in the words of resource definitions: `cluster_type`, `name` and where it is.
    pub fn cloud_cluster(&self) -> Option<Map<String, Value>> {
        self.kind().cloud_cluster()
    }

    /// The job, if the jobs are tasks on ECS.
    pub fn ecs_job(&self) -> Option<&EcsJob> {
        match self.kind().job()? {
            JobSettings::Ecs(job) => Some(job),
            JobSettings::Cluster(_) | JobSettings::Docker(_) | JobSettings::Machine(_) => None,
        }
    }

    /// The job, if the jobs are containers of Docker and the definition has one.
    pub fn docker_job(&self) -> Option<&DockerJob> {
        match self.kind().job()? {
            JobSettings::Docker(job) => Some(job),
            JobSettings::Cluster(_) | JobSettings::Ecs(_) | JobSettings::Machine(_) => None,
        }
    }

    /// The agent settings, if agents launch its jobs.
    pub fn agent_settings(&self) -> Option<&AgentSettings> {
        self.kind().agent_settings()
    }

    /// The identity of its jobs at clouds.
    pub fn job_identity(&self) -> Option<&JobIdentity> {
        self.kind().job().and_then(JobSettings::identity)
    }

    /// The images that container jobs may run. `None` allows every image.
    pub fn allowed_images(&self) -> Option<&[String]> {
        self.kind().job().and_then(JobSettings::allowed_images)
    }

    /// The variables that the definition sets in a job's container.
    pub fn container_environment(&self) -> Option<&BTreeMap<String, String>> {
        self.kind().job().and_then(JobSettings::container_environment)
    }

    /// The settings of its jobs, if they are given.
    pub(super) fn job_settings(&self) -> Option<JobSettings<'_>> {
        self.kind().job()
    }

    /// The effective timeouts, with defaults.
    pub fn timeouts(&self) -> Timeouts {
        let given = self.kind().job().and_then(JobSettings::timeouts);
        given.map_or_else(|| Timeouts::from(&TimeoutSettings::default()), Timeouts::from)
    }

    pub(crate) fn check_steps(&self) -> &'static [CheckStep] {
        self.kind().check_steps()
    }

    pub(super) fn grants(&self, trusted: &TrustSubject, storage: &StateStorage) -> Grants {
        self.kind().grants(trusted, storage)
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
