//! Validation of a merged template: containers.

use super::{
    API_TOKEN_DIRECTORY, CANYON_SECRETS_DIRECTORY, GIT_DIRECTORY, RESERVED_PREFIX, WORK_DIRECTORY,
    pod_spec::{Findings, is_free_name},
    security,
};
use crate::field_error::shown;
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvFromSource, EnvVar, ResourceRequirements, VolumeMount,
};

/// Validates the container that runs the module: Canyon sets its command, the template its environment.
pub(super) fn validate_runner(container: &Container, path: &str, findings: &mut Findings) {
    validate(container, path, findings);
    let program = "Canyon starts its own program in `canyon-runner`";
    findings.reject_if_set(format!("{path}.args"), container.args.as_ref(), program);
    findings.reject_if_set(format!("{path}.command"), container.command.as_ref(), program);
    findings.reject_if_set(format!("{path}.workingDir"), container.working_dir.as_ref(), program);
    let attempts = "Canyon decides about another attempt";
    findings.warn_if_set(
        format!("{path}.restartPolicy"),
        container.restart_policy.as_ref(),
        attempts,
    );
}

/// Validates a container that runs before `canyon-runner`, or beside it as a sidecar.
pub(super) fn validate_init(container: &Container, path: &str, findings: &mut Findings) {
    validate(container, path, findings);
    let name = "use lower case letters, digits and hyphens, and nothing like `canyon-runner`";
    findings.reject_unless(format!("{path}.name"), is_free_name(&container.name), name);
    let policy = container.restart_policy.as_deref().is_none_or(|policy| policy == "Always");
    findings.warn_unless(
        format!("{path}.restartPolicy"),
        policy,
        "use Always, for a sidecar, or none",
    );
}

/// Validates the fields that all containers share.
pub(super) fn validate(container: &Container, path: &str, findings: &mut Findings) {
    let Container {
        args: _,
        command: _,
        env,
        env_from,
        image: _,
        image_pull_policy: _,
        lifecycle,
        liveness_probe,
        name: _,
        ports,
        readiness_probe,
        resize_policy,
        resources,
        restart_policy: _,
        restart_policy_rules,
        security_context,
        startup_probe,
        stdin,
        stdin_once,
        termination_message_path,
        termination_message_policy,
        tty,
        volume_devices,
        volume_mounts,
        working_dir: _,
    } = container;
    let at = |name: &str| format!("{path}.{name}");

    for (n, variable) in env.iter().flatten().enumerate() {
        validate_variable(variable, &format!("{path}.env[{n}]"), findings);
    }
    for (n, source) in env_from.iter().flatten().enumerate() {
        validate_source(source, &format!("{path}.envFrom[{n}]"), findings);
    }
    let stop = "a hook or another signal would change how the job is stopped";
    findings.warn_if_set(at("lifecycle"), lifecycle.as_ref(), stop);
    let probe = "a probe could kill the job in the middle of a change";
    findings.warn_if_set(at("livenessProbe"), liveness_probe.as_ref(), probe);
    findings.warn_if_set(at("readinessProbe"), readiness_probe.as_ref(), probe);
    findings.warn_if_set(at("startupProbe"), startup_probe.as_ref(), probe);
    for (n, port) in ports.iter().flatten().enumerate() {
        validate_port(port, &format!("{path}.ports[{n}]"), findings);
    }
    let restart = "Canyon decides about another attempt";
    findings.warn_if_set(at("resizePolicy"), resize_policy.as_ref(), restart);
    findings.warn_if_set(at("restartPolicyRules"), restart_policy_rules.as_ref(), restart);
    if let Some(resources) = resources {
        validate_resources(resources, &at("resources"), findings);
    }
    if let Some(context) = security_context {
        security::validate_container(context, &at("securityContext"), findings);
    }
    let no_input = "a job has no interactive input";
    findings.warn_unless(at("stdin"), *stdin != Some(true), no_input);
    findings.warn_unless(at("stdinOnce"), *stdin_once != Some(true), no_input);
    findings.warn_unless(at("tty"), *tty != Some(true), no_input);
    let message = "it could copy output, with secrets in it, to the pod's status";
    findings.reject_if_set(
        at("terminationMessagePath"),
        termination_message_path.as_ref(),
        message,
    );
    findings.reject_if_set(
        at("terminationMessagePolicy"),
        termination_message_policy.as_ref(),
        message,
    );
    findings.reject_if_set(
        at("volumeDevices"),
        volume_devices.as_ref(),
        "the job needs no block device",
    );
    for (n, mount) in volume_mounts.iter().flatten().enumerate() {
        validate_mount(mount, &format!("{path}.volumeMounts[{n}]"), findings);
    }
}

