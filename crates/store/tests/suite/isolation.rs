//! Two organizations with equal names neither see nor change anything of each other.

use crate::organizations::token;
use crate::pages::first;
use crate::world::{
    World, at, bundle, environment, everything, hash, id, principal, queued, record, renamed,
};
use canyon_domain::attempt::Outcome;
use canyon_domain::audit_filter::AuditFilter;
use canyon_domain::change::Change;
use canyon_domain::deployment::Deployment;
use canyon_domain::display_name::DisplayName;
use canyon_domain::ids::{OrgUuid, RuleId};
use canyon_domain::inventory::{Environment, Organization, RunnerRule};
use canyon_domain::lifecycle;
use canyon_domain::runner_rules::Scope;
use canyon_store::conditional::Item;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_lists::DeploymentFilter;
use canyon_store::deployments::{Accepted, IdempotencyRecord};
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::runner_rules::RuleFilter;
use canyon_store::{Table, keys};
use jiff::ToSpan;
use uuid::Uuid;

on_each_table!(
    two_organizations_with_the_same_ids_neither_see_nor_change_each_other,
    an_organization_finds_nothing_of_another,
);

/// Contents of both organizations, equal including the uuids.
struct Twin {
    rule: RunnerRule,
    dev: Environment,
    deployment: Deployment,
    key: IdempotencyRecord,
}

fn twin() -> Twin {
    let dev = environment("shop", "dev");
    let deployment = queued(&dev, 1);
    let key = IdempotencyRecord {
        by: principal().into(),
        key: "same".to_owned(),
        body: hash("body").0,
        deployment: deployment.id,
        expires_at: at(1) + 24.hours(),
    };
    let scope = Scope { project: Some(id("shop")), env_type: Some(id("testing")) };
    let rule_id = RuleId(Uuid::from_u128(5));
    let rule = RunnerRule {
        id: rule_id,
        runner_id: id("laptop"),
        fallback_runner_ids: Vec::new(),
        scope,
        created_at: at(0),
    };
    Twin { rule, dev, deployment, key }
}

async fn fill(table: &Table, number: u128, twin: &Twin) -> World {
    let org = OrgUuid(Uuid::from_u128(number));
    let name = ["acme", "acme-2"][number as usize % 2];
    let founded = Organization::new(id(name), org, at(0), principal());
    // The ids of tokens are equal too; only their secrets differ between the organizations.
    let token = token(org, 1, name);
    let made = table.create_organization(&founded, &token, &record()).await.unwrap();
    assert_eq!(made, Created::Yes);
    let world = World::of(table.clone(), org).await;
    assert_eq!(table.create_rule(org, &twin.rule, &record()).await.unwrap(), Created::Yes);
    assert_eq!(table.create_environment(org, &twin.dev, &record()).await.unwrap(), Created::Yes);
    assert_eq!(world.try_accept(&twin.deployment, Some(&twin.key)).await, Accepted::Yes);
    world
}

/// The items of an organization: those whose keys begin with it.
async fn items_of(world: &World) -> Vec<Item> {
    let prefix = keys::organization(world.org).pk;
    let mut items = everything(&world.table).await;
    items.retain(|item| item["pk"].as_s().unwrap().starts_with(&prefix));
    items
}

async fn two_organizations_with_the_same_ids_neither_see_nor_change_each_other(table: Table) {
    let twin = twin();
    let (ours, theirs) = (fill(&table, 1, &twin).await, fill(&table, 2, &twin).await);
    let before = items_of(&theirs).await;
    let org = ours.org;
    let name = DisplayName::try_from("Ours now".to_owned()).unwrap();
    table.change_project(org, &id("shop"), Some(&name), Change::Keep, &record()).await.unwrap();
    table.update_env_type(org, &id("testing"), &renamed(&name), &record()).await.unwrap();
    let mut runner = crate::world::runner("laptop", "local");
    runner.version = 2;
    table.save_runner(org, &runner, None, &record()).await.unwrap();
    assert_eq!(ours.table.due(at(1), 10).await.unwrap().len(), 2, "the launcher sees both");
    let mut over = ours.launch(twin.deployment.id, at(2)).await.unwrap();
    lifecycle::cancel(&mut over, principal(), at(3));
    lifecycle::end(&mut over, 1, Outcome::Cancelled, at(3)).unwrap();
    over.version += 1;
    assert_eq!(table.end_deployment(org, &over, at(3), Some(&record())).await.unwrap(), Saved::Yes);
    for filter in [DeploymentFilter::All, DeploymentFilter::Environment(twin.dev.uuid)] {
        let listed = table.deployments(org, &filter, &first(10)).await.unwrap().items;
        assert_eq!(listed, [over.clone()], "{filter:?}");
    }
    table.delete_rule(org, &twin.rule, &record()).await.unwrap();
    let dev = ours.env("dev").await;
    assert_eq!(table.delete_environment(org, &dev, &record()).await.unwrap(), Deleted::Yes);
    let deleted = [
        table.delete_project(org, &id("shop"), &[], &record()).await.unwrap(),
        table.delete_env_type(org, &id("testing"), &record()).await.unwrap(),
        table.delete_runner(org, &id("laptop"), &record()).await.unwrap(),
        table.delete_token(org, Uuid::from_u128(1), &record()).await.unwrap(),
    ];
    assert_eq!(deleted, [Deleted::Yes; 4]);
    assert_eq!(items_of(&theirs).await, before);
    let listed = table.deployments(theirs.org, &DeploymentFilter::All, &first(10)).await.unwrap();
    assert_eq!(listed.items, [twin.deployment]);
    assert!(table.token_by_secret(&hash("acme")).await.unwrap().is_some(), "their token is valid");
    assert!(
        table.token_by_secret(&hash("acme-2")).await.unwrap().is_none(),
        "our token is revoked"
    );
}

