//! An issuer of other parties, whose keys Canyon is given.

use crate::harness::Api;
use crate::service_accounts::{AUDIENCE, SUBJECT};
use canyon_identity::assertion::AssertionRequest;
use canyon_identity::file_signer::FileSigner;
use canyon_identity::issuer::Issuer;
use canyon_identity::system::System;
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Its address. It is never called.
pub(crate) const URL: &str = "https://issuer.example.com";

/// An issuer that signs any claims.
pub(crate) struct Foreign {
    issuer: Issuer,
    _folder: TempDir,
}

impl Foreign {
    pub(crate) fn new(api: &Api) -> Self {
        Self::at(api, URL)
    }

    pub(crate) fn at(api: &Api, url: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let signer = Arc::new(FileSigner::new(&folder.path().join("key.pk8")));
        let issuer = Issuer::new(url, signer, vec![], api.clock.clone(), Arc::new(System));
        Self { issuer, _folder: folder }
    }

    pub(crate) async fn policy(&self) -> Value {
        json!({
            "issuer": URL,
            "audience": AUDIENCE,
            "bound_claims": { "sub": SUBJECT },
            "jwks": self.issuer.jwks().await.unwrap(),
        })
    }

    pub(crate) async fn keys(&self) -> Value {
        json!(self.issuer.jwks().await.unwrap())
    }

    pub(crate) async fn token(&self, subject: &str, audience: &str) -> String {
        self.token_with(subject, audience, Map::new()).await
    }

    pub(crate) async fn token_with(
        &self,
        subject: &str,
        audience: &str,
        claims: Map<String, Value>,
    ) -> String {
        let statement = AssertionRequest {
            subject: subject.to_owned(),
            audience: audience.to_owned(),
            claims,
            lifetime: Duration::from_mins(10),
        };
        self.issuer.assertion(&statement).await.unwrap().expose_secret().to_owned()
    }
}
