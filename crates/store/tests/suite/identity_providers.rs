//! An identity provider is created once, a change from a stale version is lost, and a person's token and name are
//! written and kept as they should.

use crate::organizations::token;
use crate::world::{at, count, everything, id, race, record};
use canyon_domain::identity_provider::{GroupRole, GroupRule, IdentityProvider};
use canyon_domain::ids::{OrgUuid, PrincipalId};
use canyon_domain::known_principal::KnownPrincipal;
use canyon_domain::principal::Role;
use canyon_domain::scoped_role::ScopedRole;
use canyon_domain::trust_policy::IssuerUrl;
use canyon_store::Table;
use canyon_store::organizations::TokenRecord;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::PageRequest;
use serde_json::json;
use uuid::Uuid;

on_each_table!(
    of_16_identity_providers_of_one_name_one_is_created_and_reads_back_completely,
    a_change_or_deletion_of_an_identity_provider_from_a_stale_version_is_lost,
    a_persons_token_ends_once_and_the_name_stays,
);

fn org() -> OrgUuid {
    OrgUuid(Uuid::now_v7())
}

fn provider() -> IdentityProvider {
    let scoped = ScopedRole::new(Role::Deployer).in_project(id("shop/api"));
    let rule = |group: &str, role| GroupRule { group: group.to_owned(), role };
    IdentityProvider {
        id: id("company"),
        uuid: Uuid::now_v7(),
        description: "all of us".to_owned(),
        issuer: IssuerUrl::new("https://login.example.com/acme").unwrap(),
        client_id: "canyon".to_owned(),
        scopes: vec!["openid".to_owned(), "groups".to_owned()],
        name_claim: "email".to_owned(),
        groups_claim: "groups".to_owned(),
        jwks: Some(json!({ "keys": [{ "kty": "RSA", "n": "AQAB", "e": "AQAB", "x": [1, null] }] })),
        rules: vec![
            rule("platform", GroupRole::Organization(Role::Admin)),
            rule("shop", GroupRole::Scoped(scoped)),
        ],
        created_at: at(0),
        updated_at: at(0),
        version: 1,
    }
}

async fn of_16_identity_providers_of_one_name_one_is_created_and_reads_back_completely(
    table: Table,
) {
    let (org, other) = (org(), org());
    let made = race(|_| {
        let (table, provider) = (table.clone(), provider());
        async move {
            let made = table.create_identity_provider(org, &provider, &record()).await.unwrap();
            (made, provider)
        }
    })
    .await;
    let winners: Vec<_> = made.iter().filter(|(made, _)| *made == Created::Yes).collect();
    assert_eq!(winners.len(), 1);
    let winner = &winners[0].1;
    assert_eq!(table.identity_provider(org, &winner.id).await.unwrap().as_ref(), Some(winner));
    assert_eq!(table.identity_provider(other, &winner.id).await.unwrap(), None);
    let request = PageRequest { limit: 10, after: None };
    let page = table.identity_providers(org, &request).await.unwrap();
    assert_eq!(page.items, std::slice::from_ref(winner));
    assert!(table.identity_providers(other, &request).await.unwrap().items.is_empty());
}

async fn a_change_or_deletion_of_an_identity_provider_from_a_stale_version_is_lost(table: Table) {
    let (org, first) = (org(), provider());
    table.create_identity_provider(org, &first, &record()).await.unwrap();
    let saved = race(|n| {
        let description = n.to_string();
        let (table, after) =
            (table.clone(), IdentityProvider { description, version: 2, ..first.clone() });
        async move { table.save_identity_provider(org, 1, &after, &record()).await.unwrap() }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
    let before = everything(&table).await;
    assert_eq!(table.delete_identity_provider(org, &first, &record()).await.unwrap(), Deleted::No);
    assert_eq!(everything(&table).await, before);
    let now = table.identity_provider(org, &first.id).await.unwrap().unwrap();
    assert_eq!(table.delete_identity_provider(org, &now, &record()).await.unwrap(), Deleted::Yes);
    assert_eq!(table.identity_provider(org, &first.id).await.unwrap(), None);
}

async fn a_persons_token_ends_once_and_the_name_stays(table: Table) {
    let (org, other) = (org(), org());
    let issued = TokenRecord { grant: Some(provider().grant()), ..token(org, 1, "secret") };
    let person = issued.principal.id;
    for name in ["Ada Byron", "Ada Lovelace"] {
        let secret = TokenRecord { hash: token(org, 1, name).hash, ..issued.clone() };
        let name = KnownPrincipal::new(person, name);
        let made = table.issue_token(&secret, at(900), name, &record()).await.unwrap();
        assert_eq!(made, Created::Yes);
        assert_eq!(table.token_by_secret(&secret.hash).await.unwrap(), Some(secret));
    }
    let secret = TokenRecord { hash: token(org, 1, "Ada Byron").hash, ..issued };
    let ended = race(|_| {
        let (table, secret) = (table.clone(), secret.clone());
        async move { table.revoke_issued_token(&secret, &record()).await.unwrap() }
    })
    .await;
    assert_eq!(count(&ended, &Deleted::Yes), 1, "{ended:?}");
    assert_eq!(table.token_by_secret(&secret.hash).await.unwrap(), None);
    let unknown = PrincipalId(Uuid::from_u128(7));
    let names = table.known_principals(org, &[person, unknown]).await.unwrap();
    assert_eq!(names, [KnownPrincipal::new(person, "Ada Lovelace").unwrap()]);
    assert!(table.known_principals(other, &[person]).await.unwrap().is_empty());
}
