//! Judging a merged template: the pod.

use super::known_fields::{self, Read};
use super::{CONTAINER, RESERVED_PREFIX, containers, metadata, security, volumes};
use crate::{field_error::FieldErrors, runner::patterns::is_dns_label};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use serde_json::Value;

/// The faults found so far, and the fault that most fields share.
pub(super) struct Verdict {
    pub(super) errors: FieldErrors,
}

impl Verdict {
    /// Refuses the field at `path` if it is there at all.
    pub(super) fn refuse<T>(&mut self, path: String, field: Option<&T>, reason: &str) {
        if field.is_some() {
            self.errors.add(path, format!("is refused: {reason}"));
        }
    }

    /// Refuses the field at `path` unless `fits`.
    pub(super) fn require(&mut self, path: String, fits: bool, reason: &str) {
        if !fits {
            self.errors.add(path, format!("is refused: {reason}"));
        }
    }

    /// Warns of the field at `path` if it is there at all: no job starts with it.
    pub(super) fn doubt<T>(&mut self, path: String, field: Option<&T>, reason: &str) {
        self.expect(path, field.is_none(), reason);
    }

    /// Warns of the field at `path` unless `works`: no job starts with it.
    pub(super) fn expect(&mut self, path: String, works: bool, reason: &str) {
        if !works {
            self.errors.warn(path, format!("cannot be used: {reason}"));
        }
    }
}

/// Reads `merged` and judges every field of it against what is allowed.
///
/// The structs are taken apart without `..`: a new version of Kubernetes with a new field fails to
/// compile here until someone has judged the field.
///
/// # Errors
/// Every field that is unknown or refused, or cannot be used, with the reason.
pub fn judge(merged: &Value, service_account: &str) -> Result<PodTemplateSpec, FieldErrors> {
    let (template, found) = look(merged, service_account);
    found.strictly().into_result(template)
}

/// The template, as far as it can be read, and what is to be said of it. A value that cannot be read is no danger itself, for
/// it does not start, and all others are judged beside it.
pub(super) fn look(merged: &Value, service_account: &str) -> (PodTemplateSpec, FieldErrors) {
    let Read { template, doubts, unread } = match known_fields::read(merged) {
        Ok(read) => read,
        Err(faults) => return (PodTemplateSpec::default(), faults),
    };
    let PodTemplateSpec { metadata, spec } = &template;
    let mut verdict = Verdict { errors: doubts };
    if let Some(metadata) = metadata {
        metadata::judge(metadata, &mut verdict);
    }
    match spec {
        Some(spec) => judge_spec(spec, service_account, &mut verdict),
        None => verdict.errors.warn("spec", "is required"),
    }
    // The judge took these for missing; each has its warning.
    (template, verdict.errors.without_faults_at(&unread))
}

