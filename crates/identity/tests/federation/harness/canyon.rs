//! An issuer that serves its documents, and a federation that signs with it.

use super::Strict;
use async_trait::async_trait;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use canyon_domain::ids::{OrgUuid, RunnerUuid};
use canyon_identity::federation::{Federation, RunnerIdentity};
use canyon_identity::file_signer::FileSigner;
use canyon_identity::issuer::Issuer;
use canyon_identity::jwk::Jwk;
use canyon_identity::signer::{Signer, SignerError};
use canyon_identity::system::System;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use uuid::Uuid;

/// A key that counts what it signs.
pub(crate) struct CountingSigner {
    file: FileSigner,
    signed: AtomicU32,
    _folder: TempDir,
}

impl CountingSigner {
    pub(crate) fn new() -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let file = FileSigner::new(&folder.path().join("issuer.pk8"));
        Arc::new(Self { file, signed: AtomicU32::new(0), _folder: folder })
    }

    pub(crate) fn signed(&self) -> u32 {
        self.signed.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Signer for CountingSigner {
    fn name(&self) -> String {
        "test".to_owned()
    }

    async fn public_jwk(&self) -> Result<Jwk, SignerError> {
        self.file.public_jwk().await
    }

    async fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignerError> {
        self.signed.fetch_add(1, Ordering::SeqCst);
        self.file.sign(message).await
    }
}

type Served = Arc<Mutex<Arc<Issuer>>>;

/// A Canyon at the address of the servers' TLS front.
pub(crate) struct Canyon {
    pub(crate) url: String,
    pub(crate) signer: Arc<CountingSigner>,
    pub(crate) federation: Arc<Federation>,
    pub(crate) strict: Strict,
    documents: String,
    served: Served,
}

impl Canyon {
    pub(crate) async fn start() -> Self {
        let strict = Strict::start().await;
        let url = strict.address("front").to_owned();
        let signer = CountingSigner::new();
        let issuer = issuer(&url, &signer, &[]);
        let served: Served = Arc::new(Mutex::new(Arc::clone(&issuer)));
        let documents = serve(Arc::clone(&served)).await;
        let federation = Arc::new(Federation::new(issuer, strict.endpoints(), Arc::new(System)));
        Self { url, signer, federation, strict, documents, served }
    }

    /// Another process of the same Canyon, with an empty cache.
    pub(crate) fn again(&self) -> Federation {
        let issuer = Arc::clone(&self.served.lock().unwrap());
        Federation::new(issuer, self.strict.endpoints(), Arc::new(System))
    }

    /// Publishes and signs with other keys from now on.
    pub(crate) fn change_keys(
        &mut self,
        active: &Arc<CountingSigner>,
        retired: &[&Arc<CountingSigner>],
    ) {
        *self.served.lock().unwrap() = issuer(&self.url, active, retired);
        self.federation = Arc::new(self.again());
    }

    /// Replaces the clouds' state; they trust the front's certificate.
    pub(crate) async fn set(&self, state: Value) {
        let Value::Object(mut all) = state else { panic!("{state} is no state") };
        let ca = self.strict.address("front_ca_file");
        all.entry("issuers").or_insert(json!([{ "url": self.url, "ca_file": ca }]));
        all.entry("front").or_insert(json!({ "target": self.documents }));
        self.strict.set(&Value::Object(all)).await;
    }

    /// `text` with placeholders for everything that differs between runs, to compare it with a
    /// snapshot.
    pub(crate) fn stable(&self, who: RunnerIdentity, text: &str) -> String {
        let host = self.url.strip_prefix("https://").unwrap();
        text.replace(host, "canyon.example")
            .replace(&who.org.to_string(), "ORG")
            .replace(&who.runner.to_string(), "RUNNER")
    }
}

fn issuer(
    url: &str,
    active: &Arc<CountingSigner>,
    retired: &[&Arc<CountingSigner>],
) -> Arc<Issuer> {
    let active = Arc::clone(active) as Arc<dyn Signer>;
    let retired = retired.iter().map(|key| Arc::clone(key) as Arc<dyn Signer>).collect();
    Arc::new(Issuer::new(url, active, retired, Arc::new(System), Arc::new(System)))
}

async fn serve(served: Served) -> String {
    let discovery = |State(served): State<Served>| async move {
        let issuer = Arc::clone(&served.lock().unwrap());
        Json(issuer.discovery())
    };
    let keys = |State(served): State<Served>| async move {
        let issuer = Arc::clone(&served.lock().unwrap());
        Json(issuer.jwks().await.unwrap())
    };
    let router = Router::new()
        .route("/.well-known/openid-configuration", get(discovery))
        .route("/.well-known/jwks", get(keys))
        .with_state(served);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// A new runner.
pub(crate) fn runner() -> RunnerIdentity {
    RunnerIdentity { org: OrgUuid(Uuid::now_v7()), runner: RunnerUuid(Uuid::now_v7()) }
}
