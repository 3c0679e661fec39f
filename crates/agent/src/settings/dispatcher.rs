//! The jobs' platform and its settings.

use super::faults::Faults;
use super::layers::{Given, Layer};
use super::names::DATA;
use canyon_domain::runner::RunnerType;
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;

/// The kinds of platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatcherType {
    /// Jobs are tasks of ECS.
    Ecs,
    /// Jobs are Jobs of Kubernetes.
    Kubernetes,
    /// Jobs are containers of Docker.
    Docker,
    /// Jobs are processes of this machine.
    Local,
}

const ALL: [DispatcherType; 4] = [
    DispatcherType::Ecs,
    DispatcherType::Kubernetes,
    DispatcherType::Docker,
    DispatcherType::Local,
];

/// For every kind: the address at which jobs reach the API, if it differs from the agent's.
const API_URL: &str = "api_url";

/// With this setting, the owner of an ECS cluster confirms to know which credentials tasks on EC2 instances can reach.
pub(crate) const ACKNOWLEDGED: &str = "acknowledge_shared_instance_credentials";
/// The warning for tasks on EC2 instances. A runner that selects them must acknowledge the risk. The account's owner may
/// select them for all runners, and gets this warning.
const SHARED_CREDENTIALS: &str = "is `ec2`: tasks of runners that set no launch type run on instances, and can reach the \
     instances' credentials unless these have ECS_AWSVPC_BLOCK_IMDS=true; to confirm that you know this, set \
     CANYON_JOB_DISPATCHER_DATA_ACKNOWLEDGE_SHARED_INSTANCE_CREDENTIALS=true";

/// Settings for ECS that other products use, and why Canyon does not.
const NOT_FOR_ECS: [(&str, &str); 3] = [
    (
        "task_definition",
        "is not used: Canyon registers its own definition from the runner's `job`; set the tasks' roles, image and \
         size there",
    ),
    (
        "endpoint",
        "is not used: set the address of Canyon for jobs with CANYON_JOB_DISPATCHER_DATA_API_URL, and the address of ECS \
         with AWS_ENDPOINT_URL_ECS",
    ),
    ("extra_service_discovery_hosts", "is not used: jobs need only Canyon's address"),
];

impl DispatcherType {
    /// Its name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ecs => "ecs",
            Self::Kubernetes => "kubernetes",
            Self::Docker => "docker",
            Self::Local => "local",
        }
    }

    /// The type of the runners whose jobs it launches.
    pub fn runner_type(self) -> RunnerType {
        match self {
            Self::Ecs => RunnerType::EcsAgent,
            Self::Kubernetes => RunnerType::KubernetesAgent,
            Self::Docker => RunnerType::DockerAgent,
            Self::Local => RunnerType::Local,
        }
    }

    /// The names of its settings, except `api_url`.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Ecs => &[
                "endpoint",
                "region",
                "task_definition",
                "cluster",
                "subnets",
                "launch_type",
                "image",
                "extra_service_discovery_hosts",
                ACKNOWLEDGED,
            ],
            Self::Kubernetes => &[
                "auth_type",
                "image",
                "memory_request",
                "memory_limit",
                "cpu_request",
                "cpu_limit",
                "namespace",
                "region",
                "eks_cluster",
                "kube_config_path",
                "kube_config_context",
                "kube_server",
                "client_cert",
                "client_key",
                "ca_cert",
                "security_context_run_as_user",
                "security_context_run_as_group",
                "security_context_run_as_non_root",
                "node_selector",
                "host_aliases",
                "pod_annotations",
                "pod_labels",
            ],
            Self::Docker => &[
                "host",
                "image",
                "local_image",
                "extra_hosts",
                "memory_limit",
                "bind_path",
                "network",
                "acknowledge_host_credentials",
                "registry_username",
                "registry_password",
            ],
            Self::Local => &[],
        }
    }
}

