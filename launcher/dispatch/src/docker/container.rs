//! The container of an attempt, from the settings, the runner's definition and the launch.

use super::engine_user::EngineUser;
use super::image::FoundImage;
use super::injection;
use super::names;
use super::settings::ValidSettings;
use crate::dispatcher::JOB_IMAGE;
use crate::{DispatchError, Launch, Target, fingerprint};
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, HealthConfig, HostConfig, HostConfigLogConfig,
    Mount, MountType, RestartPolicy, RestartPolicyNameEnum,
};
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::JobPlace;
use canyon_domain::runner::docker::DockerJob;
use secrecy::ExposeSecret as _;
use std::collections::HashMap;

/// The working directory of the runner image. A volume there gets its owner from the image.
const WORK_DIRECTORY: &str = "/work";
/// The size of a shared directory of the job's own, which is in memory.
const SHARED_SIZE: &str = "1g";
/// The user of a container whose image names no user by number, or root.
const USER: &str = "65532:65532";
/// The maximum number of processes and threads. A run with many providers has some hundreds.
const MOST_PROCESSES: i64 = 4_096;
/// The size of the log files that the engine keeps: as much as Canyon ever reads.
const LOG_FILE_SIZE: &str = "16m";
const LOG_FILES: &str = "2";

/// What the settings and the runner's definition say of a container.
pub(super) struct Plan<'a> {
    pub(super) image: &'a str,
    job: Option<&'a DockerJob>,
    settings: &'a ValidSettings,
    target: &'a Target,
}

impl<'a> Plan<'a> {
    /// Plans containers for a runner.
    ///
    /// # Errors
    ///
    /// If the runner is of another type, or neither it nor the settings name an image.
    pub(super) fn new(
        settings: &'a ValidSettings,
        target: &'a Target,
    ) -> Result<Self, DispatchError> {
        let refused = |message| DispatchError::refused(FailureClass::Config, message);
        if target.definition.runner_type().job_place() != JobPlace::Docker {
            let message = format!("jobs of runner `{}` are no containers", target.runner_id);
            return Err(refused(message));
        }
        let job = target.definition.configuration.docker_job();
        let image = job.and_then(|job| job.image.as_ref()).or(settings.image.as_ref());
        let image = image.ok_or_else(|| refused(settings.user.no_image().to_owned()))?;
        Ok(Self { image, job, settings, target })
    }

