//! The containers of a task: one for a module, two for a container job.
//!
//! In a container job, `canyon-inject` has the runner's image and copies the runner program into a volume
//! (`canyon-runner inject`). When it has succeeded, ECS starts `canyon-runner`, which has the user's image, and the program
//! from the volume as its entry point.
//!
//! The volumes of a task are empty, belong to root and are writable only for root (developer guide, "Use bind mounts with
//! Amazon ECS"). So the first container runs as root, without capabilities, and opens the folders for every user. It gets
//! no variable, so it has no claim code.

use super::CONTAINER;
use crate::dispatcher::JOB_IMAGE;
use aws_sdk_ecs::types::builders::ContainerDefinitionBuilder;
use aws_sdk_ecs::types::{
    ContainerCondition, ContainerDefinition, ContainerDependency, HostVolumeProperties,
    KernelCapabilities, KeyValuePair, LinuxParameters, MountPoint, Secret, Volume,
};
use aws_smithy_types::error::operation::BuildError;
use canyon_domain::container::ContainerLaunch;
use canyon_domain::pod_template::GIT_DIRECTORY;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The container that brings the runner program into a container job.
pub(super) const INJECT: &str = "canyon-inject";
/// Where that container has the volume: not at the path of the image's own copy.
const INJECT_DIRECTORY: &str = "/canyon/volume";
/// The user of that container. The volumes belong to root.
const ROOT: &str = "0:0";
/// The runner program, as the job's container finds it.
const PROGRAM: &str = "/canyon/bin/canyon-runner";
/// The program's working directory.
const RUN_DIRECTORY: &str = "/canyon/run";
/// Makes the runner refuse to work as root. ECS, unlike Kubernetes, cannot refuse such an image, and unlike on a Docker
/// engine, Canyon does not know the image's user. `canyon-runner` reads it (`settings.rs`).
const REFUSE_ROOT: &str = "CANYON_REFUSE_ROOT";

/// A volume, where the job's container has it, and the folder of `canyon-runner inject` that fills it.
struct JobVolume {
    name: &'static str,
    directory: Cow<'static, str>,
    inject_directory: &'static str,
    read_only: bool,
}

const PROGRAM_VOLUME: JobVolume = JobVolume {
    name: "canyon",
    directory: Cow::Borrowed("/canyon"),
    inject_directory: INJECT_DIRECTORY,
    read_only: false,
};
/// With a read-only root file system, programs still need a folder for temporary files.
const TEMPORARY_VOLUME: JobVolume = JobVolume {
    name: "canyon-tmp",
    directory: Cow::Borrowed("/tmp"),
    inject_directory: "/canyon/volume/tmp",
    read_only: false,
};
/// For a job with a source.
const GIT_VOLUME: JobVolume = JobVolume {
    name: "canyon-git",
    directory: Cow::Borrowed(GIT_DIRECTORY),
    inject_directory: "/canyon/volume/git",
    read_only: true,
};

/// For a job whose shared directory is elsewhere: the folder that `canyon-runner inject` opens for each user.
fn shared_volume(directory: &str) -> JobVolume {
    JobVolume {
        name: "canyon-shared",
        directory: Cow::Owned(directory.to_owned()),
        inject_directory: "/canyon/volume/work",
        read_only: false,
    }
}

/// What a task definition says of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct TaskContainer {
    name: &'static str,
    image: String,
    is_essential: bool,
    /// `None`: the image's own.
    user: Option<&'static str>,
    entry_point: Vec<String>,
    command: Vec<String>,
    working_directory: Option<&'static str>,
    is_root_read_only: bool,
    environment: BTreeMap<String, String>,
    secrets: BTreeMap<String, String>,
    /// In the order in which an engine makes them: some directories are inside of the first.
    mounts: Vec<Mount>,
    /// The container that must have succeeded before this one starts.
    after: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Mount {
    volume: String,
    directory: String,
    read_only: bool,
}

/// The variables that the runner's definition gives its jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variables<'a> {
    pub(super) environment: &'a BTreeMap<String, String>,
    pub(super) secrets: &'a BTreeMap<String, String>,
}

impl TaskContainer {
    /// The container of a module, which runs in the runner's image.
    pub(super) fn of_module(image: &str, user: &'static str, variables: Variables<'_>) -> Self {
        Self {
            name: CONTAINER,
            image: image.to_owned(),
            is_essential: true,
            user: Some(user),
            environment: variables.environment.clone(),
            secrets: variables.secrets.clone(),
            ..Self::default()
        }
    }
}

/// The containers and volumes of a container job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct JobContainers {
    pub(super) containers: [TaskContainer; 2],
    volumes: Vec<&'static str>,
}

impl JobContainers {
    /// `runner_image` has the runner program.
    pub(super) fn new(runner_image: &str, job: &ContainerLaunch, variables: Variables<'_>) -> Self {
        let git = job.needs_git.then_some(GIT_VOLUME);
        let shared = job.shared_directory.as_deref().map(shared_volume);
        let volumes: Vec<_> =
            [PROGRAM_VOLUME, TEMPORARY_VOLUME].into_iter().chain(git).chain(shared).collect();
        Self {
            containers: [inject(runner_image, job, &volumes), main(job, &volumes, variables)],
            volumes: volumes.iter().map(|volume| volume.name).collect(),
        }
    }

    /// Whether `found` are the same volumes, and empty at the start of a task.
    pub(super) fn has_volumes(&self, found: &[Volume]) -> bool {
        let is_empty = |volume: &Volume| {
            volume.host().and_then(HostVolumeProperties::source_path).is_none()
                && volume.docker_volume_configuration().is_none()
                && volume.efs_volume_configuration().is_none()
                && volume.fsx_windows_file_server_volume_configuration().is_none()
        };
        found.iter().all(is_empty)
            && found.iter().filter_map(Volume::name).eq(self.volumes.iter().copied())
    }

