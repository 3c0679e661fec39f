//! The task definition of a runner: everything that is the same for each of its jobs.

use super::CONTAINER;
use crate::Target;
use aws_sdk_ecs::Client;
use aws_sdk_ecs::operation::register_task_definition::builders::RegisterTaskDefinitionFluentBuilder;
use aws_sdk_ecs::types::{
    Compatibility, ContainerDefinition, CpuArchitecture, EphemeralStorage, KernelCapabilities,
    KeyValuePair, LinuxParameters, LogConfiguration, LogDriver, NetworkMode, OsFamily,
    RuntimePlatform, Secret, Tag, TaskDefinition,
};
use aws_smithy_types::error::operation::BuildError;
use canyon_domain::runner::ecs::{Architecture, EcsJob};
use canyon_domain::to_json::to_json_text;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The default size, one vCPU and 2 GiB: OpenTofu with the provider of a large cloud needs more
/// than 1 GiB.
const CPU: u32 = 1_024;
const MEMORY: u32 = 2_048;
/// Seconds between SIGTERM and SIGKILL, the maximum on Fargate (developer guide, `stopTimeout`).
/// OpenTofu saves its state in this time.
const STOP_TIMEOUT: i32 = 120;
/// The user of the runner image. The task definition names it too, so that a custom image that sets
/// no user does not run as root.
///
/// The root file system stays writable. To make it read-only, `/work` and `/tmp` would have to be
/// volumes, and an empty volume on Fargate belongs to root unless the image declares it with
/// another owner (developer guide, "Use bind mounts with Amazon ECS"), which a custom image may not
/// do. The file system belongs to the task alone and ends with it.
const USER: &str = "65532:65532";
/// The prefix of log streams: `<prefix>/<container>/<task id>`.
pub(super) const LOG_PREFIX: &str = "canyon";

/// The content of a task definition. Its hash is in the family's name, so a family has one content,
/// and a change of the runner makes another family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Definition {
    image: String,
    cpu: u32,
    memory: u32,
    ephemeral_storage_gib: Option<u32>,
    architecture: &'static str,
    execution_role_arn: String,
    task_role_arn: Option<String>,
    environment: BTreeMap<String, String>,
    secrets: BTreeMap<String, String>,
    log_group: Option<String>,
    region: String,
    stop_timeout: i32,
    user: &'static str,
    tags: BTreeMap<String, String>,
    /// Omitted if false, so that the families of older versions keep their names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_on_ec2: bool,
    #[serde(skip)]
    runner: String,
}

impl Definition {
    pub(super) fn new(target: &Target, job: &EcsJob, image: &str) -> Self {
        let mut tags = job.tags.clone().unwrap_or_default();
        tags.insert("canyon:org".to_owned(), target.org_id.to_string());
        tags.insert("canyon:runner".to_owned(), target.runner_id.to_string());
        Self {
            image: image.to_owned(),
            cpu: job.cpu.unwrap_or(CPU),
            memory: job.memory.unwrap_or(MEMORY),
            ephemeral_storage_gib: job.ephemeral_storage_gib,
            architecture: job.architecture.unwrap_or(Architecture::X86_64).as_str(),
            execution_role_arn: job.execution_role_arn.clone(),
            task_role_arn: job.task_role_arn.clone(),
            environment: job.environment.clone().unwrap_or_default(),
            secrets: job.secrets.clone().unwrap_or_default(),
            log_group: job.log_group.clone(),
            region: job.region.clone(),
            stop_timeout: STOP_TIMEOUT,
            user: USER,
            tags,
            is_on_ec2: job.is_on_ec2(),
            runner: target.runner_id.to_string(),
        }
    }

    /// The name of the family: letters, digits, `-` and `_`, at most 255, as ECS requires. A
    /// runner's id has only these characters, at most 63.
    pub(super) fn family(&self) -> String {
        let hash = hex::encode(Sha256::digest(to_json_text(self)));
        format!("canyon-{}-{}", self.runner, hash.get(..24).unwrap_or(&hash))
    }

