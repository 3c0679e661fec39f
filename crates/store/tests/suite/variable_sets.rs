//! Sets of variables: each change is conditional on the version that was read, and on the object of the scope.

use crate::world::{World, at, count, id, race, record, runner};
use canyon_domain::ids::PrincipalId;
use canyon_domain::json::Json;
use canyon_domain::variable_scope::{VariableScope, VariableTarget};
use canyon_domain::variables::{Variable, VariableKey, VariableKind, VariableSet, VariableValue};
use canyon_store::outcome::{Deleted, Saved};
use canyon_store::page::PageRequest;
use canyon_store::variable_sets::ScopeOwner;
use canyon_store::{Table, meter::Meter};
use uuid::Uuid;

on_each_table!(
    a_set_reads_back_with_deep_values_and_long_numbers,
    of_16_changes_of_one_version_one_wins,
    a_set_is_written_only_while_its_object_is_the_one_that_was_read,
    the_set_of_a_runner_goes_with_it_and_only_with_it,
    the_sets_of_an_environment_are_read_in_one_request,
);

fn set(scope: &str, value: Json) -> VariableSet {
    let mut set = VariableSet::empty(scope.parse().unwrap(), None, at(0));
    let key = VariableKey::new(VariableKind::Terraform, "a").unwrap();
    let variable = Variable {
        value: VariableValue::Plain(value),
        description: None,
        updated_at: at(0),
        updated_by: PrincipalId(Uuid::nil()),
    };
    set.variables.insert(key, variable);
    set.version = 1;
    set
}

async fn a_set_reads_back_with_deep_values_and_long_numbers(table: Table) {
    let World { table, org } = World::new(table).await;
    let deep = format!("{}123456789012345678901234567890.10{}", "[".repeat(60), "]".repeat(60));
    let mut made = set("organization", Json::parse(&deep).unwrap());
    let key = VariableKey::new(VariableKind::Environment, "TOKEN").unwrap();
    let mut secret = made.variables.values().next().unwrap().clone();
    secret.value = VariableValue::Sealed("c2VhbGVk".to_owned());
    made.variables.insert(key, secret);
    assert_eq!(table.save_variable_set(org, &made, None, &record()).await.unwrap(), Saved::Yes);
    let organization = VariableScope::Organization;
    assert_eq!(table.variable_set(org, &organization).await.unwrap(), Some(made.clone()));
    assert_eq!(table.save_variable_set(org, &made, None, &record()).await.unwrap(), Saved::Lost);
    let all = PageRequest { limit: 10, after: None };
    let listed = table.variable_sets(org, &all, |_, _| true).await.unwrap();
    assert_eq!(listed.items, [made]);
    assert!(table.variable_sets(org, &all, |_, _| false).await.unwrap().items.is_empty());
    let other = canyon_domain::ids::OrgUuid(Uuid::now_v7());
    assert_eq!(table.variable_set(other, &organization).await.unwrap(), None);
}

async fn of_16_changes_of_one_version_one_wins(table: Table) {
    let World { table, org } = World::new(table).await;
    let made = set("organization", "x".into());
    table.save_variable_set(org, &made, None, &record()).await.unwrap();
    let saved = race(|n| {
        let (table, mut changed) = (table.clone(), made.clone());
        changed.updated_at = at(n.try_into().unwrap());
        changed.version += 1;
        async move { table.save_variable_set(org, &changed, None, &record()).await.unwrap() }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
}

async fn a_set_is_written_only_while_its_object_is_the_one_that_was_read(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let (org, table) = (world.org, &world.table);
    let owner = Some(ScopeOwner { created_at: dev.created_at });
    let made = set("environment:shop/dev", "x".into());
    assert_eq!(table.save_variable_set(org, &made, owner, &record()).await.unwrap(), Saved::Yes);
    let mut changed = made.clone();
    changed.version += 1;
    let former = Some(ScopeOwner { created_at: at(-1) });
    let lost = table.save_variable_set(org, &changed, former, &record()).await.unwrap();
    assert_eq!(lost, Saved::Lost, "another environment has the name by now");
    let deleted = table.delete_environment(org, &dev, &record()).await.unwrap();
    assert_eq!(deleted, Deleted::Yes);
    assert_eq!(table.variable_set(org, &made.scope).await.unwrap(), None, "it goes with it");
    assert_eq!(table.save_variable_set(org, &made, owner, &record()).await.unwrap(), Saved::Lost);
    assert_eq!(table.variable_set(org, &made.scope).await.unwrap(), None);
}

async fn the_set_of_a_runner_goes_with_it_and_only_with_it(table: Table) {
    let (world, _) = World::with_dev(table).await;
    let (org, table) = (world.org, &world.table);
    let unused = runner("unused", "local");
    table.create_runner(org, &unused, &record()).await.unwrap();
    let used = table.runner(org, &id("laptop")).await.unwrap().unwrap();
    for runner in [&unused, &used] {
        let made = set(&format!("runner:{}", runner.id), "x".into());
        let owner = Some(ScopeOwner { created_at: runner.created_at });
        let saved = table.save_variable_set(org, &made, owner, &record()).await.unwrap();
        assert_eq!(saved, Saved::Yes, "{}", runner.id);
        let kept = || table.variable_set(org, &made.scope);
        let deleted = table.delete_runner(org, &runner.id, &record()).await.unwrap();
        if *runner == used {
            assert_eq!(deleted, Deleted::No, "an environment uses it");
            assert_eq!(kept().await.unwrap(), Some(made.clone()));
        } else {
            assert_eq!(deleted, Deleted::Yes);
            assert_eq!(kept().await.unwrap(), None);
            let saved = table.save_variable_set(org, &made, owner, &record()).await.unwrap();
            assert_eq!(saved, Saved::Lost, "there is no such runner by now");
            assert_eq!(kept().await.unwrap(), None);
        }
    }
}

async fn the_sets_of_an_environment_are_read_in_one_request(table: Table) {
    let World { table, org } = World::new(table).await;
    let run = VariableTarget {
        runner: &id("laptop"),
        project: &id("pay/shop"),
        env: &id("dev"),
        env_type: &id("development"),
    };
    let scopes = VariableScope::covering(run);
    for scope in &scopes {
        let made = set(&scope.to_string(), scope.to_string().as_str().into());
        table.save_variable_set(org, &made, None, &record()).await.unwrap();
    }
    let meter = Meter::default();
    let mut found = meter.watch(&table).variable_sets_of(org, &scopes).await.unwrap();
    assert_eq!(meter.take().requests(), 1);
    found.sort_by(|a, b| a.scope.cmp(&b.scope));
    let found: Vec<_> = found.into_iter().map(|set| set.scope).collect();
    assert_eq!(found, scopes);
}
