//! A service account is created once, a change from a stale version is lost, and an issued token is
//! in no list.

use crate::organizations::token;
use crate::world::{at, count, everything, id, race, record};
use canyon_domain::ids::OrgUuid;
use canyon_domain::principal::Role;
use canyon_domain::scoped_role::ScopedRole;
use canyon_domain::service_account::ServiceAccount;
use canyon_domain::trust_policy::{ClaimMatching, PolicyRequest, TrustPolicy};
use canyon_store::Table;
use canyon_store::organizations::TokenRecord;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::PageRequest;
use serde_json::json;
use std::collections::BTreeMap;
use uuid::Uuid;

on_each_table!(
    of_16_service_accounts_of_one_name_one_is_created_and_reads_back_completely,
    a_change_or_deletion_of_a_service_account_from_a_stale_version_is_lost,
    an_issued_token_is_found_by_its_secret_and_in_no_list,
);

fn org() -> OrgUuid {
    OrgUuid(Uuid::now_v7())
}

pub(crate) fn account(name: &str) -> ServiceAccount {
    let scoped = ScopedRole::new(Role::Deployer).in_project(id("shop/api"));
    let order = PolicyRequest {
        issuer: "https://issuer.example.com".to_owned(),
        audience: "canyon-acme".to_owned(),
        bound_claims_type: ClaimMatching::Glob,
        bound_claims: BTreeMap::from([
            ("sub".to_owned(), vec!["repo:acme/*:ref:refs/heads/main".to_owned()]),
            ("ref".to_owned(), vec!["refs/heads/main".to_owned(), "refs/heads/next".to_owned()]),
        ]),
        jwks: Some(json!({ "keys": [{ "kty": "RSA", "n": "AQAB", "e": "AQAB", "x": [1, null] }] })),
        scoped_roles: vec![scoped.clone()],
    };
    ServiceAccount {
        id: id(name),
        uuid: Uuid::now_v7(),
        description: "builds".to_owned(),
        role: Role::Agent,
        scoped_roles: vec![scoped],
        runner: Some(id("here")),
        trust_policies: vec![TrustPolicy::new(order, |_| false).unwrap()],
        created_at: at(0),
        updated_at: at(0),
        version: 1,
    }
}

async fn of_16_service_accounts_of_one_name_one_is_created_and_reads_back_completely(table: Table) {
    let (org, other) = (org(), org());
    let made = race(|_| {
        let (table, account) = (table.clone(), account("ci"));
        async move {
            let made = table.create_service_account(org, &account, &record()).await.unwrap();
            (made, account)
        }
    })
    .await;
    let winners: Vec<_> = made.iter().filter(|(made, _)| *made == Created::Yes).collect();
    assert_eq!(winners.len(), 1);
    let winner = &winners[0].1;
    assert_eq!(table.service_account(org, &winner.id).await.unwrap().as_ref(), Some(winner));
    assert_eq!(table.service_account(other, &winner.id).await.unwrap(), None);
    let request = PageRequest { limit: 10, after: None };
    let page = table.service_accounts(org, &request).await.unwrap();
    assert_eq!(page.items, std::slice::from_ref(winner));
    assert!(table.service_accounts(other, &request).await.unwrap().items.is_empty());
}

async fn a_change_or_deletion_of_a_service_account_from_a_stale_version_is_lost(table: Table) {
    let (org, first) = (org(), account("ci"));
    table.create_service_account(org, &first, &record()).await.unwrap();
    let saved = race(|n| {
        let description = n.to_string();
        let (table, after) =
            (table.clone(), ServiceAccount { description, version: 2, ..first.clone() });
        async move { table.save_service_account(org, 1, &after, &record()).await.unwrap() }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
    let before = everything(&table).await;
    assert_eq!(table.delete_service_account(org, &first, &record()).await.unwrap(), Deleted::No);
    assert_eq!(everything(&table).await, before);
    let now = table.service_account(org, &first.id).await.unwrap().unwrap();
    assert_eq!(table.delete_service_account(org, &now, &record()).await.unwrap(), Deleted::Yes);
    assert_eq!(table.service_account(org, &first.id).await.unwrap(), None);
}

async fn an_issued_token_is_found_by_its_secret_and_in_no_list(table: Table) {
    let org = org();
    let issued = TokenRecord { grant: Some(account("ci").grant()), ..token(org, 1, "secret") };
    let made = table.issue_token(&issued, at(900), None, &record()).await.unwrap();
    assert_eq!(made, Created::Yes);
    assert_eq!(table.token_by_secret(&issued.hash).await.unwrap(), Some(issued.clone()));
    let request = PageRequest { limit: 10, after: None };
    assert!(table.tokens(org, &request).await.unwrap().items.is_empty());
    let again = table.issue_token(&issued, at(900), None, &record()).await.unwrap();
    assert_eq!(again, Created::Exists);
}
