//! Runner profiles: each change is conditional on the version that was read.

use crate::world::{at, count, id, race, record};
use canyon_domain::ids::OrgUuid;
use canyon_domain::runner_profile::{ProfileSettings, RunnerProfile};
use canyon_store::Table;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::PageRequest;
use serde_json::{Value, json};
use uuid::Uuid;

on_each_table!(
    a_profile_with_nulls_and_deep_values_reads_back,
    of_16_changes_of_one_version_one_wins,
);

pub(crate) fn profile(name: &str, job: Value) -> RunnerProfile {
    let Value::Object(job) = job else { panic!("{job}") };
    let agents = Some(json!({ "ids": ["a1"] }));
    RunnerProfile {
        id: id(name),
        description: None,
        settings: ProfileSettings::parse(agents, job).unwrap(),
        created_at: at(0),
        updated_at: at(0),
        version: 1,
    }
}

async fn a_profile_with_nulls_and_deep_values_reads_back(table: Table) {
    let (org, other) = (OrgUuid(Uuid::now_v7()), OrgUuid(Uuid::now_v7()));
    let mut made = profile("production/eu", json!({ "image": null, "environment": { "A": "" } }));
    // A table's attribute nests 32 levels.
    let deep = (0..50).fold(json!(0), |inner, _| json!({ "x": inner }));
    made.settings.job.insert("pod_template".to_owned(), deep);
    let created = table.create_runner_profile(org, &made, &record()).await.unwrap();
    assert_eq!(created, Created::Yes);
    assert_eq!(table.runner_profile(org, &made.id).await.unwrap(), Some(made.clone()));
    assert_eq!(table.runner_profile(other, &made.id).await.unwrap(), None);
    let again = table.create_runner_profile(org, &made, &record()).await.unwrap();
    assert_eq!(again, Created::Exists);
    let all = PageRequest { limit: 10, after: None };
    assert_eq!(table.runner_profiles(org, &all).await.unwrap().items, [made.clone()]);
    assert!(table.runner_profiles(other, &all).await.unwrap().items.is_empty());
    for deleted in [Deleted::Yes, Deleted::No] {
        let gone = table.delete_runner_profile(org, &made.id, &record()).await.unwrap();
        assert_eq!(gone, deleted);
    }
}

async fn of_16_changes_of_one_version_one_wins(table: Table) {
    let org = OrgUuid(Uuid::now_v7());
    let made = profile("small", json!({ "memory_limit": 512 }));
    table.create_runner_profile(org, &made, &record()).await.unwrap();
    let saved = race(|n| {
        let (table, mut changed) = (table.clone(), made.clone());
        changed.description = Some(n.to_string());
        changed.version += 1;
        async move { table.save_runner_profile(org, &changed, &record()).await.unwrap() }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
}