    /// The request that creates the container in `image`.
    pub(super) fn container(&self, launch: &Launch, image: &FoundImage) -> ContainerCreateBody {
        let of_runner = self.target.definition.timeouts().stop.as_secs();
        let job = launch.container.as_ref();
        let body = ContainerCreateBody {
            image: Some(image.name.clone()),
            user: Some(if is_unprivileged(&image.user) { &image.user } else { USER }.to_owned()),
            env: Some(self.environment(launch, image)),
            labels: Some(self.labels(launch)),
            tty: Some(false),
            // The time that the engine gives the container when the engine itself shuts down.
            stop_timeout: Some(job.map_or(of_runner, |job| job.stop_seconds.into())),
            stop_signal: Some("SIGTERM".to_owned()),
            host_config: Some(self.host_config(launch)),
            ..ContainerCreateBody::default()
        };
        if job.is_none() {
            return ContainerCreateBody { working_dir: Some(WORK_DIRECTORY.to_owned()), ..body };
        }
        ContainerCreateBody {
            entrypoint: Some(vec![injection::PROGRAM.to_owned()]),
            cmd: Some(Vec::new()),
            working_dir: Some(injection::RUN_DIRECTORY.to_owned()),
            // A health check of the image says nothing about a job.
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            }),
            ..body
        }
    }

    fn environment(&self, launch: &Launch, image: &FoundImage) -> Vec<String> {
        let given = self.job.and_then(|job| job.environment.as_ref()).into_iter().flatten();
        let given = given.map(|(name, value)| format!("{name}={value}"));
        let own = launch.container_environment().map(|(name, value)| format!("{name}={value}"));
        let of_job = launch.container.as_ref().map(|_| format!("{JOB_IMAGE}={}", image.name));
        own.chain(of_job).chain(given).collect()
    }

    pub(super) fn labels(&self, launch: &Launch) -> HashMap<String, String> {
        let mut labels = names::identity(self.target, &launch.job);
        let others = [
            (names::LAUNCH, fingerprint::of_launch(launch)),
            ("canyon.dev/runner-id", self.target.runner_id.to_string()),
            ("canyon.dev/project", launch.project.to_string()),
            ("canyon.dev/environment", launch.env.to_string()),
        ];
        labels.extend(others.map(|(key, value)| (key.to_owned(), value)));
        labels
    }

    /// The job's limit in bytes. An agent's owner also limits what the runner gives.
    fn memory(&self, launch: &Launch) -> i64 {
        let of_job = launch.container.as_ref().and_then(|job| job.size.mebibytes());
        // The API has refused a job that asks for more than its runner allows.
        let of_runner = of_job.or_else(|| self.job.and_then(|job| job.memory_limit));
        let of_runner = of_runner.map(|mib| i64::from(mib) * 1024 * 1024);
        match (of_runner, self.settings.user) {
            (None, _) => self.settings.memory,
            (Some(of_runner), EngineUser::Agent) => of_runner.min(self.settings.memory),
            (Some(of_runner), EngineUser::CanyonLocal) => of_runner,
        }
    }

    fn host_config(&self, launch: &Launch) -> HostConfig {
        let is_in_own_image = launch.container.is_some();
        let of_runner = self.job.and_then(|job| job.extra_hosts.clone()).unwrap_or_default();
        let extra_hosts: Vec<_> =
            self.settings.extra_hosts.iter().cloned().chain(of_runner).collect();
        let memory = self.memory(launch);
        HostConfig {
            memory: Some(memory),
            // The sum of memory and swap: so no swap.
            memory_swap: Some(memory),
            nano_cpus: launch.container.as_ref().and_then(|job| job.size.nano_cpus()),
            pids_limit: Some(MOST_PROCESSES),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            privileged: Some(false),
            readonly_rootfs: Some(true),
            mounts: (!is_in_own_image).then(|| self.mounts()),
            volumes_from: is_in_own_image.then(|| vec![injection::injector_name(&launch.job)]),
            tmpfs: Some(folders_in_memory(launch)),
            extra_hosts: Some(extra_hosts),
            network_mode: self.settings.network.clone(),
            ipc_mode: Some("private".to_owned()),
            // The runner is process 1 and reaps the processes that modules leave behind.
            init: Some(false),
            // An attempt starts at most once.
            restart_policy: Some(RestartPolicy {
                name: Some(RestartPolicyNameEnum::NO),
                maximum_retry_count: None,
            }),
            auto_remove: Some(false),
            // The engine cannot read logs of some drivers, of which one may be its default.
            log_config: Some(HostConfigLogConfig {
                typ: Some("json-file".to_owned()),
                config: Some(HashMap::from(
                    [("max-size", LOG_FILE_SIZE), ("max-file", LOG_FILES)]
                        .map(|(key, value)| (key.to_owned(), value.to_owned())),
                )),
            }),
            ..HostConfig::default()
        }
    }

    /// The work folder is an anonymous volume: it has the permissions of the image's folder, may
    /// grow beyond the memory, and is removed with the container.
    fn mounts(&self) -> Vec<Mount> {
        let work = Mount {
            target: Some(WORK_DIRECTORY.to_owned()),
            typ: Some(MountType::VOLUME),
            ..Mount::default()
        };
        let bound = self.settings.bind.as_ref().map(|bind| Mount {
            source: Some(bind.source.clone()),
            target: Some(bind.target.clone()),
            typ: Some(MountType::BIND),
            read_only: Some(bind.is_read_only),
            ..Mount::default()
        });
        std::iter::once(work).chain(bound).collect()
    }
}

/// `/tmp`, and a shared directory of the job's own: an engine makes volumes that only root may write to.
fn folders_in_memory(launch: &Launch) -> HashMap<String, String> {
    let folder = |path: &str, size: &str| {
        (path.to_owned(), format!("rw,nosuid,nodev,exec,mode=1777,size={size}"))
    };
    let shared = launch.container.as_ref().and_then(|job| job.shared_directory.as_deref());
    let shared = shared.map(|path| folder(path, SHARED_SIZE));
    std::iter::once(folder("/tmp", "512m")).chain(shared).collect()
}

/// Whether the image's user is a number other than root's. A name could map to any number.
fn is_unprivileged(user: &str) -> bool {
    let id = user.split(':').next().unwrap_or_default();
    id.parse::<u32>().is_ok_and(|id| id != 0)
}

/// Whether the existing container belongs to this launch, by its labels and by the settings that
/// the engine reports. The runner may have been changed after the container was created.
pub(super) fn is_of(launch: &Launch, target: &Target, found: &ContainerInspectResponse) -> bool {
    let config = found.config.clone().unwrap_or_default();
    let labels = config.labels.unwrap_or_default();
    let mut wanted = names::identity(target, &launch.job);
    wanted.insert(names::LAUNCH.to_owned(), fingerprint::of_launch(launch));
    let host = found.host_config.clone().unwrap_or_default();
    let environment = config.env.unwrap_or_default();
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
        && launch
            .environment
            .iter()
            .all(|(name, value)| environment.contains(&format!("{name}={}", value.expose_secret())))
        && host.privileged != Some(true)
        && host.cap_add.is_none_or(|added| added.is_empty())
        && host.network_mode.as_deref() != Some("host")
        && config.user.as_deref().is_some_and(is_unprivileged)
}