fn validate_variable(variable: &EnvVar, path: &str, findings: &mut Findings) {
    // The service account's permissions limit where the value may come from.
    let EnvVar { name, value: _, value_from: _ } = variable;
    let ours = name.to_ascii_uppercase().starts_with("CANYON_");
    let reason = format!("`{}` is reserved for Canyon; choose another name", shown(name));
    findings.reject_unless(format!("{path}.name"), !ours, &reason);
}

/// The keys of a Secret or `ConfigMap` are not known here. `canyon-runner` takes none of its own settings
/// from them: in Kubernetes `env` has precedence, and Canyon sets each there.
fn validate_source(source: &EnvFromSource, path: &str, findings: &mut Findings) {
    let EnvFromSource { config_map_ref: _, prefix, secret_ref: _ } = source;
    let prefix = prefix.as_deref().unwrap_or_default().to_ascii_uppercase();
    let ours =
        !prefix.is_empty() && (prefix.starts_with("CANYON_") || "CANYON_".starts_with(&prefix));
    let reason = "names that begin with `CANYON_` are reserved for Canyon; choose another prefix";
    findings.reject_unless(format!("{path}.prefix"), !ours, reason);
}

fn validate_port(port: &ContainerPort, path: &str, findings: &mut Findings) {
    let ContainerPort { container_port: _, host_ip, host_port, name: _, protocol: _ } = port;
    let node = "the job must not open ports of its node";
    findings.reject_if_set(format!("{path}.hostIP"), host_ip.as_ref(), node);
    findings.reject_if_set(format!("{path}.hostPort"), host_port.as_ref(), node);
}

pub(super) fn validate_resources(
    resources: &ResourceRequirements,
    path: &str,
    findings: &mut Findings,
) {
    let ResourceRequirements { claims, limits: _, requests: _ } = resources;
    let devices = "the job must not use devices of the node";
    findings.reject_if_set(format!("{path}.claims"), claims.as_ref(), devices);
}

fn validate_mount(mount: &VolumeMount, path: &str, findings: &mut Findings) {
    let VolumeMount {
        mount_path,
        mount_propagation,
        name,
        read_only: _,
        recursive_read_only: _,
        sub_path,
        sub_path_expr,
    } = mount;
    let at = |name: &str| format!("{path}.{name}");
    // Canyon adds such volumes after the validation, with content that its runner and the API trust.
    let ours = name.starts_with(RESERVED_PREFIX);
    findings.reject_unless(
        at("name"),
        !ours,
        "volumes `canyon-…` are reserved for Canyon; mount one of the template's",
    );
    let reserved = "use an absolute path outside of the system's directories, the API token's and Canyon's (/canyon)";
    findings.reject_unless(at("mountPath"), is_free_mount(mount_path), reserved);
    let none = mount_propagation.as_deref().is_none_or(|mode| mode == "None");
    findings.reject_unless(
        at("mountPropagation"),
        none,
        "mounts must not propagate to or from the node",
    );
    for (name, sub_path) in [("subPath", sub_path), ("subPathExpr", sub_path_expr)] {
        let inside = sub_path
            .iter()
            .all(|path| !path.starts_with('/') && path.split('/').all(|part| part != ".."));
        findings.reject_unless(at(name), inside, "it must stay inside the volume");
    }
}

/// Whether the path is absolute, without `.` or `..`, and neither equal to, nor above, nor below a reserved
/// directory.
fn is_free_mount(path: &str) -> bool {
    let reserved = [
        "/proc",
        "/sys",
        "/dev",
        API_TOKEN_DIRECTORY,
        "/run/secrets/kubernetes.io",
        CANYON_SECRETS_DIRECTORY,
        "/run/secrets/canyon",
        WORK_DIRECTORY,
        GIT_DIRECTORY,
    ];
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let overlaps = |directory: &&str| {
        directory.split('/').filter(|part| !part.is_empty()).zip(&parts).all(|(a, b)| a == *b)
    };
    path.starts_with('/')
        && !parts.is_empty()
        && !parts.iter().any(|part| *part == "." || *part == "..")
        && !reserved.iter().any(overlaps)
}