    /// Whether `found` runs the same thing with the same roles. Another program may have registered
    /// a definition under the family's name.
    pub(super) fn is(&self, found: &TaskDefinition) -> bool {
        let [container] = found.container_definitions() else { return false };
        let variables: BTreeMap<_, _> = container
            .environment()
            .iter()
            .filter_map(|pair| Some((pair.name()?.to_owned(), pair.value()?.to_owned())))
            .collect();
        let secrets: BTreeMap<_, _> = container
            .secrets()
            .iter()
            .map(|secret| (secret.name().to_owned(), secret.value_from().to_owned()))
            .collect();
        container.name() == Some(CONTAINER)
            && container.image() == Some(self.image.as_str())
            && container.user() == Some(self.user)
            && container.entry_point().is_empty()
            && container.command().is_empty()
            && variables == self.environment
            && secrets == self.secrets
            && found.execution_role_arn() == Some(self.execution_role_arn.as_str())
            && found.task_role_arn() == self.task_role_arn.as_deref()
            && found.cpu() == Some(self.cpu.to_string().as_str())
            && found.memory() == Some(self.memory.to_string().as_str())
            && found.requires_compatibilities().contains(&self.compatibility())
    }

    /// The request that registers it.
    pub(super) fn register(
        &self,
        client: &Client,
    ) -> Result<RegisterTaskDefinitionFluentBuilder, BuildError> {
        let platform = RuntimePlatform::builder()
            .cpu_architecture(CpuArchitecture::from(self.architecture))
            .operating_system_family(OsFamily::Linux);
        let tags = self.tags.iter().map(|(key, value)| Tag::builder().key(key).value(value));
        let storage = self.ephemeral_storage_gib.and_then(|gib| i32::try_from(gib).ok());
        let storage = storage.map(|gib| EphemeralStorage::builder().size_in_gib(gib).build());
        Ok(client
            .register_task_definition()
            .family(self.family())
            .requires_compatibilities(self.compatibility())
            .network_mode(NetworkMode::Awsvpc)
            .cpu(self.cpu.to_string())
            .memory(self.memory.to_string())
            .set_ephemeral_storage(storage)
            .runtime_platform(platform.build())
            .execution_role_arn(&self.execution_role_arn)
            .set_task_role_arn(self.task_role_arn.clone())
            .container_definitions(self.container()?)
            .set_tags(Some(tags.map(aws_sdk_ecs::types::builders::TagBuilder::build).collect())))
    }

    fn compatibility(&self) -> Compatibility {
        if self.is_on_ec2 { Compatibility::Ec2 } else { Compatibility::Fargate }
    }

    fn container(&self) -> Result<ContainerDefinition, BuildError> {
        // The runner is process 1: it receives the one SIGTERM itself, and reaps processes.
        let linux = LinuxParameters::builder()
            .init_process_enabled(false)
            .capabilities(KernelCapabilities::builder().drop("ALL").build());
        let mut container = ContainerDefinition::builder()
            .name(CONTAINER)
            .image(&self.image)
            .essential(true)
            .user(self.user)
            .stop_timeout(self.stop_timeout)
            .linux_parameters(linux.build());
        for (name, value) in &self.environment {
            container =
                container.environment(KeyValuePair::builder().name(name).value(value).build());
        }
        for (name, arn) in &self.secrets {
            container = container.secrets(Secret::builder().name(name).value_from(arn).build()?);
        }
        if let Some(group) = &self.log_group {
            container = container.log_configuration(self.log(group)?);
        }
        Ok(container.build())
    }

    fn log(&self, group: &str) -> Result<LogConfiguration, BuildError> {
        LogConfiguration::builder()
            .log_driver(LogDriver::Awslogs)
            .options("awslogs-group", group)
            .options("awslogs-region", &self.region)
            .options("awslogs-stream-prefix", LOG_PREFIX)
            // An unavailable log service must not block a run, which reports to Canyon itself.
            .options("mode", "non-blocking")
            .options("max-buffer-size", "25m")
            .build()
    }
}
