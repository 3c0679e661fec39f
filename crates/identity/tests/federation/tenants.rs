//! Every organization may write down any role, provider or application, also those of others.

use crate::harness::{
    Canyon, ROLE, account, application, aws_auth, azure_auth, gcp_auth, provider, runner,
};
use canyon_identity::federation::RunnerIdentity;
use serde_json::json;

/// Runners that an attacker could make who chooses names and repeats what others have: only the
/// ids that Canyon draws tell them apart.
#[tokio::test(flavor = "multi_thread")]
async fn an_organization_never_gets_what_trusts_another() {
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
    // The owner first: what it got lies in the same memory.
    federation.aws(owner, &aws_auth(), "eu-central-1", "same").await.unwrap();
    federation.gcp(owner, &gcp_auth()).await.unwrap();
    federation.azure(owner, &azure_auth(), management).await.unwrap();
    for turn in 0..1_000_u32 {
        let stranger = runner();
        let who = match turn % 3 {
            0 => stranger,
            1 => RunnerIdentity { org: owner.org, ..stranger },
            _ => RunnerIdentity { runner: owner.runner, ..stranger },
        };
        let let_in = match turn % 4 {
            0 => federation.gcp(who, &gcp_auth()).await.is_ok(),
            1 => federation.azure(who, &azure_auth(), management).await.is_ok(),
            _ => federation.aws(who, &aws_auth(), "eu-central-1", "same").await.is_ok(),
        };
        assert!(!let_in, "turn {turn}: {who:?} got what trusts {owner:?}");
    }
    let calls = canyon.strict.calls("aws_sts").await;
    let good: Vec<_> = calls.iter().filter(|call| call["status"] == 200).collect();
    assert_eq!(good.len(), 1, "{ROLE} was given out once");
}
