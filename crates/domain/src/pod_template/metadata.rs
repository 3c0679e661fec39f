//! Validation of a merged template: labels and annotations.

use super::pod_spec::Findings;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Domains of Kubernetes whose labels and annotations do not affect the pod's permissions.
const HARMLESS: [&str; 3] =
    ["app.kubernetes.io", "cluster-autoscaler.kubernetes.io", "kubectl.kubernetes.io"];

pub(super) fn validate(metadata: &ObjectMeta, findings: &mut Findings) {
    let ObjectMeta {
        annotations,
        creation_timestamp,
        deletion_grace_period_seconds,
        deletion_timestamp,
        finalizers,
        generate_name,
        generation,
        labels,
        managed_fields,
        name,
        namespace,
        owner_references,
        resource_version,
        self_link,
        uid,
    } = metadata;
    let at = |name: &str| format!("metadata.{name}");
    let server = "the API server sets it";
    findings.warn_if_set(at("creationTimestamp"), creation_timestamp.as_ref(), server);
    findings.warn_if_set(
        at("deletionGracePeriodSeconds"),
        deletion_grace_period_seconds.as_ref(),
        server,
    );
    findings.warn_if_set(at("deletionTimestamp"), deletion_timestamp.as_ref(), server);
    findings.warn_if_set(at("generation"), generation.as_ref(), server);
    findings.warn_if_set(at("managedFields"), managed_fields.as_ref(), server);
    findings.warn_if_set(at("resourceVersion"), resource_version.as_ref(), server);
    findings.warn_if_set(at("selfLink"), self_link.as_ref(), server);
    findings.warn_if_set(at("uid"), uid.as_ref(), server);
    let canyon = "Canyon sets it; a template has only `labels` and `annotations`";
    findings.warn_if_set(at("finalizers"), finalizers.as_ref(), canyon);
    findings.warn_if_set(at("generateName"), generate_name.as_ref(), canyon);
    findings.warn_if_set(at("name"), name.as_ref(), canyon);
    findings.warn_if_set(at("namespace"), namespace.as_ref(), canyon);
    findings.warn_if_set(at("ownerReferences"), owner_references.as_ref(), canyon);
    for (field, map) in [("labels", labels), ("annotations", annotations)] {
        for (key, value) in map.iter().flatten() {
            if let Some(reason) = refusal(key, value) {
                findings.reject_unless(
                    format!("metadata.{field}.{}", key.escape_debug()),
                    false,
                    reason,
                );
            }
        }
    }
}

/// Domains whose annotations give a pod another identity (kube2iam, kiam), devices of the node (NRI plugins), or another
/// sandbox (gVisor), on clusters that have these installed.
const ADDED_RIGHTS: [&str; 3] = ["iam.amazonaws.com", "nri.io", "gvisor.dev"];

/// Domains of what changes pods at their creation, on clusters that have it installed: it puts containers of chosen images
/// and volumes of the node into them (Istio's injector, Linkerd, Vault's and Consul's agents, Dapr, Kuma, Datadog, Bank-Vaults),
/// or connects them to other networks, past the cluster's network policies (Multus and other plugins).
const INJECTORS: [&str; 9] = [
    "istio.io",
    "linkerd.io",
    "hashicorp.com",
    "dapr.io",
    "kuma.io",
    "admission.datadoghq.com",
    "vault.security.banzaicloud.io",
    "cni.cncf.io",
    "multus-cni.io",
];

/// What only keeps an injector from the pod: a job with a service mesh's sidecar does not end.
const WITHOUT_INJECTION: [(&str, &str); 9] = [
    ("sidecar.istio.io/inject", "false"),
    ("linkerd.io/inject", "disabled"),
    ("vault.hashicorp.com/agent-inject", "false"),
    ("consul.hashicorp.com/connect-inject", "false"),
    ("dapr.io/enabled", "false"),
    ("kuma.io/sidecar-injection", "disabled"),
    ("kuma.io/sidecar-injection", "false"),
    ("istio.io/dataplane-mode", "none"),
    ("admission.datadoghq.com/enabled", "false"),
];

/// Annotations disable `AppArmor` and seccomp on older clusters, and configure `CRI-O`, containerd and Kata.
/// Those use the domains below, or a reversed one.
fn refusal(key: &str, value: &str) -> Option<&'static str> {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let of = |parent: &str| domain == parent || domain.ends_with(&format!(".{parent}"));
    if domain.split('.').any(|part| part == "canyon") || key.starts_with("canyon") {
        Some("Canyon sets its own")
    } else if key == "controller-uid" || key == "job-name" {
        Some("the Job sets it")
    } else if key.starts_with("io.") {
        Some("it changes how the container runtime isolates the pod")
    } else if ADDED_RIGHTS.into_iter().any(of) || key.starts_with("dev.gvisor.") {
        Some("it gives the pod rights that the runner's own fields must give")
    } else if WITHOUT_INJECTION.contains(&(key, value)) {
        None
    } else if INJECTORS.into_iter().any(of) || key.starts_with("azure.workload.identity/inject-") {
        Some("it lets an add-on of the cluster put containers, volumes or networks into the pod")
    } else if (of("kubernetes.io") || of("k8s.io")) && !HARMLESS.contains(&domain) {
        Some(
            "of the domains of Kubernetes, only app.kubernetes.io, cluster-autoscaler.kubernetes.io and kubectl.kubernetes.io are allowed",
        )
    } else {
        None
    }
}