async fn an_organization_finds_nothing_of_another(table: Table) {
    let twin = twin();
    let theirs = fill(&table, 2, &twin).await;
    let before = everything(&table).await;
    let outsider = OrgUuid(Uuid::from_u128(3));
    let (shop, dev, testing, laptop) = (id("shop"), id("dev"), id("testing"), id("laptop"));
    let found = [
        table.organization(outsider).await.unwrap().is_some(),
        table.project(outsider, &shop).await.unwrap().is_some(),
        table.env_type(outsider, &testing).await.unwrap().is_some(),
        table.runner(outsider, &laptop).await.unwrap().is_some(),
        table.rule(outsider, twin.rule.id).await.unwrap().is_some(),
        table.environment(outsider, &shop, &dev).await.unwrap().is_some(),
        table.deployment(outsider, twin.deployment.id).await.unwrap().is_some(),
        table.bundle(outsider, twin.deployment.id).await.unwrap().is_some(),
        table.idempotency(outsider, &principal().into(), "same").await.unwrap().is_some(),
    ];
    assert_eq!(found, [false; 9]);
    let (by_env, filter) = (DeploymentFilter::Environment(twin.dev.uuid), RuleFilter::default());
    let all = first(100);
    let listed = [
        table.tokens(outsider, &all).await.unwrap().items.len(),
        table.projects(outsider, &all, |_| true).await.unwrap().items.len(),
        table.env_types(outsider, &all).await.unwrap().items.len(),
        table.runners(outsider, None, &all).await.unwrap().items.len(),
        table.rules(outsider, &filter, &all).await.unwrap().items.len(),
        table.environments(outsider, None, &all, |_| true).await.unwrap().items.len(),
        table.environments(outsider, Some(&shop), &all, |_| true).await.unwrap().items.len(),
        table.deployments(outsider, &DeploymentFilter::All, &all).await.unwrap().items.len(),
        table.deployments(outsider, &by_env, &all).await.unwrap().items.len(),
        table
            .audit_records(outsider, at(0), at(9), &AuditFilter::default(), &all)
            .await
            .unwrap()
            .items
            .len(),
    ];
    assert_eq!(listed, [0; 10]);

    let (mut env, mut step) = (theirs.env("dev").await, twin.deployment.clone());
    let deleted = table.delete_environment(outsider, &env, &record()).await.unwrap();
    env.version += 1;
    step.version += 1;
    let saved = [
        table.save_environment(outsider, &env, &record()).await.unwrap(),
        table.save_deployment(outsider, &step, Wake::None).await.unwrap(),
        table.end_deployment(outsider, &step, at(3), None).await.unwrap(),
    ];
    assert_eq!((deleted, saved), (Deleted::No, [Saved::Lost; 3]));
    let accepted =
        table.accept_deployment(outsider, &twin.deployment, &bundle(), &env, None, &record()).await;
    assert_eq!(accepted.unwrap(), Accepted::Lost);
    assert_eq!(table.delete_project(outsider, &shop, &[], &record()).await.unwrap(), Deleted::No);
    assert_eq!(
        table.delete_token(outsider, Uuid::from_u128(1), &record()).await.unwrap(),
        Deleted::No
    );
    assert_eq!(everything(&table).await, before);
}
