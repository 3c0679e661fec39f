//! The pod template of a Job: the runner's template, validated and hardened, and what Canyon adds
//! to it.

use super::container_job;
use super::defaults::JobDefaults;
use crate::{DispatchError, Launch, Target};
use canyon_domain::failure::FailureClass;
use canyon_domain::pod_template::{self, ApiToken, CONTAINER, WORK_DIRECTORY};
use canyon_domain::runner::kubernetes::KubernetesJob;
use canyon_domain::state_storage::StorageType;
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, PodSpec, PodTemplateSpec, Volume, VolumeMount,
};
use serde_json::Value;

pub(super) const WORK_VOLUME: &str = "canyon-work";
const TEMPORARY_VOLUME: &str = "canyon-tmp";
const TEMPORARY: &str = "/tmp";

pub(super) fn pod_template(
    target: &Target,
    settings: &KubernetesJob,
    defaults: &JobDefaults,
    launch: &Launch,
) -> Result<PodTemplateSpec, DispatchError> {
    let account = &settings.service_account;
    let mut merged = defaults
        .apply_to(pod_template::default_template(account))
        .map_err(|faults| refused(target, &faults))?;
    if let Some(template) = &settings.pod_template {
        merged = pod_template::merge(merged, &Value::Object(template.clone()))
            .map_err(|faults| refused(target, &faults))?;
    }
    let mut template =
        pod_template::validate(&merged, account).map_err(|faults| refused(target, &faults))?;
    pod_template::force(&mut template, account, api_token(target, launch));
    let spec = template.spec.get_or_insert_default();
    spec.enable_service_links.get_or_insert(false);
    add_volumes(spec);
    if let Some(runner) = spec.containers.iter_mut().find(|container| container.name == CONTAINER) {
        complete(runner, launch);
        if runner.image.is_none() {
            runner.image = Some(defaults.image.clone().ok_or_else(no_image)?);
        }
        if let Some(job) = &launch.container {
            let inject = container_job::run_in(runner, job);
            container_job::add_inject(spec, inject);
        }
    }
    Ok(template)
}

/// Only OpenTofu needs the token, for its state. A container job has none, and must not read those
/// of modules.
fn api_token(target: &Target, launch: &Launch) -> ApiToken {
    match target.definition.storage_type() {
        StorageType::Kubernetes if launch.container.is_none() => ApiToken::Projected,
        StorageType::Kubernetes
        | StorageType::S3
        | StorageType::Gcs
        | StorageType::Azurerm
        | StorageType::Local => ApiToken::Withheld,
    }
}

fn refused(target: &Target, faults: &impl std::fmt::Display) -> DispatchError {
    let message = format!("runner `{}`: `job.pod_template`: {faults}", target.runner_id);
    DispatchError::refused(FailureClass::Config, message)
}

fn no_image() -> DispatchError {
    let message = "no runner image is set: set CANYON_RUNNER_IMAGE for the installation, or `image` of the \
        container `canyon-runner` in the runner's `job.pod_template`";
    DispatchError::refused(FailureClass::Config, message)
}

/// Adds Canyon's variables and the work folder.
fn complete(runner: &mut Container, launch: &Launch) {
    let variable = |name: &str, value: &str| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    };
    let mut environment: Vec<_> =
        launch.container_environment().map(|(name, value)| variable(name, value)).collect();
    let mounts = runner.volume_mounts.get_or_insert_default();
    mounts.push(mount(WORK_VOLUME, WORK_DIRECTORY));
    // With a read-only root file system, programs still need a folder for temporary files.
    if !mounts.iter().any(|mount| mount.mount_path.trim_end_matches('/') == TEMPORARY) {
        mounts.push(mount(TEMPORARY_VOLUME, TEMPORARY));
    }
    let given = runner.env.get_or_insert_default();
    // Canyon's first, so that the template's variables may refer to them.
    environment.append(given);
    *given = environment;
    runner.working_dir = Some(WORK_DIRECTORY.to_owned());
}

pub(super) fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(false),
        ..VolumeMount::default()
    }
}

fn add_volumes(spec: &mut PodSpec) {
    let empty = |name: &str| Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    };
    let volumes = spec.volumes.get_or_insert_default();
    volumes.extend([empty(WORK_VOLUME), empty(TEMPORARY_VOLUME)]);
}
