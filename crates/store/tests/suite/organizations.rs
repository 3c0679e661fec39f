//! An organization's name is unique, and a token's secret is valid until it is revoked.

use crate::world::{at, count, everything, hash, id, principal, race, record};
use canyon_domain::ids::{OrgUuid, PrincipalId};
use canyon_domain::inventory::{AgentRequests, Organization};
use canyon_domain::principal::{Principal, Role, SignIn};
use canyon_domain::scoped_role::ScopedRole;
use canyon_store::Table;
use canyon_store::organizations::TokenRecord;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::PageRequest;
use uuid::Uuid;

on_each_table!(
    of_16_creators_of_one_organization_one_wins_and_the_others_write_nothing,
    a_secret_finds_its_token_until_one_of_16_callers_revokes_it,
    a_secret_is_unique,
    the_settings_of_an_organization_are_the_same_by_its_name_and_by_its_uuid,
);

const ALL: PageRequest = PageRequest { limit: 100, after: None };

fn organization(uuid: u128) -> Organization {
    let uuid = OrgUuid(Uuid::from_u128(uuid));
    Organization::new(id("acme"), uuid, at(0), principal())
}

pub(crate) fn token(org: OrgUuid, number: u128, secret: &str) -> TokenRecord {
    let principal = Principal {
        id: PrincipalId(Uuid::from_u128(number)),
        org,
        org_id: id("acme"),
        role: Role::Admin,
        scoped_roles: vec![ScopedRole {
            env_type: Some(id("development")),
            ..ScopedRole::new(Role::Viewer).in_project(id("shop"))
        }],
        runner: None,
        operator: false,
        sign_in: SignIn::default(),
    };
    TokenRecord {
        hash: hash(secret),
        principal,
        description: "for tests".to_owned(),
        created_at: at(0),
        expires_at: number.is_multiple_of(2).then(|| at(3_600)),
        labels: [].into(),
        grant: None,
    }
}

async fn of_16_creators_of_one_organization_one_wins_and_the_others_write_nothing(table: Table) {
    let founded = race(|n| {
        let (table, founded) = (table.clone(), organization(n as u128));
        let token = token(founded.uuid, 1, &format!("secret {n}"));
        async move { table.create_organization(&founded, &token, &record()).await.unwrap() }
    })
    .await;
    assert_eq!(count(&founded, &Created::Yes), 1, "{founded:?}");
    assert_eq!(count(&founded, &Created::Exists), 15, "{founded:?}");
    let winner = founded.iter().position(|made| *made == Created::Yes).unwrap();
    let winner = organization(winner as u128);
    assert_eq!(table.organization_named(&winner.id).await.unwrap(), Some(winner.clone()));
    assert_eq!(table.organization(winner.uuid).await.unwrap(), Some(winner));
    assert_eq!(
        everything(&table).await.len(),
        6,
        "two for the organization, two for its token, its name, one record"
    );
}

async fn a_secret_finds_its_token_until_one_of_16_callers_revokes_it(table: Table) {
    let acme = organization(1);
    let (kept, revoked) = (token(acme.uuid, 1, "kept"), token(acme.uuid, 2, "revoked"));
    table.create_organization(&acme, &kept, &record()).await.unwrap();
    assert_eq!(table.create_token(&revoked, &record()).await.unwrap(), Created::Yes);
    for token in [&kept, &revoked] {
        assert_eq!(table.token_by_secret(&token.hash).await.unwrap().as_ref(), Some(token));
    }
    let listed = table.tokens(acme.uuid, &ALL).await.unwrap().items;
    assert_eq!(listed, [kept.clone(), revoked.clone()]);

    let outcomes = race(|_| {
        let (table, id) = (table.clone(), revoked.principal.id.0);
        async move { table.delete_token(acme.uuid, id, &record()).await.unwrap() }
    })
    .await;
    assert_eq!(count(&outcomes, &Deleted::Yes), 1, "{outcomes:?}");
    assert_eq!(table.token_by_secret(&revoked.hash).await.unwrap(), None);
    assert_eq!(table.tokens(acme.uuid, &ALL).await.unwrap().items, [kept]);
}

async fn a_secret_is_unique(table: Table) {
    let acme = organization(1);
    table.create_organization(&acme, &token(acme.uuid, 1, "same"), &record()).await.unwrap();
    let before = everything(&table).await;
    let again = token(acme.uuid, 2, "same");
    assert_eq!(table.create_token(&again, &record()).await.unwrap(), Created::Exists);
    assert_eq!(everything(&table).await, before);
}

async fn the_settings_of_an_organization_are_the_same_by_its_name_and_by_its_uuid(table: Table) {
    let acme = organization(1);
    let refusing = Organization { agent_requests: AgentRequests::Refused, ..acme.clone() };
    assert_eq!(table.update_organization(&refusing, &record()).await.unwrap(), Saved::Lost);
    assert_eq!(everything(&table).await.len(), 0, "a change creates no organization");
    table.create_organization(&acme, &token(acme.uuid, 1, "first"), &record()).await.unwrap();
    assert_eq!(table.update_organization(&refusing, &record()).await.unwrap(), Saved::Yes);
    assert_eq!(table.organization(acme.uuid).await.unwrap(), Some(refusing.clone()));
    assert_eq!(table.organization_named(&acme.id).await.unwrap(), Some(refusing));
    assert_eq!(everything(&table).await.len(), 7, "one record more");
}
