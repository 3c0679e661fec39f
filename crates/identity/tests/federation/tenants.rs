//! Every organization may configure any role, provider or application, also those of others.

use crate::harness::{
    Canyon, ROLE, account, application, aws_auth, azure_auth, gcp_auth, provider, runner,
};
use canyon_identity::federation::RunnerIdentity;
use serde_json::json;

/// Runners of an attacker who chooses names and copies the configuration of others: only the
/// ids that Canyon generates differ.
#[tokio::test(flavor = "multi_thread")]
async fn an_organization_never_gets_access_that_trusts_another() {
    let (canyon, owner) = (Canyon::start().await, runner());
    canyon
        .set(json!({
            "aws": { "accounts": { "123456789012": account(&canyon.url, owner) } },
            "gcp": provider(&canyon.url, owner),
            "azure": application(&canyon.url, owner),
        }))
        .await;
    let management = "https://management.azure.com/.default";
    let federation = &canyon.federation;
    // The owner first, so that its results are in the shared cache.
    federation.aws(owner, &aws_auth(), "eu-central-1", "same").await.unwrap();
    federation.gcp(owner, &gcp_auth()).await.unwrap();
    federation.azure(owner, &azure_auth(), management).await.unwrap();
    for round in 0..1_000_u32 {
        let attacker = runner();
        let who = match round % 3 {
            0 => attacker,
            1 => RunnerIdentity { org: owner.org, ..attacker },
            _ => RunnerIdentity { runner: owner.runner, ..attacker },
        };
        let accepted = match round % 4 {
            0 => federation.gcp(who, &gcp_auth()).await.is_ok(),
            1 => federation.azure(who, &azure_auth(), management).await.is_ok(),
            _ => federation.aws(who, &aws_auth(), "eu-central-1", "same").await.is_ok(),
        };
        assert!(!accepted, "round {round}: {who:?} got access that trusts {owner:?}");
    }
    let calls = canyon.strict.calls("aws_sts").await;
    let good: Vec<_> = calls.iter().filter(|call| call["status"] == 200).collect();
    assert_eq!(good.len(), 1, "{ROLE} was assumed once");
}
