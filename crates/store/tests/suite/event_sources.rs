//! A scope has one event source, a change moves its guard, and a rejection is recorded once.

use crate::world::{at, count, everything, id, race, record, record_at};
use canyon_domain::audit_filter::AuditFilter;
use canyon_domain::event_source::{EventSource, Scope};
use canyon_domain::ids::OrgUuid;
use canyon_domain::principal::Role;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::PageRequest;
use canyon_store::{Table, keys};
use uuid::Uuid;

on_each_table!(
    of_16_event_sources_of_one_scope_one_is_created_and_its_deletion_frees_the_scope,
    an_id_is_unique_in_all_scopes,
    of_16_changes_to_one_scope_one_wins_and_the_former_scope_is_free,
    a_change_from_a_stale_version_is_lost_and_writes_nothing,
    all_event_sources_are_listed_and_none_of_another_organization,
    a_rejection_is_recorded_once_for_all_deliveries_of_an_event,
);

fn org() -> OrgUuid {
    OrgUuid(Uuid::now_v7())
}

/// `source("ci", "com.acme.ci deploys pay")`: source, rule and project; `*` means any.
pub(crate) fn source(name: &str, scope: &str) -> EventSource {
    let parts: Vec<_> = scope.split(' ').map(|part| (part != "*").then_some(part)).collect();
    EventSource {
        id: id(name),
        uuid: Uuid::now_v7(),
        scope: Scope {
            account: id("111122223333"),
            source: parts[0].map(id),
            rule: parts[1].map(id),
            project: parts[2].map(id),
        },
        role: Role::Deployer,
        created_at: at(0),
        updated_at: at(0),
        version: 1,
    }
}

fn changed(before: &EventSource, scope: &str) -> EventSource {
    let EventSource { scope, .. } = source("any", scope);
    EventSource { scope, updated_at: at(1), version: before.version + 1, ..before.clone() }
}

async fn make(table: &Table, org: OrgUuid, source: &EventSource) {
    let made = table.create_event_source(org, source, &record()).await.unwrap();
    assert_eq!(made, Created::Yes, "{source:?}");
}

async fn stored(table: &Table, org: OrgUuid, name: &str) -> Option<EventSource> {
    table.event_source(org, &id(name)).await.unwrap()
}

async fn of_16_event_sources_of_one_scope_one_is_created_and_its_deletion_frees_the_scope(
    table: Table,
) {
    let org = org();
    for scope in ["* * *", "com.acme.ci * *", "* deploys *", "* * pay", "com.acme.ci deploys pay"] {
        let before = everything(&table).await.len();
        for _ in 0..2 {
            let made = race(|n| {
                let (table, source) = (table.clone(), source(&format!("ci-{n}"), scope));
                async move {
                    (table.create_event_source(org, &source, &record()).await.unwrap(), source)
                }
            })
            .await;
            let winners: Vec<_> = made.iter().filter(|(made, _)| *made == Created::Yes).collect();
            assert_eq!(winners.len(), 1, "{scope}");
            let winner = winners[0].1.clone();
            assert_eq!(stored(&table, org, winner.id.as_str()).await, Some(winner.clone()));
            let gone = race(|_| {
                let (table, winner) = (table.clone(), winner.clone());
                async move { table.delete_event_source(org, &winner, &record()).await.unwrap() }
            })
            .await;
            assert_eq!(count(&gone, &Deleted::Yes), 1, "{gone:?}");
        }
        let after = everything(&table).await.len();
        assert_eq!(
            after - before,
            4,
            "two creations and two deletions left their records, {scope}"
        );
    }
}

async fn an_id_is_unique_in_all_scopes(table: Table) {
    let org = org();
    make(&table, org, &source("ci", "* * *")).await;
    let before = everything(&table).await;
    let again = source("ci", "com.acme.ci * *");
    let made = table.create_event_source(org, &again, &record()).await.unwrap();
    assert_eq!(made, Created::Exists);
    assert_eq!(everything(&table).await, before);
}

