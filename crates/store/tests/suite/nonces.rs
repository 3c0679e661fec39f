//! Requests that the API carries out once.

use crate::world::at;
use canyon_domain::ids::OrgUuid;
use canyon_domain::ids::PrincipalId;
use canyon_domain::principal::CallerId;
use canyon_store::Table;
use canyon_store::nonces::Nonce;
use uuid::Uuid;

on_each_table!(a_nonce_is_new_once_a_day_for_each_caller_of_each_organization);

async fn a_nonce_is_new_once_a_day_for_each_caller_of_each_organization(table: Table) {
    let org = || OrgUuid(Uuid::now_v7());
    let caller = || CallerId::from(PrincipalId(Uuid::now_v7()));
    let (ours, theirs, ann, bob) = (org(), org(), caller(), caller());
    let used = async |of, by: &CallerId, nonce: &str, second| {
        table.use_nonce(of, by, nonce, at(second)).await.unwrap()
    };
    for (of, by, nonce) in
        [(ours, &ann, "a"), (ours, &ann, "b"), (ours, &bob, "a"), (theirs, &ann, "a")]
    {
        assert_eq!(used(of, by, nonce, 0).await, Nonce::New);
        assert_eq!(used(of, by, nonce, 1).await, Nonce::Used);
    }
    let day = 24 * 60 * 60;
    assert_eq!(used(ours, &ann, "a", day - 1).await, Nonce::Used);
    assert_eq!(used(ours, &ann, "a", day).await, Nonce::New, "although its item is still there");
    let both = tokio::join!(used(ours, &ann, "c", 0), used(ours, &ann, "c", 0));
    assert!(both == (Nonce::New, Nonce::Used) || both == (Nonce::Used, Nonce::New), "{both:?}");
}
