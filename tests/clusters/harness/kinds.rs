//! The kinds of runner, each with the access that Canyon needs where its jobs run.

use super::account::{self, Account};
use super::bed::{Bed, bed};
use super::clouds::{self, Clouds, OBJECT_ID};
use super::server::Variables;
use super::site::ACCOUNT;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::process::Command;

/// How Canyon gets access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `kubernetes`, whose API server trusts Canyon's issuer.
    Oidc,
    /// `kubernetes` with the token of a service account.
    Token,
    /// `kubernetes` with a client certificate.
    Certificate,
    /// `kubernetes-gke`, with a definition like those of users; only the namespace differs.
    Gke,
    /// `kubernetes-eks`.
    Eks,
    /// `kubernetes-aks`.
    Aks,
    /// `serverless-ecs`, with states in a bucket.
    Ecs,
    /// `docker`, with states in a bucket. Canyon listens on loopback, as on a laptop.
    Docker,
}

/// The cluster as a runner of one kind reaches it.
#[derive(Debug)]
pub(crate) struct Place {
    kind: Kind,
    /// The user of a stored credential.
    user: String,
    auth: Value,
    clouds: Option<Clouds>,
    account: Option<Account>,
}

impl Place {
    /// Creates the credential, and starts the servers that play a cloud.
    pub(crate) async fn prepare(kind: Kind, namespace: &str) -> Self {
        let user = Bed::unique("launcher");
        let mut place = Self { kind, user, auth: Value::Null, clouds: None, account: None };
        match kind {
            Kind::Oidc => {
                place.auth = json!({ "oidc": { "audience": bed().get("OIDC_AUDIENCE") } });
            }
            Kind::Token => {
                bed().kubectl(&["create", "namespace", namespace], "");
                bed().kubectl(&["-n", namespace, "create", "serviceaccount", "launcher"], "");
                let token = bed().kubectl(&["-n", namespace, "create", "token", "launcher"], "");
                place.user = format!("system:serviceaccount:{namespace}:launcher");
                place.auth = json!({ "service_account_token": token.trim() });
            }
            Kind::Certificate => {
                let (certificate, key) = client_certificate(&place.user);
                place.auth = json!({
                    "client_certificate_data": STANDARD.encode(certificate),
                    "client_key_data": STANDARD.encode(key),
                });
            }
            Kind::Gke | Kind::Eks | Kind::Aks => place.clouds = Some(Clouds::start()),
            Kind::Ecs | Kind::Docker => place.account = Some(Account::start().await),
        }
        if kind == Kind::Aks {
            OBJECT_ID.clone_into(&mut place.user);
        }
        place
    }

    /// The user of the stored credential.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// The server's settings for it.
    pub(crate) fn variables(&self) -> Variables {
        if self.kind == Kind::Docker {
            return [("DOCKER_HOST".to_owned(), bed().get("DOCKER_HOST").to_owned())].into();
        }
        let clouds = self.clouds.as_ref().map(Clouds::variables);
        clouds.or_else(|| self.account.as_ref().map(Account::variables)).unwrap_or_default()
    }

