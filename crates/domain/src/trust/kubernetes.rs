//! Kubernetes: a namespace for jobs, what they run as, and what the launcher may do there.

use super::{Document, Party, SERVER_CLAIM};
use crate::runner::kubernetes::{Kubernetes, KubernetesAuthKind, KubernetesJob};
use crate::state_storage::StateStorage;
use std::fmt::Write as _;

/// A rule of a Role: what may be done with which resources of an API group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The resource, with its subresource.
    pub resource: &'static str,
    /// What may be done.
    pub verbs: &'static [&'static str],
}

/// What the launcher does in the namespace of the jobs: it makes, finds, suspends and deletes Jobs,
/// finds and ends their pods, and reads what they have written. It cannot read a Secret, run a
/// command in a pod, or make a pod of its own.
pub const LAUNCHER: [Rule; 4] = [
    Rule { group: "batch", resource: "jobs", verbs: &["create", "get", "list", "patch", "delete"] },
    Rule { group: "", resource: "pods", verbs: &["list", "delete"] },
    Rule { group: "", resource: "pods/log", verbs: &["get"] },
    // Only for the reason why a pod cannot be made.
    Rule { group: "", resource: "events", verbs: &["list"] },
];

/// The same where jobs are kept from the node's metadata addresses.
pub const NETWORK_POLICIES: Rule = Rule {
    group: "networking.k8s.io",
    resource: "networkpolicies",
    verbs: &["create", "get", "patch"],
};

/// What OpenTofu's state storage `kubernetes` does, as the job's service account.
pub const STATE: [Rule; 2] = [
    Rule { group: "", resource: "secrets", verbs: &["create", "get", "list", "update", "delete"] },
    Rule {
        group: "coordination.k8s.io",
        resource: "leases",
        verbs: &["create", "get", "update", "delete"],
    },
];

/// How the names of those begin whom an API server knows by Canyon's issuer: they can be mistaken for
/// nobody else.
pub const USER_PREFIX: &str = "canyon:";

/// As whom the launcher comes to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// A user.
    Named(String),
    /// A group.
    Group(String),
    /// A user whose name Canyon cannot know.
    Placeholder {
        /// What stands for it.
        name: String,
        /// How to find it.
        how: String,
    },
}

pub(super) fn documents(
    party: &Party,
    runner: &Kubernetes,
    storage: &StateStorage,
) -> Vec<Document> {
    let auth = &runner.cluster.auth;
    let mut documents = Vec::new();
    let user = match (auth.kind(), &auth.oidc) {
        (KubernetesAuthKind::Oidc, Some(oidc)) => {
            let server = &runner.cluster.cluster_data.server;
            documents.push(authentication(party, &oidc.audience, server));
            User::Named(format!("{USER_PREFIX}{}", party.subject))
        }
        (KubernetesAuthKind::ClientCertificate, _) => User::Placeholder {
            name: "COMMON_NAME_OF_THE_CERTIFICATE".to_owned(),
            how: "openssl x509 -in client.crt -noout -subject".to_owned(),
        },
        (KubernetesAuthKind::ServiceAccountToken | KubernetesAuthKind::Oidc, _) => {
            User::Placeholder {
                name: "system:serviceaccount:NAMESPACE:NAME".to_owned(),
                how: "the service account that the stored token is of".to_owned(),
            }
        }
    };
    documents.extend(cluster_documents(&runner.job, storage, &user));
    documents
}

/// The API server trusts the issuer, for runners of this organization and not for what jobs may ask to
/// be signed. The subject alone is the name, so that no other claim of a token can give a right. A token that another
/// server was shown names that one, and is good for nothing here.
fn authentication(party: &Party, audience: &str, server: &str) -> Document {
    let Party { issuer, org, .. } = party;
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\n\
         kind: AuthenticationConfiguration\n\
         jwt:\n\
         \x20 - issuer:\n\
         \x20     url: \"{issuer}\"\n\
         \x20     audiences: [\"{audience}\"]\n\
         \x20   claimMappings:\n\
         \x20     username:\n\
         \x20       claim: sub\n\
         \x20       prefix: \"{USER_PREFIX}\"\n\
         \x20   claimValidationRules:\n\
         \x20     - expression: \"claims.sub.startsWith('org:{org}:runner:')\"\n\
         \x20       message: only runners of this organization\n\
         \x20     - expression: \"claims.{SERVER_CLAIM} in ['{server}']\"\n\
         \x20       message: only tokens for this server, by each address that runners name it by\n"
    );
    let place = "file of the API server's flag --authentication-config (Kubernetes 1.34; before, \
                 v1beta1); it is read again when it changes. Once for all runners of the cluster with \
                 this audience";
    Document::new("Trust in Canyon's issuer", place, text)
}

