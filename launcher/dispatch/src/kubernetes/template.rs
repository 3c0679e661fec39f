//! The pod template of a Job: the runner's, judged and forced, and what Canyon adds to it.

use super::defaults::JobDefaults;
use crate::{DispatchError, Launch, Target};
use canyon_domain::failure::FailureClass;
use canyon_domain::pod_template::{
    self, ApiToken, CONTAINER, PLACE_TOKEN_DIRECTORY, WORK_DIRECTORY,
};
use canyon_domain::runner::kubernetes::KubernetesJob;
use canyon_domain::state_storage::StorageType;
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, PodSpec, PodTemplateSpec, ProjectedVolumeSource,
    ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};
use secrecy::ExposeSecret;
use serde_json::Value;

const WORK_VOLUME: &str = "canyon-work";
const TEMPORARY_VOLUME: &str = "canyon-tmp";
const PLACE_VOLUME: &str = "canyon-place-token";
const TEMPORARY: &str = "/tmp";
/// Names the file of the pod's own token for Canyon.
const PLACE_TOKEN_FILE: &str = "CANYON_PLACE_TOKEN_FILE";
const API_URL: &str = "CANYON_API_URL";

pub(super) fn pod_template(
    target: &Target,
    settings: &KubernetesJob,
    defaults: &JobDefaults,
    launch: &Launch,
) -> Result<PodTemplateSpec, DispatchError> {
    let account = &settings.service_account;
    let mut merged = defaults
        .under(pod_template::default_template(account))
        .map_err(|faults| refused(target, &faults))?;
    if let Some(template) = &settings.pod_template {
        merged = pod_template::merge(merged, &Value::Object(template.clone()))
            .map_err(|faults| refused(target, &faults))?;
    }
    let mut template =
        pod_template::judge(&merged, account).map_err(|faults| refused(target, &faults))?;
    let token = match target.definition.storage_type() {
        StorageType::Kubernetes => ApiToken::Projected,
        StorageType::S3 | StorageType::Gcs | StorageType::Azurerm | StorageType::Local => {
            ApiToken::Withheld
        }
    };
    pod_template::force(&mut template, account, token);
    let spec = template.spec.get_or_insert_default();
    spec.enable_service_links.get_or_insert(false);
    let place_token = launch.environment.get(API_URL).map(ExposeSecret::expose_secret);
    add_volumes(spec, place_token);
    if let Some(runner) = spec.containers.iter_mut().find(|container| container.name == CONTAINER) {
        complete(runner, launch, place_token.is_some());
        if runner.image.is_none() {
            runner.image = Some(defaults.image.clone().ok_or_else(no_image)?);
        }
    }
    Ok(template)
}

fn refused(target: &Target, faults: &impl std::fmt::Display) -> DispatchError {
    let message = format!("runner `{}`: `job.pod_template`: {faults}", target.runner_id);
    DispatchError::refused(FailureClass::Config, message)
}

fn no_image() -> DispatchError {
    let message = "no runner image is known: set CANYON_RUNNER_IMAGE for the installation, or `image` of the \
        container `canyon-runner` in the runner's `job.pod_template`";
    DispatchError::refused(FailureClass::Config, message)
}

/// The environment, the work folder and the token of the place.
fn complete(runner: &mut Container, launch: &Launch, with_place_token: bool) {
    let variable = |name: &str, value: &str| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    };
    let mut environment: Vec<_> = launch
        .environment
        .iter()
        .map(|(name, value)| variable(name, value.expose_secret()))
        .collect();
    let mounts = runner.volume_mounts.get_or_insert_default();
    mounts.push(mount(WORK_VOLUME, WORK_DIRECTORY, false));
    // Where the root file system is read-only, programs still want a place for temporary files.
    if !mounts.iter().any(|mount| mount.mount_path.trim_end_matches('/') == TEMPORARY) {
        mounts.push(mount(TEMPORARY_VOLUME, TEMPORARY, false));
    }
    if with_place_token {
        mounts.push(mount(PLACE_VOLUME, PLACE_TOKEN_DIRECTORY, true));
        environment.push(variable(PLACE_TOKEN_FILE, &format!("{PLACE_TOKEN_DIRECTORY}/token")));
    }
    let given = runner.env.get_or_insert_default();
    // First, so that the template's variables may refer to them.
    environment.append(given);
    *given = environment;
    runner.working_dir = Some(WORK_DIRECTORY.to_owned());
}

fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(read_only),
        ..VolumeMount::default()
    }
}

fn add_volumes(spec: &mut PodSpec, place_audience: Option<&str>) {
    let empty = |name: &str| Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    };
    let volumes = spec.volumes.get_or_insert_default();
    volumes.extend([empty(WORK_VOLUME), empty(TEMPORARY_VOLUME)]);
    volumes.extend(place_audience.map(place_token));
}

/// A token of the service account that is good for Canyon alone. It says which pod has it.
fn place_token(audience: &str) -> Volume {
    let token = ServiceAccountTokenProjection {
        audience: Some(audience.to_owned()),
        expiration_seconds: Some(3_600),
        path: "token".to_owned(),
    };
    let source =
        VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() };
    Volume {
        name: PLACE_VOLUME.to_owned(),
        projected: Some(ProjectedVolumeSource { default_mode: None, sources: Some(vec![source]) }),
        ..Volume::default()
    }
}
