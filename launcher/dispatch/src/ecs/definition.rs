//! The task definition of a runner: everything that is the same for each of its modules, or for each of its container jobs
//! with the same image.

use super::containers::{JobContainers, TaskContainer, Variables};
use crate::Target;
use aws_sdk_ecs::Client;
use aws_sdk_ecs::operation::register_task_definition::builders::RegisterTaskDefinitionFluentBuilder;
use aws_sdk_ecs::types::{
    Compatibility, ContainerDefinition, CpuArchitecture, EphemeralStorage, LogConfiguration,
    LogDriver, NetworkMode, OsFamily, RuntimePlatform, Tag, TaskDefinition,
};
use aws_smithy_types::error::operation::BuildError;
use canyon_domain::container::ContainerLaunch;
use canyon_domain::runner::container_size::ContainerSize;
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
/// OpenTofu saves its state in this time. The runner itself ends a container job's program earlier, if the job says so: so
/// jobs that differ only in that share a definition.
const STOP_TIMEOUT: i32 = 120;
/// The user of the runner image for modules. The task definition names it too, so that a custom image that sets
/// no user does not run as root.
///
/// The root file system of a module stays writable. To make it read-only, `/work` and `/tmp` would have to be
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
    /// Of a container job. Omitted for modules, as above.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<JobContainers>,
    #[serde(skip)]
    runner: String,
}

impl Definition {
    /// The definition for modules, or for the container job `container`. `image` is the runner's.
    pub(super) fn new(
        target: &Target,
        job: &EcsJob,
        image: &str,
        container: Option<&ContainerLaunch>,
    ) -> Self {
        let mut tags = job.tags.clone().unwrap_or_default();
        tags.insert("canyon:org".to_owned(), target.org_id.to_string());
        tags.insert("canyon:runner".to_owned(), target.runner_id.to_string());
        let environment = job.environment.clone().unwrap_or_default();
        let secrets = job.secrets.clone().unwrap_or_default();
        let variables = Variables { environment: &environment, secrets: &secrets };
        let size = container.map(|container| &container.size);
        Self {
            job: container.map(|container| JobContainers::new(image, container, variables)),
            image: image.to_owned(),
            cpu: size.and_then(ContainerSize::cpu_units).or(job.cpu).unwrap_or(CPU),
            memory: size.and_then(ContainerSize::mebibytes).or(job.memory).unwrap_or(MEMORY),
            ephemeral_storage_gib: job.ephemeral_storage_gib,
            architecture: job.architecture.unwrap_or(Architecture::X86_64).as_str(),
            execution_role_arn: job.execution_role_arn.clone(),
            task_role_arn: job.task_role_arn.clone(),
            environment,
            secrets,
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
    /// runner's id has only these characters, at most 63, and the policy of the runner's role allows only names with it.
    ///
    /// Of the hash, 96 bits are in the name. With much fewer, a deployer could search for an image whose definition has the
    /// name of another image's, and so replace it.
    pub(super) fn family(&self) -> String {
        let hash = hex::encode(Sha256::digest(to_json_text(self)));
        format!("canyon-{}-{}", self.runner, hash.get(..24).unwrap_or(&hash))
    }

    /// Whether `found` runs the same thing with the same roles. Another program may have registered
    /// a definition under the family's name.
    pub(super) fn is(&self, found: &TaskDefinition) -> bool {
        let (wanted, containers) = (self.containers(), found.container_definitions());
        wanted.len() == containers.len()
            && wanted.iter().zip(containers).all(|(wanted, found)| wanted.is(found))
            && match &self.job {
                Some(job) => job.has_volumes(found.volumes()),
                None => found.volumes().is_empty(),
            }
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
        let containers = self.containers();
        let containers = containers.iter().map(|container| self.register_container(container));
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
            .set_container_definitions(Some(containers.collect::<Result<_, _>>()?))
            .set_volumes(self.job.as_ref().map(JobContainers::volumes))
            .set_tags(Some(tags.map(aws_sdk_ecs::types::builders::TagBuilder::build).collect())))
    }

    fn compatibility(&self) -> Compatibility {
        if self.is_on_ec2 { Compatibility::Ec2 } else { Compatibility::Fargate }
    }

    fn containers(&self) -> Vec<TaskContainer> {
        if let Some(job) = &self.job {
            return job.containers.to_vec();
        }
        let variables = Variables { environment: &self.environment, secrets: &self.secrets };
        vec![TaskContainer::of_module(&self.image, self.user, variables)]
    }

    fn register_container(
        &self,
        container: &TaskContainer,
    ) -> Result<ContainerDefinition, BuildError> {
        let mut registered = container.register()?.stop_timeout(self.stop_timeout);
        if let Some(group) = &self.log_group {
            registered = registered.log_configuration(self.log(group)?);
        }
        Ok(registered.build())
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