    /// Their part of the request that registers a task definition.
    pub(super) fn volumes(&self) -> Vec<Volume> {
        let host = HostVolumeProperties::builder().build();
        let volume = |name: &&str| Volume::builder().name(*name).host(host.clone()).build();
        self.volumes.iter().map(volume).collect()
    }
}

fn inject(image: &str, job: &ContainerLaunch, volumes: &[JobVolume]) -> TaskContainer {
    let mounts = volumes.iter().map(|volume| Mount {
        volume: volume.name.to_owned(),
        directory: volume.inject_directory.to_owned(),
        read_only: false,
    });
    let git = job.needs_git.then_some("--git");
    // The image's entry point is the runner, as for modules.
    let command = ["inject", INJECT_DIRECTORY, "--temporary"].into_iter().chain(git);
    TaskContainer {
        name: INJECT,
        image: image.to_owned(),
        user: Some(ROOT),
        command: command.map(str::to_owned).collect(),
        is_root_read_only: true,
        mounts: mounts.collect(),
        ..TaskContainer::default()
    }
}

fn main(job: &ContainerLaunch, volumes: &[JobVolume], variables: Variables<'_>) -> TaskContainer {
    let mounts = volumes.iter().map(|volume| Mount {
        volume: volume.name.to_owned(),
        directory: volume.directory.clone().into_owned(),
        read_only: volume.read_only,
    });
    let mut environment = variables.environment.clone();
    environment.insert(JOB_IMAGE.to_owned(), job.image.clone());
    environment.insert(REFUSE_ROOT.to_owned(), "1".to_owned());
    TaskContainer {
        name: CONTAINER,
        image: job.image.clone(),
        is_essential: true,
        entry_point: vec![PROGRAM.to_owned()],
        working_directory: Some(RUN_DIRECTORY),
        is_root_read_only: true,
        environment,
        secrets: variables.secrets.clone(),
        mounts: mounts.collect(),
        after: Some(INJECT),
        ..TaskContainer::default()
    }
}

impl TaskContainer {
    /// Whether `found` runs the same program with the same variables.
    pub(super) fn is(&self, found: &ContainerDefinition) -> bool {
        let variables = found.environment().iter();
        let variables: BTreeMap<_, _> = variables
            .filter_map(|pair| Some((pair.name()?.to_owned(), pair.value()?.to_owned())))
            .collect();
        let secrets: BTreeMap<_, _> = found
            .secrets()
            .iter()
            .map(|secret| (secret.name().to_owned(), secret.value_from().to_owned()))
            .collect();
        let mounts: Vec<_> = found.mount_points().iter().map(Mount::from).collect();
        let after: Vec<_> = found
            .depends_on()
            .iter()
            .map(|other| (other.container_name(), other.condition()))
            .collect();
        let wanted: Vec<_> =
            self.after.iter().map(|name| (*name, &ContainerCondition::Success)).collect();
        found.name() == Some(self.name)
            && found.image() == Some(self.image.as_str())
            && found.user() == self.user
            && found.entry_point() == self.entry_point
            && found.command() == self.command
            && found.working_directory() == self.working_directory
            && found.readonly_root_filesystem().unwrap_or_default() == self.is_root_read_only
            && variables == self.environment
            && secrets == self.secrets
            && mounts == self.mounts
            && after == wanted
    }

    /// Its part of the request that registers a task definition.
    pub(super) fn register(&self) -> Result<ContainerDefinitionBuilder, BuildError> {
        // The runner is process 1: it receives the one SIGTERM itself, and reaps processes.
        let linux = LinuxParameters::builder()
            .init_process_enabled(false)
            .capabilities(KernelCapabilities::builder().drop("ALL").build());
        let mut container = ContainerDefinition::builder()
            .name(self.name)
            .image(&self.image)
            .essential(self.is_essential)
            .set_user(self.user.map(str::to_owned))
            .set_entry_point(given(&self.entry_point))
            .set_command(given(&self.command))
            .set_working_directory(self.working_directory.map(str::to_owned))
            .set_readonly_root_filesystem(self.is_root_read_only.then_some(true))
            .linux_parameters(linux.build());
        for (name, value) in &self.environment {
            container =
                container.environment(KeyValuePair::builder().name(name).value(value).build());
        }
        for (name, arn) in &self.secrets {
            container = container.secrets(Secret::builder().name(name).value_from(arn).build()?);
        }
        for mount in &self.mounts {
            container = container.mount_points(mount.into());
        }
        if let Some(name) = self.after {
            let after = ContainerDependency::builder().container_name(name);
            container = container.depends_on(after.condition(ContainerCondition::Success).build()?);
        }
        Ok(container)
    }
}

/// Omitted if it is empty: the image's own applies.
fn given(arguments: &[String]) -> Option<Vec<String>> {
    (!arguments.is_empty()).then(|| arguments.to_vec())
}

impl From<&Mount> for MountPoint {
    fn from(mount: &Mount) -> Self {
        Self::builder()
            .source_volume(&mount.volume)
            .container_path(&mount.directory)
            .read_only(mount.read_only)
            .build()
    }
}

impl From<&MountPoint> for Mount {
    fn from(found: &MountPoint) -> Self {
        Self {
            volume: found.source_volume().unwrap_or_default().to_owned(),
            directory: found.container_path().unwrap_or_default().to_owned(),
            read_only: found.read_only().unwrap_or_default(),
        }
    }
}
