//! Storage for states, in real servers.

use canyon_cloud::parts::azurite::{self, Azurite};
use canyon_cloud::parts::fake_gcs::FakeGcs;
use canyon_cloud::parts::minio::Minio;
use canyon_cloud::parts::moto::Moto;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Storage in which a runner keeps its states. Dropping it ends the server.
pub(crate) struct Storage {
    /// The runner's `state_storage_configuration`.
    pub(crate) definition: Value,
    /// The variables with which OpenTofu reaches it.
    pub(crate) variables: BTreeMap<String, String>,
    _parts: Parts,
}

/// The servers that it consists of. The S3 backend also asks STS for its identity.
enum Parts {
    S3 { _minio: Box<Minio>, _moto: Moto },
    Gcs { _server: FakeGcs },
    Azurerm { _azurite: Azurite },
}

fn variables<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

impl Storage {
    /// A bucket in `MinIO`.
    pub(crate) async fn s3() -> Self {
        let (minio, moto) = tokio::join!(Minio::start(), Moto::start());
        minio.create_bucket("states");
        Self {
            definition: json!({ "type": "s3", "bucket": "states", "path_prefix": "of/tests" }),
            variables: variables([
                ("AWS_ENDPOINT_URL_S3", minio.url()),
                ("AWS_ENDPOINT_URL_STS", moto.url()),
                ("AWS_ACCESS_KEY_ID", minio.access_key_id()),
                ("AWS_SECRET_ACCESS_KEY", minio.secret_access_key()),
                ("AWS_REGION", "us-east-1"),
                ("AWS_EC2_METADATA_DISABLED", "true"),
            ]),
            _parts: Parts::S3 { _minio: Box::new(minio), _moto: moto },
        }
    }

    /// A bucket in fake-gcs-server.
    pub(crate) async fn gcs() -> Self {
        let server = FakeGcs::start().await;
        server.create_bucket("states").await;
        Self {
            definition: json!({ "type": "gcs", "bucket": "states", "path_prefix": "of/tests" }),
            variables: variables([("STORAGE_EMULATOR_HOST", server.url())]),
            _parts: Parts::Gcs { _server: server },
        }
    }

    /// A container in Azurite.
    pub(crate) async fn azurerm() -> Self {
        let azurite = Azurite::start().await;
        azurite.create_container("states").await;
        let certificate = azurite.certificate().display().to_string();
        Self {
            definition: json!({
                "type": "azurerm",
                "storage_account_name": azurite::ACCOUNT,
                "container_name": "states",
                "path_prefix": "of/tests",
            }),
            variables: variables([
                ("HTTPS_PROXY", azurite.proxy()),
                ("SSL_CERT_FILE", &certificate),
                ("ARM_ACCESS_KEY", &azurite.access_key()),
            ]),
            _parts: Parts::Azurerm { _azurite: azurite },
        }
    }
}
