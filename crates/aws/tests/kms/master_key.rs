//! An installation has one master key, which the first function creates and only its KMS key
//! unwraps.

use crate::moto::{answering, kms, make_key};
use aws_sdk_kms::Client;
use aws_sdk_kms::types::{KeySpec, KeyUsageType};
use canyon_aws::master_key::KmsMasterKey;
use canyon_identity::master_keys::MasterKeys;
use canyon_identity::system::System;
use canyon_store::Table;
use canyon_store::embedded::Embedded;
use serde_json::json;
use std::sync::Arc;
use tempfile::TempDir;

struct World {
    folder: TempDir,
    kms: Client,
    key: String,
}

impl World {
    async fn new() -> Self {
        let (folder, kms) = (tempfile::tempdir().unwrap(), kms());
        let key = make_key(&kms, KeySpec::SymmetricDefault, KeyUsageType::EncryptDecrypt).await;
        Self { folder, kms, key }
    }

    async fn table(&self, name: &str) -> Table {
        let path = self.folder.path().join(format!("{name}.db"));
        let table = Table::new(Embedded::open(&path, Arc::new(|| {})).unwrap().client(), name);
        table.ensure().await.unwrap();
        table
    }

    /// The master keys of one process.
    fn process(&self, table: &Table) -> MasterKeys {
        process(&self.kms, &self.key, table)
    }
}

fn process(kms: &Client, key: &str, table: &Table) -> MasterKeys {
    MasterKeys::on_demand(KmsMasterKey::new(kms.clone(), key, table.clone(), Arc::new(System)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_functions_that_start_concurrently_always_get_the_same_key() {
    let world = World::new().await;
    let table = world.table("canyon").await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let process = world.process(&table);
            tokio::spawn(async move { process.get().await.unwrap() })
        })
        .collect();
    let first = world.process(&table).get().await.unwrap();
    let sealed = first.seal("place", b"secret", &System).unwrap();
    for task in tasks {
        assert_eq!(task.await.unwrap().open("place", &sealed).unwrap(), b"secret");
    }
    let later = world.process(&table).get().await.unwrap();
    assert_eq!(later.open("place", &sealed).unwrap(), b"secret");
    let stored = table.wrapped_key().await.unwrap().unwrap();
    assert_eq!(stored.wrapped_by, world.key);
}

#[tokio::test]
async fn a_key_of_another_table_is_rejected() {
    let world = World::new().await;
    let (ours, theirs) = (world.table("ours").await, world.table("theirs").await);
    world.process(&theirs).get().await.unwrap();
    let moved = theirs.wrapped_key().await.unwrap().unwrap();
    ours.create_wrapped_key(&moved).await.unwrap();
    let error = world.process(&ours).get().await.unwrap_err();
    assert!(!error.is_retryable, "{error:?}");
    assert_eq!(ours.wrapped_key().await.unwrap(), Some(moved), "nothing is replaced");
}

#[tokio::test]
async fn a_table_restored_under_another_name_unwraps_its_key_with_the_first_name() {
    let world = World::new().await;
    let (first, restored) = (world.table("canyon").await, world.table("canyon-restored").await);
    let sealed = world.process(&first).get().await.unwrap().seal("place", b"secret", &System);
    restored.create_wrapped_key(&first.wrapped_key().await.unwrap().unwrap()).await.unwrap();
    for (table_name, opens) in [(None, false), (Some("other"), false), (Some("canyon"), true)] {
        let key =
            KmsMasterKey::new(world.kms.clone(), &world.key, restored.clone(), Arc::new(System));
        let found = MasterKeys::on_demand(key.created_for_table(table_name)).get().await;
        assert_eq!(found.is_ok(), opens, "{table_name:?}");
        if let Ok(key) = found {
            assert_eq!(key.open("place", sealed.as_ref().unwrap()).unwrap(), b"secret");
        }
    }
}

#[tokio::test]
async fn another_kms_key_creates_no_other_master_key() {
    let world = World::new().await;
    let table = world.table("canyon").await;
    world.process(&table).get().await.unwrap();
    let stored = table.wrapped_key().await.unwrap();
    for code in ["IncorrectKeyException", "DisabledException", "ThrottlingException"] {
        let kms = answering(move |operation, _| {
            assert_eq!(operation, "Decrypt");
            (400, json!({ "__type": code, "message": "m" }).to_string())
        });
        let config = kms.config().to_builder();
        let once = aws_sdk_kms::config::retry::RetryConfig::disabled();
        let kms = Client::from_conf(config.retry_config(once).build());
        let error = process(&kms, "alias/other", &table).get().await.unwrap_err();
        assert_eq!(error.is_retryable, code == "ThrottlingException", "{error:?}");
        assert!(error.to_string().contains("alias/other"), "{error}");
        assert_eq!(table.wrapped_key().await.unwrap(), stored);
    }
}