    /// The address at which the server listens.
    pub(crate) fn listens_at(&self) -> &'static str {
        if self.kind == Kind::Docker { "127.0.0.1" } else { bed().get("NODE_ADDRESS") }
    }

    /// The servers that play a cloud.
    pub(crate) fn clouds(&self) -> &Clouds {
        self.clouds.as_ref().expect("this kind has a cloud")
    }

    /// The account of a runner for ECS.
    pub(crate) fn account(&self) -> &Account {
        self.account.as_ref().expect("this kind has an account")
    }

    /// A runner that keeps its states where its jobs run.
    pub(crate) fn definition(&self, namespace: &str) -> Value {
        if let Some(account) = &self.account {
            let mut definition = account.definition();
            definition["runner_configuration"] = self.configuration();
            return definition;
        }
        let mut runner = self.configuration();
        runner["job"] = json!({ "namespace": namespace, "service_account": ACCOUNT });
        json!({
            "runner_configuration": runner,
            "state_storage_configuration": { "type": "kubernetes", "namespace": namespace },
        })
    }

    fn configuration(&self) -> Value {
        match self.kind {
            Kind::Oidc | Kind::Token | Kind::Certificate => json!({
                "type": "kubernetes",
                "cluster": {
                    "cluster_data": {
                        "certificate_authority_data": STANDARD.encode(bed().file("CA_FILE")),
                        "server": bed().get("SERVER"),
                    },
                    "auth": self.auth,
                },
            }),
            Kind::Gke => {
                let path = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/gke-runner-config.yaml");
                clouds::yaml(path)["runner_configuration"].clone()
            }
            Kind::Eks => json!({
                "type": "kubernetes-eks",
                "cluster": {
                    "name": "my-cluster",
                    "region": "eu-central-1",
                    "auth": { "role_arn": "arn:aws:iam::123456789012:role/canyon-runner" },
                },
            }),
            Kind::Aks => json!({
                "type": "kubernetes-aks",
                "cluster": {
                    "name": "my-cluster",
                    "resource_group": "my-group",
                    "subscription_id": "44444444-4444-4444-8444-444444444444",
                    "auth": {
                        "tenant_id": "11111111-1111-4111-8111-111111111111",
                        "client_id": "22222222-2222-4222-8222-222222222222",
                    },
                },
            }),
            Kind::Ecs => self.account().definition()["runner_configuration"].clone(),
            Kind::Docker => json!({
                "type": "docker", "job": { "environment": self.account().bucket_variables() },
            }),
        }
    }

    /// The document with the user's name filled in, where Canyon cannot know it.
    pub(crate) fn named(&self, document: &str) -> String {
        [
            "COMMON_NAME_OF_THE_CERTIFICATE",
            "system:serviceaccount:NAMESPACE:NAME",
            "OBJECT_ID_OF_THE_SERVICE_PRINCIPAL",
        ]
        .iter()
        .fold(document.to_owned(), |text, name| text.replace(name, &self.user))
    }

    /// Configures the cloud as Canyon prints it for the runner.
    pub(crate) async fn trust(&self, trust: &Value) {
        let configuration = self.configuration();
        let cluster = &configuration["cluster"];
        let state = match self.kind {
            Kind::Oidc | Kind::Token | Kind::Certificate | Kind::Docker => return,
            Kind::Gke => clouds::google(trust, cluster),
            Kind::Eks => clouds::amazon(trust, cluster),
            Kind::Aks => clouds::microsoft(trust, cluster),
            Kind::Ecs => return self.account().configure(account::trusting(trust)).await,
        };
        self.clouds().configure(state).await;
    }
}

/// A certificate of the cluster's authority for a user, and its key.
fn client_certificate(user: &str) -> (Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let openssl = |arguments: &[&str]| {
        let done = Command::new("openssl").args(arguments).current_dir(&folder).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let subject = format!("/CN={user}");
    openssl(&[
        "req",
        "-new",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-subj",
        &subject,
        "-keyout",
        "key",
        "-out",
        "request",
    ]);
    std::fs::write(folder.path().join("usage"), "extendedKeyUsage=clientAuth\n").unwrap();
    openssl(&[
        "x509",
        "-req",
        "-in",
        "request",
        "-CA",
        bed().get("CA_FILE"),
        "-CAkey",
        bed().get("CA_KEY_FILE"),
        "-set_serial",
        &format!("0x{}", uuid::Uuid::new_v4().simple()),
        "-days",
        "2",
        "-extfile",
        "usage",
        "-out",
        "certificate",
    ]);
    let read = |name| std::fs::read(folder.path().join(name)).unwrap();
    (read("certificate"), read("key"))
}
