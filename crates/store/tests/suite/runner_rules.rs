//! A scope has one rule, a rule refers to existing things, and their uses are counted.

use crate::world::{World, at, count, env_type, everything, id, project, race, record, runner};
use canyon_domain::ids::{EnvTypeId, ProjectId, RuleId};
use canyon_domain::inventory::RunnerRule;
use canyon_domain::runner_rules::Scope;
use canyon_store::outcome::{Created, Deleted};
use canyon_store::page::PageRequest;
use canyon_store::runner_rules::RuleFilter;
use canyon_store::{Table, keys};
use uuid::Uuid;

on_each_table!(
    of_16_rules_of_one_scope_one_is_created_and_its_deletion_frees_the_scope,
    a_rule_for_an_absent_thing_is_refused_and_nothing_is_written,
    rules_are_listed_by_filter_and_all_rules_are_found,
);

fn rule(runner: &str, project: Option<&str>, env_type: Option<&str>) -> RunnerRule {
    let scope = Scope { project: project.map(id), env_type: env_type.map(id) };
    RunnerRule {
        id: RuleId(Uuid::now_v7()),
        runner_id: id(runner),
        fallback_runner_ids: Vec::new(),
        scope,
        created_at: at(0),
    }
}

async fn of_16_rules_of_one_scope_one_is_created_and_its_deletion_frees_the_scope(table: Table) {
    let world = World::new(table).await;
    for name in ["other", "third"] {
        world.table.create_runner(world.org, &runner(name, "local"), &record()).await.unwrap();
    }
    let uses = async || {
        let runners = ["laptop", "other"].map(|name| keys::runner(world.org, &id(name)));
        let of_type = keys::env_type(world.org, &id("testing"));
        let of_first = world.uses(&runners[0]).await + world.uses(&runners[1]).await;
        let of_fallback = world.uses(&keys::runner(world.org, &id("third"))).await;
        (of_first, of_fallback, world.uses(&of_type).await)
    };
    let scopes = [
        (None, None),
        (Some("shop"), None),
        (None, Some("testing")),
        (Some("shop"), Some("testing")),
    ];
    for (project, env_type) in scopes {
        for round in 0..2 {
            let made = race(|n| {
                let World { table, org } = world.clone();
                let mut rule = rule(["laptop", "other"][n % 2], project, env_type);
                rule.fallback_runner_ids = vec![id("third")];
                async move { (table.create_rule(org, &rule, &record()).await.unwrap(), rule) }
            })
            .await;
            let winners: Vec<_> = made.iter().filter(|(made, _)| *made == Created::Yes).collect();
            assert_eq!(winners.len(), 1, "{project:?} {env_type:?}");
            assert!(made.iter().all(|(made, _)| matches!(made, Created::Yes | Created::Exists)));
            let winner = winners[0].1.clone();
            assert_eq!(uses().await, (1, 1, i64::from(env_type.is_some())));
            assert_eq!(world.table.rule(world.org, winner.id).await.unwrap(), Some(winner.clone()));
            let gone = race(|_| {
                let (World { table, org }, winner) = (world.clone(), winner.clone());
                async move { table.delete_rule(org, &winner, &record()).await.unwrap() }
            })
            .await;
            assert_eq!(count(&gone, &Deleted::Yes), 1, "{gone:?} in round {round}");
            assert_eq!(uses().await, (0, 0, 0));
        }
    }
}

async fn a_rule_for_an_absent_thing_is_refused_and_nothing_is_written(table: Table) {
    let World { table, org } = World::new(table).await;
    let before = everything(&table).await;
    let mut with_absent = rule("laptop", None, None);
    with_absent.fallback_runner_ids = vec![id("absent")];
    let cases = [
        (rule("absent", None, None), 2),
        (with_absent, 3),
        (rule("laptop", None, Some("absent")), 3),
    ];
    for (rule, missing) in cases {
        let made = table.create_rule(org, &rule, &record()).await.unwrap();
        assert_eq!(made, Created::Missing(missing), "{rule:?}");
    }
    let never_made = rule("laptop", None, None);
    assert_eq!(table.delete_rule(org, &never_made, &record()).await.unwrap(), Deleted::No);
    assert_eq!(everything(&table).await, before);
    let group = rule("laptop", Some("a-group/not/made"), None);
    assert_eq!(table.create_rule(org, &group, &record()).await.unwrap(), Created::Yes);
}

async fn rules_are_listed_by_filter_and_all_rules_are_found(table: Table) {
    let World { table, org } = World::new(table).await;
    table.create_runner(org, &runner("other", "local"), &record()).await.unwrap();
    table.create_env_type(org, &env_type("staging"), &record()).await.unwrap();
    table.create_project(org, &project("pay"), &record()).await.unwrap();
    let mut model = Vec::new();
    for n in 0..110_usize {
        let named = format!("group-{n}");
        let project = [Some("pay"), Some(named.as_str())][usize::from(n > 2)];
        let rule = rule(
            ["laptop", "other"][usize::from(n % 10 == 0)],
            project,
            [None, Some("testing"), Some("staging")][n % 3],
        );
        assert_eq!(table.create_rule(org, &rule, &record()).await.unwrap(), Created::Yes);
        model.push(rule);
    }
    assert_eq!(table.all_rules(org).await.unwrap(), model);

    let (pay, staging): (ProjectId, EnvTypeId) = (id("pay"), id("staging"));
    let filters = [
        RuleFilter { runner: Some(id("other")), ..RuleFilter::default() },
        RuleFilter { project: Some(pay.clone()), ..RuleFilter::default() },
        RuleFilter { project: Some(pay), env_type: Some(staging), ..RuleFilter::default() },
    ];
    for (filter, expected) in filters.iter().zip([11, 3, 1]) {
        let request = PageRequest { limit: 100, after: None };
        let found = table.rules(org, filter, &request).await.unwrap();
        let wanted = model.iter().filter(|rule| {
            filter.runner.as_ref().is_none_or(|runner| *runner == rule.runner_id)
                && (filter.project.is_none() || filter.project == rule.scope.project)
                && (filter.env_type.is_none() || filter.env_type == rule.scope.env_type)
        });
        assert_eq!(found.items, wanted.cloned().collect::<Vec<_>>(), "{filter:?}");
        assert_eq!((found.items.len(), found.next), (expected, None), "{filter:?}");
    }
}
