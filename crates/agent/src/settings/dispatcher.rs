//! What jobs run on, and how.

use super::faults::Faults;
use super::layers::{Given, Layer};
use super::names::DATA;
use canyon_domain::runner::RunnerType;
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;

/// What jobs run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatcherType {
    /// Tasks of ECS.
    Ecs,
    /// Jobs of Kubernetes.
    Kubernetes,
    /// Containers of Docker.
    Docker,
    /// Processes of this machine.
    Local,
}

const ALL: [DispatcherType; 4] = [
    DispatcherType::Ecs,
    DispatcherType::Kubernetes,
    DispatcherType::Docker,
    DispatcherType::Local,
];

/// For every kind: where jobs reach the API, if that is not where the agent does.
const API_URL: &str = "api_url";

/// The owner of a cluster of instances knows what tasks reach there.
pub(crate) const ACKNOWLEDGED: &str = "acknowledge_shared_instance_credentials";
/// What tasks on instances reach. The runner that asks for them must acknowledge it; whoever owns the account may
/// choose them for all, and is told.
const SHARED_CREDENTIALS: &str = "is `ec2`: where a runner does not say otherwise, its tasks run on instances, and \
     reach the credentials of these unless they have ECS_AWSVPC_BLOCK_IMDS=true; who knows that sets \
     CANYON_JOB_DISPATCHER_DATA_ACKNOWLEDGE_SHARED_INSTANCE_CREDENTIALS=true";

/// Settings of ECS that others need, and why Canyon does not.
const NOT_FOR_ECS: [(&str, &str); 3] = [
    (
        "task_definition",
        "is not used: Canyon registers a definition of its own from the runner's `job`; say there which roles, image and \
         size tasks have",
    ),
    (
        "endpoint",
        "is not used: where jobs reach Canyon is CANYON_JOB_DISPATCHER_DATA_API_URL, and where ECS is \
         AWS_ENDPOINT_URL_ECS",
    ),
    ("extra_service_discovery_hosts", "is not used: jobs know Canyon by its address alone"),
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

    /// The type of the runners that it serves.
    pub fn runner_type(self) -> RunnerType {
        match self {
            Self::Ecs => RunnerType::EcsAgent,
            Self::Kubernetes => RunnerType::KubernetesAgent,
            Self::Docker => RunnerType::DockerAgent,
            Self::Local => RunnerType::Local,
        }
    }

    /// The names of its settings, besides `api_url`.
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

/// What jobs run on, and how.
#[derive(Clone)]
pub struct DispatcherSettings {
    /// What.
    pub kind: DispatcherType,
    /// Where jobs reach the API, if not where the agent does.
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

    /// The same, of one that is secret.
    pub fn secret(&self, name: &str) -> Option<SecretString> {
        self.data.get(name).map(|(_, value)| value.clone())
    }

    /// What to call a setting in an error: as it was given, or as one gives it.
    pub fn origin(&self, name: &str) -> String {
        self.data.get(name).map_or_else(|| variable(name), |(origin, _)| origin.clone())
    }

    /// What its operator should know: settings that do nothing here, and what one of them brings with it.
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

    /// A kind with these settings, for programs that are no agent of their own.
    pub fn of(kind: DispatcherType, data: impl IntoIterator<Item = (String, String)>) -> Self {
        let data =
            data.into_iter().map(|(name, value)| (name.clone(), (variable(&name), value.into())));
        Self { kind, api_url: None, data: data.collect() }
    }

    /// What the layers say; `None` with at least one fault.
    pub(super) fn read(layer: &Layer, faults: &mut Faults) -> Option<Self> {
        let given = layer.0.get("job_dispatcher_type");
        let Some(given) = given else {
            let reason = "say what jobs run on: kubernetes, ecs, docker or local";
            faults.missing("CANYON_JOB_DISPATCHER_TYPE", reason);
            return None;
        };
        let Some(kind) = ALL.into_iter().find(|kind| kind.as_str() == given.value) else {
            faults.add(&given.origin, "is none of kubernetes, ecs, docker and local");
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
                    [] => format!("is no setting of the type `{kind}`, or of any other"),
                    of => format!(
                        "is for the type `{}`, and this agent's is `{kind}`",
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
