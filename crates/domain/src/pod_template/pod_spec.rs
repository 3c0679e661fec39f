//! Validation of a merged template: the pod.

use super::known_fields::{self, Read};
use super::{CONTAINER, RESERVED_PREFIX, containers, metadata, security, volumes};
use crate::{dns_label::is_dns_label, field_error::FieldErrors};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use serde_json::Value;

/// The faults and warnings found so far.
pub(super) struct Findings {
    pub(super) errors: FieldErrors,
}

impl Findings {
    /// Refuses the field at `path` if it is set.
    pub(super) fn reject_if_set<T>(&mut self, path: String, field: Option<&T>, reason: &str) {
        if field.is_some() {
            self.errors.add(path, format!("is refused: {reason}"));
        }
    }

    /// Refuses the field at `path` unless `fits`.
    pub(super) fn reject_unless(&mut self, path: String, fits: bool, reason: &str) {
        if !fits {
            self.errors.add(path, format!("is refused: {reason}"));
        }
    }

    /// Adds a warning for the field at `path` if it is set: no job starts with it.
    pub(super) fn warn_if_set<T>(&mut self, path: String, field: Option<&T>, reason: &str) {
        self.warn_unless(path, field.is_none(), reason);
    }

    /// Adds a warning for the field at `path` unless `works`: no job starts with it.
    pub(super) fn warn_unless(&mut self, path: String, works: bool, reason: &str) {
        if !works {
            self.errors.warn(path, format!("cannot be used: {reason}"));
        }
    }
}

/// Reads `merged` and validates every field of it against the allow list.
///
/// The structs are destructured without `..`: a new field in a new version of Kubernetes does not compile
/// here until a developer has decided about it.
///
/// # Errors
/// Every field that is unknown, refused or unusable, with the reason.
pub fn validate(merged: &Value, service_account: &str) -> Result<PodTemplateSpec, FieldErrors> {
    let (template, found) = inspect(merged, service_account);
    found.into_faults().into_result(template)
}

/// The template, as far as it can be read, with the faults and warnings. A value that cannot be read is only a warning,
/// because it does not start; all other values are validated beside it.
pub(super) fn inspect(merged: &Value, service_account: &str) -> (PodTemplateSpec, FieldErrors) {
    let Read { template, doubts, unread } = match known_fields::read(merged) {
        Ok(read) => read,
        Err(faults) => return (PodTemplateSpec::default(), faults),
    };
    let PodTemplateSpec { metadata, spec } = &template;
    let mut findings = Findings { errors: doubts };
    if let Some(metadata) = metadata {
        metadata::validate(metadata, &mut findings);
    }
    match spec {
        Some(spec) => validate_spec(spec, service_account, &mut findings),
        None => findings.errors.warn("spec", "is required"),
    }
    // The validation took these for missing; each has its warning.
    (template, findings.errors.without_faults_at(&unread))
}

