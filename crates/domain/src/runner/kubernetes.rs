//! The job of all Kubernetes types, and `kubernetes`: any cluster, by its address.

use super::check_step::CheckStep;
use super::kind::{Facts, JobPlace, JobSettings, Kind, LaunchedBy};
use super::properties::properties;
use super::trust::{self, Grants, TrustSubject};
use super::{
    fields::Fields,
    patterns::{
        ALLOWED_IMAGE, BASE64, CERTIFICATE, CLUSTER_AUDIENCE, DNS_LABEL, DNS_NAME, HTTPS_URL,
        MAX_ALLOWED_IMAGES, PROXY_URL, TOKEN,
    },
    timeouts::TimeoutSettings,
};
use crate::job_identity::JobIdentity;
use crate::pod_template;
use crate::state_storage::StateStorage;
use secrecy::SecretString;
use serde::Serialize;
use serde_json::{Map, Value};

properties! {
    /// `job` of every Kubernetes type.
    #[derive(Clone, Debug, Default, PartialEq, Serialize)]
    pub struct KubernetesJob, check {
        /// Namespace that the Job runs in.
        pub namespace: String = required_text(&DNS_LABEL),
        /// Service account that the Job runs as.
        pub service_account: String = required_text(&DNS_NAME),
        /// The images that container jobs may run; `*` stands for any text without `/`, `**` for any text. Default: every
        /// image.
        pub allowed_images: Option<Vec<String>> = texts(&(0..=MAX_ALLOWED_IMAGES), &ALLOWED_IMAGE),
        /// Changes of the pod: merged into Canyon's own template, then validated.
        pub pod_template: Option<Map<String, Value>> = free_object(),
        /// The job's identity at clouds.
        pub identity: Option<JobIdentity> = object(JobIdentity::read),
        /// Timeouts.
        pub timeouts: Option<TimeoutSettings> = object(TimeoutSettings::read),
        /// Whether a `NetworkPolicy` blocks the metadata services of clouds for jobs.
        pub deny_metadata_access: Option<bool> = flag(),
    }
}

impl KubernetesJob {
    fn check(&self, fields: &mut Fields) {
        if let Some(template) = &self.pod_template {
            fields.faults("pod_template", pod_template::check(template, &self.service_account));
        }
    }
}

properties! {
    /// `kubernetes`: a cluster reached by its address.
    #[derive(Clone, Debug, Default, Serialize)]
    pub struct Kubernetes {
        /// What to run.
        pub job: KubernetesJob = required_object(KubernetesJob::read),
        /// The cluster and the access to it.
        pub cluster: KubernetesCluster = required_object(KubernetesCluster::read),
    }
}

properties! {
    /// `cluster` of `kubernetes`.
    #[derive(Clone, Debug, Default, Serialize)]
    pub struct KubernetesCluster {
        /// Where the cluster is.
        pub cluster_data: ClusterData = required_object(ClusterData::read),
        /// How Canyon authenticates.
        pub auth: KubernetesAuth = required_object(KubernetesAuth::read),
    }
}

properties! {
    /// `cluster.cluster_data`, with the fields of a kubeconfig's `cluster`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct ClusterData {
        /// Certificate authority of the API server, PEM in base64.
        pub certificate_authority_data: String = required_text(&CERTIFICATE),
        /// Address of the API server.
        pub server: String = required_text(&HTTPS_URL),
        /// Proxy for connections to the API server.
        pub proxy_url: Option<String> = text(&PROXY_URL),
    }
}

properties! {
    /// `cluster.auth`: exactly one of a client certificate with its key, a service account's token, or `oidc`.
    /// The two secrets are never serialized; see [`super::RunnerDefinition::split_secrets`].
    #[derive(Clone, Debug, Default, Serialize)]
    pub struct KubernetesAuth, check {
        /// Client certificate, PEM in base64.
        pub client_certificate_data: Option<String> = text(&CERTIFICATE),
        /// Its private key, PEM in base64.
        pub client_key_data: Option<SecretString> = secret(&BASE64),
        /// Token of a service account.
        pub service_account_token: Option<SecretString> = secret(&TOKEN),
        /// The API server trusts Canyon's issuer: no secret is stored.
        pub oidc: Option<KubernetesOidc> = object(KubernetesOidc::read),
    }
}

properties! {
    /// `cluster.auth.oidc`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct KubernetesOidc {
        /// Audience that the API server expects in Canyon's token.
        pub audience: String = required_text(&CLUSTER_AUDIENCE),
    }
}

/// How Canyon authenticates to a `kubernetes` cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubernetesAuthKind {
    /// A client certificate and its key.
    ClientCertificate,
    /// A service account's token.
    ServiceAccountToken,
    /// Canyon's own OIDC token.
    Oidc,
}

impl KubernetesAuth {
    /// The kind of authentication. It is derived from fields that are not secret, so it is known when the
    /// secrets are stored elsewhere: neither `oidc` nor a certificate means a token.
    pub fn kind(&self) -> KubernetesAuthKind {
        if self.oidc.is_some() {
            KubernetesAuthKind::Oidc
        } else if self.client_certificate_data.is_some() {
            KubernetesAuthKind::ClientCertificate
        } else {
            KubernetesAuthKind::ServiceAccountToken
        }
    }

    /// The name and the field of the secret that this kind needs.
    pub(crate) fn secret_mut(&mut self) -> Option<(&'static str, &mut Option<SecretString>)> {
        match self.kind() {
            KubernetesAuthKind::ClientCertificate => {
                Some(("client_key_data", &mut self.client_key_data))
            }
            KubernetesAuthKind::ServiceAccountToken => {
                Some(("service_account_token", &mut self.service_account_token))
            }
            KubernetesAuthKind::Oidc => None,
        }
    }

    fn check(&self, fields: &mut Fields) {
        let certificate = self.client_certificate_data.is_some() || self.client_key_data.is_some();
        let token = self.service_account_token.is_some();
        let one = "must have exactly one of `client_certificate_data` with `client_key_data`, `service_account_token`, `oidc`; leave the others out";
        if self.oidc.is_some() && (certificate || token) {
            fields.fault("", one);
        } else if certificate && token {
            fields.warn("", one);
        } else if self.client_key_data.is_some() && self.client_certificate_data.is_none() {
            fields.warn("client_certificate_data", "is required beside `client_key_data`");
        }
    }
}

impl Kubernetes {
    pub(super) const FACTS: Facts =
        Facts { place: JobPlace::Cluster, launched_by: LaunchedBy::Canyon };
}

impl Kind for Kubernetes {
    fn job(&self) -> Option<JobSettings<'_>> {
        Some(JobSettings::Cluster(&self.job))
    }

    fn check_steps(&self) -> &'static [CheckStep] {
        use CheckStep as S;
        match self.cluster.auth.kind() {
            KubernetesAuthKind::Oidc => &[S::Assertion, S::Connect, S::Permissions, S::DryRun],
            KubernetesAuthKind::ClientCertificate | KubernetesAuthKind::ServiceAccountToken => {
                &[S::Connect, S::Permissions, S::DryRun]
            }
        }
    }

    fn grants(&self, trusted: &TrustSubject, storage: &StateStorage) -> Grants {
        let audience = self.cluster.auth.oidc.as_ref().map(|oidc| oidc.audience.clone());
        Grants { audience, documents: trust::kubernetes::documents(trusted, self, storage) }
    }
}
