//! Judging a merged template: containers.

use super::{
    API_TOKEN_DIRECTORY, CANYON_SECRETS_DIRECTORY, RESERVED_PREFIX, WORK_DIRECTORY,
    judge::{Verdict, is_free_name},
    security,
};
use crate::field_error::shown;
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvFromSource, EnvVar, ResourceRequirements, VolumeMount,
};

/// The container that runs the module: Canyon decides what it does, the template with what.
pub(super) fn judge_runner(container: &Container, path: &str, verdict: &mut Verdict) {
    judge(container, path, verdict);
    let program = "Canyon starts its own program in `canyon-runner`";
    verdict.refuse(format!("{path}.args"), container.args.as_ref(), program);
    verdict.refuse(format!("{path}.command"), container.command.as_ref(), program);
    verdict.refuse(format!("{path}.workingDir"), container.working_dir.as_ref(), program);
    let attempts = "Canyon decides about another attempt";
    verdict.doubt(format!("{path}.restartPolicy"), container.restart_policy.as_ref(), attempts);
}

/// A container that runs before, or as a sidecar beside, `canyon-runner`.
pub(super) fn judge_init(container: &Container, path: &str, verdict: &mut Verdict) {
    judge(container, path, verdict);
    let name = "use lower case letters, digits and hyphens, and nothing like `canyon-runner`";
    verdict.require(format!("{path}.name"), is_free_name(&container.name), name);
    let policy = container.restart_policy.as_deref().is_none_or(|policy| policy == "Always");
    verdict.expect(format!("{path}.restartPolicy"), policy, "use Always, for a sidecar, or none");
}

/// What holds for each container.
pub(super) fn judge(container: &Container, path: &str, verdict: &mut Verdict) {
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
        judge_variable(variable, &format!("{path}.env[{n}]"), verdict);
    }
    for (n, source) in env_from.iter().flatten().enumerate() {
        judge_source(source, &format!("{path}.envFrom[{n}]"), verdict);
    }
    let stop = "a hook or another signal would change how the job is stopped";
    verdict.doubt(at("lifecycle"), lifecycle.as_ref(), stop);
    let probe = "a probe could have the job killed in the middle of a change";
    verdict.doubt(at("livenessProbe"), liveness_probe.as_ref(), probe);
    verdict.doubt(at("readinessProbe"), readiness_probe.as_ref(), probe);
    verdict.doubt(at("startupProbe"), startup_probe.as_ref(), probe);
    for (n, port) in ports.iter().flatten().enumerate() {
        judge_port(port, &format!("{path}.ports[{n}]"), verdict);
    }
    let restart = "Canyon decides about another attempt";
    verdict.doubt(at("resizePolicy"), resize_policy.as_ref(), restart);
    verdict.doubt(at("restartPolicyRules"), restart_policy_rules.as_ref(), restart);
    if let Some(resources) = resources {
        judge_resources(resources, &at("resources"), verdict);
    }
    if let Some(context) = security_context {
        security::judge_container(context, &at("securityContext"), verdict);
    }
    let nobody = "nobody is there to type";
    verdict.expect(at("stdin"), *stdin != Some(true), nobody);
    verdict.expect(at("stdinOnce"), *stdin_once != Some(true), nobody);
    verdict.expect(at("tty"), *tty != Some(true), nobody);
    let message = "it could copy output, with secrets in it, to the pod's status";
    verdict.refuse(at("terminationMessagePath"), termination_message_path.as_ref(), message);
    verdict.refuse(at("terminationMessagePolicy"), termination_message_policy.as_ref(), message);
    verdict.refuse(at("volumeDevices"), volume_devices.as_ref(), "the job needs no block device");
    for (n, mount) in volume_mounts.iter().flatten().enumerate() {
        judge_mount(mount, &format!("{path}.volumeMounts[{n}]"), verdict);
    }
}

fn judge_variable(variable: &EnvVar, path: &str, verdict: &mut Verdict) {
    // Where the value comes from is the business of the service account's rights.
    let EnvVar { name, value: _, value_from: _ } = variable;
    let ours = name.to_ascii_uppercase().starts_with("CANYON_");
    let reason = format!("`{}` is Canyon's own; choose another name", shown(name));
    verdict.require(format!("{path}.name"), !ours, &reason);
}

/// The keys of a Secret or `ConfigMap` are not known here. `canyon-runner` takes none of its own settings from them:
/// Kubernetes lets `env` win, where Canyon sets each.
fn judge_source(source: &EnvFromSource, path: &str, verdict: &mut Verdict) {
    let EnvFromSource { config_map_ref: _, prefix, secret_ref: _ } = source;
    let prefix = prefix.as_deref().unwrap_or_default().to_ascii_uppercase();
    let ours =
        !prefix.is_empty() && (prefix.starts_with("CANYON_") || "CANYON_".starts_with(&prefix));
    let reason = "names that begin with `CANYON_` are Canyon's own; choose another prefix";
    verdict.require(format!("{path}.prefix"), !ours, reason);
}

fn judge_port(port: &ContainerPort, path: &str, verdict: &mut Verdict) {
    let ContainerPort { container_port: _, host_ip, host_port, name: _, protocol: _ } = port;
    let node = "the job must not open ports of its node";
    verdict.refuse(format!("{path}.hostIP"), host_ip.as_ref(), node);
    verdict.refuse(format!("{path}.hostPort"), host_port.as_ref(), node);
}

pub(super) fn judge_resources(resources: &ResourceRequirements, path: &str, verdict: &mut Verdict) {
    let ResourceRequirements { claims, limits: _, requests: _ } = resources;
    let devices = "the job has no use for devices of the node";
    verdict.refuse(format!("{path}.claims"), claims.as_ref(), devices);
}

fn judge_mount(mount: &VolumeMount, path: &str, verdict: &mut Verdict) {
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
    // The template names no such volume: Canyon adds them after it was judged, with what its runner and the API trust.
    let ours = name.starts_with(RESERVED_PREFIX);
    verdict.require(
        at("name"),
        !ours,
        "volumes `canyon-…` are Canyon's own; mount one of the template's",
    );
    let reserved = "use an absolute path that is not part of the system, of the API token's or of Canyon's (/canyon)";
    verdict.require(at("mountPath"), is_free_mount(mount_path), reserved);
    let none = mount_propagation.as_deref().is_none_or(|mode| mode == "None");
    verdict.require(at("mountPropagation"), none, "mounts must not spread to or from the node");
    for (name, sub_path) in [("subPath", sub_path), ("subPathExpr", sub_path_expr)] {
        let inside = sub_path
            .iter()
            .all(|path| !path.starts_with('/') && path.split('/').all(|part| part != ".."));
        verdict.require(at(name), inside, "it must stay inside the volume");
    }
}

/// Absolute, without `.` or `..`, and neither at nor above nor below a reserved directory.
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
