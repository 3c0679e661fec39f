//! The job of all Kubernetes types, and `kubernetes`: any cluster, by its address.

use super::{
    fields::Fields,
    patterns::{
        BASE64, CERTIFICATE, CLUSTER_AUDIENCE, DNS_LABEL, DNS_NAME, HTTPS_URL, PROXY_URL, TOKEN,
    },
    timeouts::TimeoutSettings,
};
use crate::job_identity::JobIdentity;
use crate::pod_template;
use secrecy::SecretString;
use serde::Serialize;
use serde_json::{Map, Value};

/// `job` of every Kubernetes type.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KubernetesJob {
    /// Namespace that the Job runs in.
    pub namespace: String,
    /// Service account that the Job runs as.
    pub service_account: String,
    /// Changes of the pod: merged into Canyon's own template, then validated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<Map<String, Value>>,
    /// The job's identity at clouds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<JobIdentity>,
    /// Timeouts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<TimeoutSettings>,
    /// Whether a `NetworkPolicy` blocks the metadata services of clouds for jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny_metadata_access: Option<bool>,
}

impl KubernetesJob {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        let job = Self {
            namespace: fields.required_text("namespace", &DNS_LABEL),
            service_account: fields.required_text("service_account", &DNS_NAME),
            pod_template: fields.free_object("pod_template"),
            identity: fields.object("identity", JobIdentity::read),
            timeouts: fields.object("timeouts", TimeoutSettings::read),
            deny_metadata_access: fields.flag("deny_metadata_access"),
        };
        if let Some(template) = &job.pod_template {
            fields.faults("pod_template", pod_template::check(template, &job.service_account));
        }
        job
    }
}

/// `kubernetes`: a cluster reached by its address.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Kubernetes {
    /// What to run.
    pub job: KubernetesJob,
    /// The cluster and the access to it.
    pub cluster: KubernetesCluster,
}

/// `cluster` of `kubernetes`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct KubernetesCluster {
    /// Where the cluster is.
    pub cluster_data: ClusterData,
    /// How Canyon authenticates.
    pub auth: KubernetesAuth,
}

/// `cluster.cluster_data`, with the fields of a kubeconfig's `cluster`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClusterData {
    /// Certificate authority of the API server, PEM in base64.
    pub certificate_authority_data: String,
    /// Address of the API server.
    pub server: String,
    /// Proxy for connections to the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
}

/// `cluster.auth`: exactly one of a client certificate with its key, a service account's token, or `oidc`.
/// The two secrets are never serialized; see [`super::RunnerDefinition::split_secrets`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct KubernetesAuth {
    /// Client certificate, PEM in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate_data: Option<String>,
    /// Its private key, PEM in base64.
    #[serde(skip_serializing)]
    pub client_key_data: Option<SecretString>,
    /// Token of a service account.
    #[serde(skip_serializing)]
    pub service_account_token: Option<SecretString>,
    /// The API server trusts Canyon's issuer: no secret is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc: Option<KubernetesOidc>,
}

/// `cluster.auth.oidc`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KubernetesOidc {
    /// Audience that the API server expects in Canyon's token.
    pub audience: String,
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

    fn read(fields: &mut Fields) -> Self {
        let auth = Self {
            client_certificate_data: fields.text("client_certificate_data", &CERTIFICATE),
            client_key_data: fields.secret("client_key_data", &BASE64),
            service_account_token: fields.secret("service_account_token", &TOKEN),
            oidc: fields.object("oidc", |oidc| KubernetesOidc {
                audience: oidc.required_text("audience", &CLUSTER_AUDIENCE),
            }),
        };
        let certificate = auth.client_certificate_data.is_some() || auth.client_key_data.is_some();
        let token = auth.service_account_token.is_some();
        let one = "must have exactly one of `client_certificate_data` with `client_key_data`, `service_account_token`, `oidc`; leave the others out";
        if auth.oidc.is_some() && (certificate || token) {
            fields.fault("", one);
        } else if certificate && token {
            fields.warn("", one);
        } else if auth.client_key_data.is_some() && auth.client_certificate_data.is_none() {
            fields.warn("client_certificate_data", "is required beside `client_key_data`");
        }
        auth
    }
}

impl Kubernetes {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        Self {
            job: fields.required_object("job", KubernetesJob::read),
            cluster: fields.required_object("cluster", |cluster| KubernetesCluster {
                cluster_data: cluster.required_object("cluster_data", |data| ClusterData {
                    certificate_authority_data: data
                        .required_text("certificate_authority_data", &CERTIFICATE),
                    server: data.required_text("server", &HTTPS_URL),
                    proxy_url: data.text("proxy_url", &PROXY_URL),
                }),
                auth: cluster.required_object("auth", KubernetesAuth::read),
            }),
        }
    }
}