#[expect(
    clippy::too_many_lines,
    reason = "one entry per field of PodSpec; a split would hide gaps"
)]
fn judge_spec(spec: &PodSpec, runner_account: &str, verdict: &mut Verdict) {
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
    verdict.doubt(at("activeDeadlineSeconds"), active_deadline_seconds.as_ref(), deadline);
    let token = "Canyon mounts the API token itself where the state storage needs it";
    verdict.require(
        at("automountServiceAccountToken"),
        not(automount_service_account_token),
        token,
    );
    let dns = matches!(dns_policy.as_deref(), None | Some("ClusterFirst" | "Default" | "None"));
    verdict.expect(at("dnsPolicy"), dns, "use ClusterFirst, Default or None");
    verdict.doubt(at("ephemeralContainers"), ephemeral_containers.as_ref(), "a job has none");
    let host = "the job must not share namespaces with its node";
    verdict.require(at("hostIPC"), not(host_ipc), host);
    verdict.require(at("hostNetwork"), not(host_network), host);
    verdict.require(at("hostPID"), not(host_pid), host);
    verdict.require(at("hostUsers"), not(host_users), host);
    let name = "Canyon names the pod";
    verdict.doubt(at("hostname"), hostname.as_ref(), name);
    verdict.doubt(at("hostnameOverride"), hostname_override.as_ref(), name);
    verdict.doubt(at("setHostnameAsFQDN"), set_hostname_as_fqdn.as_ref(), name);
    verdict.doubt(at("subdomain"), subdomain.as_ref(), name);
    let node = "it goes around the scheduler; use `nodeSelector` or `affinity`";
    verdict.refuse(at("nodeName"), node_name.as_ref(), node);
    let linux = os.as_ref().is_none_or(|os| os.name == "linux");
    verdict.expect(at("os"), linux, "the runner is a Linux program");
    verdict.doubt(at("overhead"), overhead.as_ref(), "the runtime class sets it");
    verdict.doubt(at("priority"), priority.as_ref(), "use `priorityClassName`");
    let system = priority_class_name.as_ref().is_some_and(|class| class.starts_with("system-"));
    verdict.require(at("priorityClassName"), !system, "it is for the cluster's own pods");
    let stuck = "the pod would wait for something that Canyon does not know of";
    verdict.doubt(at("readinessGates"), readiness_gates.as_ref(), stuck);
    verdict.doubt(at("schedulingGates"), scheduling_gates.as_ref(), stuck);
    let devices = "the job has no use for devices of the node";
    verdict.refuse(at("resourceClaims"), resource_claims.as_ref(), devices);
    if let Some(resources) = resources {
        containers::judge_resources(resources, "spec.resources", verdict);
    }
    let never = restart_policy.as_deref().is_none_or(|policy| policy == "Never");
    verdict.expect(at("restartPolicy"), never, "Canyon decides about another attempt; use Never");
    if let Some(context) = security_context {
        security::judge_pod(context, "spec.securityContext", verdict);
    }
    let ours = |name: &Option<String>| name.as_deref().is_none_or(|name| name == runner_account);
    let account = "the job runs as the `service_account` of `job`";
    verdict.require(at("serviceAccount"), ours(service_account), account);
    verdict.require(at("serviceAccountName"), ours(service_account_name), account);
    verdict.require(
        at("shareProcessNamespace"),
        not(share_process_namespace),
        "it shows one container's secrets to another",
    );
    // 0 kills at once, and the state of what was just made with it.
    let grace = termination_grace_period_seconds.is_none_or(|grace| (5..=600).contains(&grace));
    verdict.expect(at("terminationGracePeriodSeconds"), grace, "use 5 to 600 seconds");

    let named: Vec<_> = containers.iter().filter(|container| container.name == CONTAINER).collect();
    verdict.expect(at("containers"), named.len() == 1, "there must be one `canyon-runner`");
    for (n, container) in containers.iter().enumerate() {
        let path = format!("spec.containers[{n}]");
        if container.name == CONTAINER {
            containers::judge_runner(container, &path, verdict);
        } else {
            let more = "`canyon-runner` is the only container; use `initContainers`, with `restartPolicy: Always` for a sidecar";
            verdict.expect(format!("{path}.name"), false, more);
            containers::judge(container, &path, verdict);
        }
    }
    for (n, container) in init_containers.iter().flatten().enumerate() {
        containers::judge_init(container, &format!("spec.initContainers[{n}]"), verdict);
    }
    for (n, volume) in volumes.iter().flatten().enumerate() {
        volumes::judge(volume, &format!("spec.volumes[{n}]"), verdict);
    }
}

/// Whether a template may give `name` to a container or volume: a DNS label, not one of Canyon's,
/// and not one that reads like it (`cany0n-runner`).
pub(super) fn is_free_name(name: &str) -> bool {
    let folded = name.replace('-', "").replace('0', "o").replace('1', "l");
    is_dns_label(name)
        && !name.starts_with(RESERVED_PREFIX)
        && !folded.contains("canyonrunner")
        && name != super::CONTAINER_ALIAS
}
