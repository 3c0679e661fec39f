//! Kubernetes: a namespace for jobs, their service account, and the launcher's permissions there.

use super::{Document, SERVER_CLAIM, TrustSubject};
use crate::runner::kubernetes::{Kubernetes, KubernetesAuthKind, KubernetesJob};
use crate::state_storage::StateStorage;
use std::fmt::Write as _;

/// A rule of a Role: the allowed verbs on a resource of an API group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The resource, with its subresource.
    pub resource: &'static str,
    /// The allowed verbs.
    pub verbs: &'static [&'static str],
}

/// The launcher's permissions in the namespace of the jobs: it creates, finds, suspends and deletes Jobs,
/// finds and deletes their pods, and reads their logs. It cannot read a Secret, run a command in a pod, or
/// create a pod of its own.
pub const LAUNCHER: [Rule; 4] = [
    Rule { group: "batch", resource: "jobs", verbs: &["create", "get", "list", "patch", "delete"] },
    Rule { group: "", resource: "pods", verbs: &["list", "delete"] },
    Rule { group: "", resource: "pods/log", verbs: &["get"] },
    // Only for the reason why a pod cannot be created.
    Rule { group: "", resource: "events", verbs: &["list"] },
];

/// Its further permissions where a `NetworkPolicy` blocks the node's metadata addresses.
pub const NETWORK_POLICIES: Rule = Rule {
    group: "networking.k8s.io",
    resource: "networkpolicies",
    verbs: &["create", "get", "patch"],
};

/// The permissions of the jobs' service account for OpenTofu's state storage `kubernetes`.
pub const STATE: [Rule; 2] = [
    Rule { group: "", resource: "secrets", verbs: &["create", "get", "list", "update", "delete"] },
    Rule {
        group: "coordination.k8s.io",
        resource: "leases",
        verbs: &["create", "get", "update", "delete"],
    },
];

/// Prefix of the user names that an API server derives from tokens of Canyon's issuer, so that they cannot
/// collide with other users.
pub const USER_PREFIX: &str = "canyon:";

/// The launcher's identity in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// A user.
    Named(String),
    /// A group.
    Group(String),
    /// A user whose name Canyon cannot know.
    Placeholder {
        /// The placeholder in the document.
        name: String,
        /// How to find it.
        how: String,
    },
}

pub(crate) fn documents(
    trusted: &TrustSubject,
    runner: &Kubernetes,
    storage: &StateStorage,
) -> Vec<Document> {
    let auth = &runner.cluster.auth;
    let mut documents = Vec::new();
    let user = match (auth.kind(), &auth.oidc) {
        (KubernetesAuthKind::Oidc, Some(oidc)) => {
            let server = &runner.cluster.cluster_data.server;
            documents.push(authentication(trusted, &oidc.audience, server));
            User::Named(format!("{USER_PREFIX}{}", trusted.subject))
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

/// The API server trusts the issuer for runners of this organization, and not for tokens of jobs. The subject
/// alone is the user name, so no other claim of a token can grant a permission. A token for another server
/// names that server, and is refused here.
fn authentication(trusted: &TrustSubject, audience: &str, server: &str) -> Document {
    let TrustSubject { issuer, org, .. } = trusted;
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

/// The documents that every Kubernetes type needs in the cluster.
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

/// A job's pod meets the strictest of the Pod Security Standards, so the namespace enforces it.
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