async fn of_16_changes_to_one_scope_one_wins_and_the_former_scope_is_free(table: Table) {
    let org = org();
    let all: Vec<_> = (0..16).map(|n| source(&format!("ci-{n}"), &format!("s{n} * *"))).collect();
    for source in &all {
        make(&table, org, source).await;
    }
    let saved = race(|n| {
        let (table, before) = (table.clone(), all[n].clone());
        let after = changed(&before, "* * pay");
        async move { table.save_event_source(org, &before, &after, &record()).await.unwrap() }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
    let winner = saved.iter().position(|saved| *saved == Saved::Yes).unwrap();
    for (n, before) in all.iter().enumerate() {
        let now = stored(&table, org, before.id.as_str()).await.unwrap();
        assert_eq!(now, if n == winner { changed(before, "* * pay") } else { before.clone() });
    }
    make(&table, org, &source("next", &format!("s{winner} * *"))).await;
    let rival = source("rival", "* * pay");
    let made = table.create_event_source(org, &rival, &record()).await.unwrap();
    assert_eq!(made, Created::Exists);
}

async fn a_change_from_a_stale_version_is_lost_and_writes_nothing(table: Table) {
    let org = org();
    let first = source("ci", "* * *");
    make(&table, org, &first).await;
    let second = changed(&first, "com.acme.ci * *");
    let saved = table.save_event_source(org, &first, &second, &record()).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    let same_scope = EventSource { version: 3, updated_at: at(2), ..second.clone() };
    let before = everything(&table).await;
    for after in [changed(&first, "* deploys *"), same_scope.clone()] {
        let saved = table.save_event_source(org, &first, &after, &record()).await.unwrap();
        assert_eq!(saved, Saved::Lost, "{after:?}");
    }
    let deleted = table.delete_event_source(org, &first, &record()).await.unwrap();
    assert_eq!(deleted, Deleted::No);
    assert_eq!(everything(&table).await, before);
    let saved = table.save_event_source(org, &second, &same_scope, &record()).await.unwrap();
    assert_eq!((saved, stored(&table, org, "ci").await), (Saved::Yes, Some(same_scope)));
}

async fn all_event_sources_are_listed_and_none_of_another_organization(table: Table) {
    let (ours, theirs) = (org(), org());
    let mut model = Vec::new();
    for n in 0..103 {
        let source = source(&format!("ci-{n:03}"), &format!("com.acme.{n} * *"));
        make(&table, ours, &source).await;
        model.push(source);
    }
    make(&table, theirs, &model[7]).await;
    assert_eq!(table.all_event_sources(ours).await.unwrap(), model);
    assert_eq!(table.all_event_sources(theirs).await.unwrap(), [model[7].clone()]);
    assert_eq!(stored(&table, theirs, "ci-008").await, None);
    let deleted = table.delete_event_source(theirs, &model[8], &record()).await.unwrap();
    let after = changed(&model[8], "* * *");
    let saved = table.save_event_source(theirs, &model[8], &after, &record()).await.unwrap();
    assert_eq!((deleted, saved), (Deleted::No, Saved::Lost));
    assert_eq!(table.all_event_sources(ours).await.unwrap(), model);
    assert_ne!(
        keys::event_scope(ours, &model[0].scope).sk,
        keys::event_scope(ours, &model[1].scope).sk
    );
}

async fn a_rejection_is_recorded_once_for_all_deliveries_of_an_event(table: Table) {
    let (ours, theirs) = (org(), org());
    let reject = |org, event: &'static str, second| {
        let (table, record) = (table.clone(), record_at(at(second)));
        async move { table.record_rejection(org, event, &record, at(1_000)).await.unwrap() }
    };
    let recorded = race(|n| reject(ours, "e-1", n as i64)).await;
    assert_eq!(count(&recorded, &Created::Yes), 1, "{recorded:?}");
    assert_eq!(reject(ours, "e-2", 20).await, Created::Yes);
    assert_eq!(
        reject(theirs, "e-1", 21).await,
        Created::Yes,
        "event ids of organizations are separate"
    );
    let all = PageRequest { limit: 100, after: None };
    for (org, wanted) in [(ours, 2), (theirs, 1)] {
        let page =
            table.audit_records(org, at(0), at(100), &AuditFilter::default(), &all).await.unwrap();
        assert_eq!(page.items.len(), wanted);
    }
}