#[expect(
    clippy::too_many_lines,
    reason = "one entry per field of PodSpec; a split would hide gaps"
)]
fn validate_spec(spec: &PodSpec, runner_account: &str, findings: &mut Findings) {
    let PodSpec {
        active_deadline_seconds,
        affinity: _,
        automount_service_account_token,
        containers,
        dns_config: _,
        dns_policy,
        enable_service_links: _,
        ephemeral_containers,
        host_aliases: _,
        host_ipc,
        host_network,
        host_pid,
        host_users,
        hostname,
        hostname_override,
        image_pull_secrets: _,
        init_containers,
        node_name,
        node_selector: _,
        os,
        overhead,
        preemption_policy: _,
        priority,
        priority_class_name,
        readiness_gates,
        resource_claims,
        resources,
        restart_policy,
        runtime_class_name: _,
        scheduler_name: _,
        scheduling_gates,
        security_context,
        service_account,
        service_account_name,
        set_hostname_as_fqdn,
        share_process_namespace,
        subdomain,
        termination_grace_period_seconds,
        tolerations: _,
        topology_spread_constraints: _,
        volumes,
    } = spec;
    let at = |name: &str| format!("spec.{name}");
    let not = |flag: &Option<bool>| *flag != Some(true);

    let deadline = "Canyon sets it from `job.timeouts.run_seconds`";
    findings.warn_if_set(at("activeDeadlineSeconds"), active_deadline_seconds.as_ref(), deadline);
    let token = "Canyon mounts the API token itself where the state storage needs it";
    findings.reject_unless(
        at("automountServiceAccountToken"),
        not(automount_service_account_token),
        token,
    );
    let dns = matches!(dns_policy.as_deref(), None | Some("ClusterFirst" | "Default" | "None"));
    findings.warn_unless(at("dnsPolicy"), dns, "use ClusterFirst, Default or None");
    findings.warn_if_set(
        at("ephemeralContainers"),
        ephemeral_containers.as_ref(),
        "a job has none",
    );
    let host = "the job must not share namespaces with its node";
    findings.reject_unless(at("hostIPC"), not(host_ipc), host);
    findings.reject_unless(at("hostNetwork"), not(host_network), host);
    findings.reject_unless(at("hostPID"), not(host_pid), host);
    findings.reject_unless(at("hostUsers"), not(host_users), host);
    let name = "Canyon names the pod";
    findings.warn_if_set(at("hostname"), hostname.as_ref(), name);
    findings.warn_if_set(at("hostnameOverride"), hostname_override.as_ref(), name);
    findings.warn_if_set(at("setHostnameAsFQDN"), set_hostname_as_fqdn.as_ref(), name);
    findings.warn_if_set(at("subdomain"), subdomain.as_ref(), name);
    let node = "it bypasses the scheduler; use `nodeSelector` or `affinity`";
    findings.reject_if_set(at("nodeName"), node_name.as_ref(), node);
    let linux = os.as_ref().is_none_or(|os| os.name == "linux");
    findings.warn_unless(at("os"), linux, "the runner is a Linux program");
    findings.warn_if_set(at("overhead"), overhead.as_ref(), "the runtime class sets it");
    findings.warn_if_set(at("priority"), priority.as_ref(), "use `priorityClassName`");
    let system = priority_class_name.as_ref().is_some_and(|class| class.starts_with("system-"));
    findings.reject_unless(at("priorityClassName"), !system, "it is for the cluster's own pods");
    let stuck = "the pod would wait for a condition that Canyon does not know";
    findings.warn_if_set(at("readinessGates"), readiness_gates.as_ref(), stuck);
    findings.warn_if_set(at("schedulingGates"), scheduling_gates.as_ref(), stuck);
    let devices = "the job must not use devices of the node";
    findings.reject_if_set(at("resourceClaims"), resource_claims.as_ref(), devices);
    if let Some(resources) = resources {
        containers::validate_resources(resources, "spec.resources", findings);
    }
    let never = restart_policy.as_deref().is_none_or(|policy| policy == "Never");
    findings.warn_unless(
        at("restartPolicy"),
        never,
        "Canyon decides about another attempt; use Never",
    );
    if let Some(context) = security_context {
        security::validate_pod(context, "spec.securityContext", findings);
    }
    let ours = |name: &Option<String>| name.as_deref().is_none_or(|name| name == runner_account);
    let account = "the job runs as the `service_account` of `job`";
    findings.reject_unless(at("serviceAccount"), ours(service_account), account);
    findings.reject_unless(at("serviceAccountName"), ours(service_account_name), account);
    findings.reject_unless(
        at("shareProcessNamespace"),
        not(share_process_namespace),
        "it shows one container's secrets to another",
    );
    // 0 kills at once, before the state of just created resources is saved.
    let grace = termination_grace_period_seconds.is_none_or(|grace| (5..=600).contains(&grace));
    findings.warn_unless(at("terminationGracePeriodSeconds"), grace, "use 5 to 600 seconds");

    let named: Vec<_> = containers.iter().filter(|container| container.name == CONTAINER).collect();
    findings.warn_unless(at("containers"), named.len() == 1, "there must be one `canyon-runner`");
    for (n, container) in containers.iter().enumerate() {
        let path = format!("spec.containers[{n}]");
        if container.name == CONTAINER {
            containers::validate_runner(container, &path, findings);
        } else {
            let more = "`canyon-runner` is the only container; use `initContainers`, with `restartPolicy: Always` for a sidecar";
            findings.warn_unless(format!("{path}.name"), false, more);
            containers::validate(container, &path, findings);
        }
    }
    for (n, container) in init_containers.iter().flatten().enumerate() {
        containers::validate_init(container, &format!("spec.initContainers[{n}]"), findings);
    }
    for (n, volume) in volumes.iter().flatten().enumerate() {
        volumes::validate(volume, &format!("spec.volumes[{n}]"), findings);
    }
}

/// Whether a template may give `name` to a container or volume: a DNS label that is not reserved and does not
/// resemble a reserved name (`cany0n-runner`).
pub(super) fn is_free_name(name: &str) -> bool {
    let folded = name.replace('-', "").replace('0', "o").replace('1', "l");
    is_dns_label(name)
        && !name.starts_with(RESERVED_PREFIX)
        && !folded.contains("canyonrunner")
        && name != super::CONTAINER_ALIAS
}