/// What every kind needs in the cluster.
pub(super) fn cluster_documents(
    job: &KubernetesJob,
    storage: &StateStorage,
    user: &User,
) -> Vec<Document> {
    let place = match user {
        User::Named(_) | User::Group(_) => "the cluster: kubectl apply -f".to_owned(),
        User::Placeholder { name, how } => {
            format!("the cluster, with {name} replaced ({how}): kubectl apply -f")
        }
    };
    let mut documents = vec![Document::new(
        "Namespace and service account of the jobs",
        "the cluster: kubectl apply -f",
        namespace(job),
    )];
    documents.push(Document::new("Rights of the launcher", place, launcher(job, user)));
    if let StateStorage::Kubernetes { namespace } = storage {
        documents.push(Document::new(
            "Rights of the jobs over their state",
            "the cluster: kubectl apply -f",
            state(job, namespace),
        ));
    }
    documents
}

/// A job's pod fits into the strictest of the Pod Security Standards, so the namespace asks for it.
fn namespace(job: &KubernetesJob) -> String {
    let KubernetesJob { namespace, service_account, .. } = job;
    format!(
        "apiVersion: v1\n\
         kind: Namespace\n\
         metadata:\n\
         \x20 name: {namespace}\n\
         \x20 labels:\n\
         \x20   pod-security.kubernetes.io/enforce: restricted\n\
         ---\n\
         apiVersion: v1\n\
         kind: ServiceAccount\n\
         metadata:\n\
         \x20 name: {service_account}\n\
         \x20 namespace: {namespace}\n\
         automountServiceAccountToken: false\n"
    )
}

fn launcher(job: &KubernetesJob, user: &User) -> String {
    let subject = match user {
        User::Named(name) | User::Placeholder { name, .. } => subject("User", name),
        User::Group(name) => subject("Group", name),
    };
    let mut rules = LAUNCHER.to_vec();
    if job.deny_metadata_access == Some(true) {
        rules.push(NETWORK_POLICIES);
    }
    role("canyon-launcher", &job.namespace, &rules, &subject)
}

fn state(job: &KubernetesJob, namespace: &str) -> String {
    let subject = format!(
        "  - kind: ServiceAccount\n    name: {}\n    namespace: {}\n",
        job.service_account, job.namespace
    );
    role("canyon-state", namespace, &STATE, &subject)
}

fn subject(kind: &str, name: &str) -> String {
    format!("  - apiGroup: rbac.authorization.k8s.io\n    kind: {kind}\n    name: \"{name}\"\n")
}

/// A Role and its binding.
fn role(name: &str, namespace: &str, rules: &[Rule], subject: &str) -> String {
    let mut text = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: Role\n\
         metadata:\n\
         \x20 name: {name}\n\
         \x20 namespace: {namespace}\n\
         rules:\n"
    );
    for Rule { group, resource, verbs } in rules {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "  - apiGroups: [\"{group}\"]\n    resources: [\"{resource}\"]\n    verbs: [{}]\n",
            verbs.join(", ")
        );
    }
    let _ = write!(
        text,
        "---\n\
         apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: RoleBinding\n\
         metadata:\n\
         \x20 name: {name}\n\
         \x20 namespace: {namespace}\n\
         roleRef:\n\
         \x20 apiGroup: rbac.authorization.k8s.io\n\
         \x20 kind: Role\n\
         \x20 name: {name}\n\
         subjects:\n\
         {subject}"
    );
    text
}