/// The platform's settings.
#[derive(Clone)]
pub struct DispatcherSettings {
    /// The kind of platform.
    pub kind: DispatcherType,
    /// The address at which jobs reach the API, if it differs from the agent's.
    pub api_url: Option<String>,
    data: BTreeMap<String, (String, SecretString)>,
}

impl std::fmt::Debug for DispatcherSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.data.keys().collect();
        f.debug_struct("DispatcherSettings")
            .field("kind", &self.kind)
            .field("data", &names)
            .finish_non_exhaustive()
    }
}

impl DispatcherSettings {
    /// The value of a setting of the kind.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.data.get(name).map(|(_, value)| value.expose_secret())
    }

    /// The value of a secret setting.
    pub fn secret(&self, name: &str) -> Option<SecretString> {
        self.data.get(name).map(|(_, value)| value.clone())
    }

    /// The name of a setting for messages: as it was given, or its variable.
    pub fn origin(&self, name: &str) -> String {
        self.data.get(name).map_or_else(|| variable(name), |(origin, _)| origin.clone())
    }

    /// Warnings: settings that have no effect, and settings with a risk.
    pub(super) fn warnings(&self) -> Vec<String> {
        if self.kind != DispatcherType::Ecs {
            return Vec::new();
        }
        let unused = NOT_FOR_ECS.into_iter().filter(|(name, _)| self.data.contains_key(*name));
        let is_on_ec2 =
            self.get("launch_type").is_some_and(|word| word.eq_ignore_ascii_case("ec2"));
        let shared = (is_on_ec2 && self.get(ACKNOWLEDGED).is_none())
            .then_some(("launch_type", SHARED_CREDENTIALS));
        let all = unused.chain(shared);
        all.map(|(name, reason)| format!("{} {reason}", self.origin(name))).collect()
    }

    /// A platform with these settings, for programs that embed an agent.
    pub fn of(kind: DispatcherType, data: impl IntoIterator<Item = (String, String)>) -> Self {
        let data =
            data.into_iter().map(|(name, value)| (name.clone(), (variable(&name), value.into())));
        Self { kind, api_url: None, data: data.collect() }
    }

    /// Reads the platform's settings; `None` after at least one fault.
    pub(super) fn read(layer: &Layer, faults: &mut Faults) -> Option<Self> {
        let given = layer.0.get("job_dispatcher_type");
        let Some(given) = given else {
            let reason = "set the jobs' platform: kubernetes, ecs, docker or local";
            faults.missing("CANYON_JOB_DISPATCHER_TYPE", reason);
            return None;
        };
        let Some(kind) = ALL.into_iter().find(|kind| kind.as_str() == given.value) else {
            faults.add(&given.origin, "is not one of kubernetes, ecs, docker and local");
            return None;
        };
        let mut settings = Self { kind, api_url: None, data: BTreeMap::new() };
        let prefix = format!("{DATA}.");
        for (key, given) in &layer.0 {
            let Some(name) = key.strip_prefix(&prefix) else { continue };
            settings.take(name, given, faults);
        }
        Some(settings)
    }

    fn take(&mut self, name: &str, given: &Given, faults: &mut Faults) {
        let Given { value, origin } = given;
        if name == API_URL {
            match super::http_url(value) {
                Ok(url) => self.api_url = Some(url),
                Err(reason) => faults.add(origin, reason),
            }
        } else if self.kind.names().contains(&name) {
            self.data.insert(name.to_owned(), (origin.clone(), value.clone().into()));
        } else {
            let of: Vec<_> = ALL
                .into_iter()
                .filter(|kind| kind.names().contains(&name))
                .map(DispatcherType::as_str)
                .collect();
            let kind = self.kind.as_str();
            faults.add(
                origin,
                match &*of {
                    [] => format!("is not a setting of the type `{kind}`, nor of any other type"),
                    of => format!(
                        "is for the type `{}`, but this agent has the type `{kind}`",
                        of.join("` and `")
                    ),
                },
            );
        }
    }
}

fn variable(name: &str) -> String {
    format!("{}{}", super::names::DATA_VARIABLE, name.to_ascii_uppercase())
}
