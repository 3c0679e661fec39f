//! The fields that no template can change.

use super::{API_TOKEN_DIRECTORY, CONTAINER};
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapProjection, Container, DownwardAPIProjection, DownwardAPIVolumeFile,
    KeyToPath, ObjectFieldSelector, PodSecurityContext, PodSpec, PodTemplateSpec,
    ProjectedVolumeSource, SeccompProfile, SecurityContext, ServiceAccountTokenProjection, Volume,
    VolumeMount, VolumeProjection,
};

const TOKEN_VOLUME: &str = "canyon-api-token";

/// Whether the job can access the API of its own cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiToken {
    /// It cannot.
    Withheld,
    /// Only `canyon-runner` gets a token, which expires with the pod, where client libraries look for it.
    /// State storage of type `kubernetes` needs one.
    Projected,
}

/// Sets the fields that isolate the job from its node and from other identities, whatever the template has:
/// service account, no automatic token, no host namespaces, no root, no capabilities, the default seccomp
/// profile, no privilege escalation, no restarts. A user or group in the template stays.
pub fn force(template: &mut PodTemplateSpec, service_account: &str, token: ApiToken) {
    let spec = template.spec.get_or_insert_default();
    spec.service_account_name = Some(service_account.to_owned());
    spec.service_account = None;
    spec.automount_service_account_token = Some(false);
    spec.restart_policy = Some("Never".to_owned());
    spec.host_ipc = Some(false);
    spec.host_network = Some(false);
    spec.host_pid = Some(false);
    spec.share_process_namespace = Some(false);
    spec.node_name = None;
    spec.ephemeral_containers = None;
    let context = spec.security_context.get_or_insert_default();
    force_pod(context);
    let containers = spec.containers.iter_mut();
    containers.chain(spec.init_containers.iter_mut().flatten()).for_each(force_container);
    if token == ApiToken::Projected {
        mount_token(spec);
    }
}

fn force_pod(context: &mut PodSecurityContext) {
    context.run_as_non_root = Some(true);
    context.run_as_user = context.run_as_user.filter(|user| *user > 0);
    context.seccomp_profile = Some(runtime_default());
    context.se_linux_options = None;
    context.sysctls = None;
    context.windows_options = None;
}

fn force_container(container: &mut Container) {
    let context: &mut SecurityContext = container.security_context.get_or_insert_default();
    context.allow_privilege_escalation = Some(false);
    context.capabilities = Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) });
    context.privileged = Some(false);
    context.proc_mount = None;
    context.run_as_non_root = Some(true);
    context.run_as_user = context.run_as_user.filter(|user| *user > 0);
    context.seccomp_profile = Some(runtime_default());
    context.se_linux_options = None;
    context.windows_options = None;
}

fn runtime_default() -> SeccompProfile {
    SeccompProfile { localhost_profile: None, type_: "RuntimeDefault".to_owned() }
}

/// Mounts what the automatic mount would, in one container only.
fn mount_token(spec: &mut PodSpec) {
    let volumes = spec.volumes.get_or_insert_default();
    volumes.retain(|volume| volume.name != TOKEN_VOLUME);
    volumes.push(token_volume());
    for container in spec.containers.iter_mut().filter(|container| container.name == CONTAINER) {
        let mounts = container.volume_mounts.get_or_insert_default();
        mounts.retain(|mount| mount.mount_path != API_TOKEN_DIRECTORY);
        mounts.push(VolumeMount {
            name: TOKEN_VOLUME.to_owned(),
            mount_path: API_TOKEN_DIRECTORY.to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        });
    }
}

fn token_volume() -> Volume {
    let token = VolumeProjection {
        service_account_token: Some(ServiceAccountTokenProjection {
            audience: None,
            // The kubelet renews it after 80 % of this.
            expiration_seconds: Some(3_600),
            path: "token".to_owned(),
        }),
        ..VolumeProjection::default()
    };
    let certificate = VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: "kube-root-ca.crt".to_owned(),
            items: Some(vec![KeyToPath {
                key: "ca.crt".to_owned(),
                path: "ca.crt".to_owned(),
                mode: None,
            }]),
            optional: None,
        }),
        ..VolumeProjection::default()
    };
    let namespace = VolumeProjection {
        downward_api: Some(DownwardAPIProjection {
            items: Some(vec![DownwardAPIVolumeFile {
                path: "namespace".to_owned(),
                field_ref: Some(ObjectFieldSelector {
                    api_version: Some("v1".to_owned()),
                    field_path: "metadata.namespace".to_owned(),
                }),
                ..DownwardAPIVolumeFile::default()
            }]),
        }),
        ..VolumeProjection::default()
    };
    Volume {
        name: TOKEN_VOLUME.to_owned(),
        projected: Some(ProjectedVolumeSource {
            default_mode: None,
            sources: Some(vec![token, certificate, namespace]),
        }),
        ..Volume::default()
    }
}
