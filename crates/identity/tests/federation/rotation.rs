//! A rotation of the issuer's key locks no runner out.

use crate::harness::{Canyon, CountingSigner, application, azure_auth, runner};
use serde_json::json;
use std::sync::Arc;

const MANAGEMENT: &str = "https://management.azure.com/.default";

#[tokio::test]
async fn a_new_key_is_trusted_at_once_and_a_withdrawn_one_no_longer() {
    let (mut canyon, who) = (Canyon::start().await, runner());
    let state = json!({ "azure": application(&canyon.url, who) });
    canyon.set(state.clone()).await;
    let before = canyon.again();
    before.azure(who, &azure_auth(), MANAGEMENT).await.unwrap();

    // The new key signs; the old one stays published, and its tokens stay valid.
    let (old, new) = (Arc::clone(&canyon.signer), CountingSigner::new());
    canyon.change_keys(&new, &[&old]);
    canyon.federation.azure(who, &azure_auth(), MANAGEMENT).await.unwrap();
    assert_eq!(new.signed(), 1);
    let aks = "6dae42f8-4368-4678-94ff-3960e28e3630/.default";
    before.azure(who, &azure_auth(), aks).await.unwrap();

    // The old key is withdrawn. A new state also clears the cloud's cache of the key set.
    canyon.change_keys(&new, &[]);
    canyon.set(state).await;
    let arm = "https://management.core.windows.net/.default";
    let error = before.azure(who, &azure_auth(), arm).await.unwrap_err();
    assert!(error.to_string().contains("AADSTS700027"), "{error}");
    canyon.federation.azure(who, &azure_auth(), aks).await.unwrap();
}
