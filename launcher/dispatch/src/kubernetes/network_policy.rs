//! Blocks jobs from the metadata services of clouds, where every pod of a node could get the node's
//! credentials.

use super::names;
use canyon_domain::to_json::to_json;
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The name of the policy, one in each namespace.
pub(super) const NAME: &str = "canyon-jobs-without-metadata";

/// Link-local: the metadata service of all three clouds, and of ECS. Azure's wire server has its
/// own address (Microsoft, "What is IP address 168.63.129.16?").
const REFUSED_V4: [&str; 2] = ["169.254.0.0/16", "168.63.129.16/32"];
/// Link-local, and the addresses of the metadata services of AWS (Amazon EC2, "Access instance metadata")
/// and Google ("About VM metadata").
const REFUSED_V6: [&str; 3] = ["fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128"];
/// The address of DNS caches on nodes (Kubernetes, "Using `NodeLocal` `DNSCache`").
const NODE_DNS: &str = "169.254.20.10/32";

/// The policy for `namespace`. It blocks only the metadata services. Other policies decide what
/// else jobs may reach; policies can only add to each other.
pub(super) fn policy(namespace: &str) -> NetworkPolicy {
    let labels = [names::MANAGED_BY, names::COMPONENT]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let metadata = ObjectMeta {
        name: Some(NAME.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some([labels[0].clone()].into()),
        ..ObjectMeta::default()
    };
    let everywhere = NetworkPolicyEgressRule {
        // Some network plugins do not match pods with IP blocks.
        to: Some(vec![
            block("0.0.0.0/0", &REFUSED_V4),
            block("::/0", &REFUSED_V6),
            NetworkPolicyPeer {
                namespace_selector: Some(LabelSelector::default()),
                ..NetworkPolicyPeer::default()
            },
        ]),
        ports: None,
    };
    let dns = NetworkPolicyEgressRule {
        to: Some(vec![block(NODE_DNS, &[])]),
        ports: Some(vec![port("UDP"), port("TCP")]),
    };
    let spec = NetworkPolicySpec {
        pod_selector: Some(LabelSelector {
            match_labels: Some(labels.into()),
            ..LabelSelector::default()
        }),
        policy_types: Some(vec!["Egress".to_owned()]),
        egress: Some(vec![everywhere, dns]),
        ingress: None,
    };
    NetworkPolicy { metadata, spec: Some(spec) }
}

/// Whether `found` has the specification of this version's policy.
pub(super) fn is_same(found: &NetworkPolicy, wanted: &NetworkPolicy) -> bool {
    let plain = |policy: &NetworkPolicy| to_json(&policy.spec);
    plain(found) == plain(wanted)
}

fn block(cidr: &str, except: &[&str]) -> NetworkPolicyPeer {
    let except =
        (!except.is_empty()).then(|| except.iter().map(|cidr| (*cidr).to_owned()).collect());
    NetworkPolicyPeer {
        ip_block: Some(IPBlock { cidr: cidr.to_owned(), except }),
        ..NetworkPolicyPeer::default()
    }
}

fn port(protocol: &str) -> NetworkPolicyPort {
    NetworkPolicyPort {
        port: Some(IntOrString::Int(53)),
        protocol: Some(protocol.to_owned()),
        end_port: None,
    }
}
