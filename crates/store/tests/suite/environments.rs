//! An environment is created once from things that exist, and changes only from the version that
//! was read.

use crate::world::{World, count, environment, everything, id, project, race, record, runner};
use canyon_domain::inventory::Environment;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::PageRequest;
use canyon_store::{Table, keys};

on_each_table!(
    of_16_creators_of_an_environment_one_wins_and_its_parts_are_used_once,
    an_environment_of_an_absent_thing_is_refused_and_the_first_absent_thing_is_named,
    of_16_writers_that_read_one_version_one_wins,
    a_relink_moves_the_uses_from_some_runners_to_the_others,
    environments_of_one_project_are_listed_without_projects_of_the_same_prefix,
);

async fn of_16_creators_of_an_environment_one_wins_and_its_parts_are_used_once(table: Table) {
    let world = World::new(table).await;
    let made = race(|_| {
        let World { table, org } = world.clone();
        async move {
            table.create_environment(org, &environment("shop", "dev"), &record()).await.unwrap()
        }
    })
    .await;
    assert_eq!(count(&made, &Created::Yes), 1, "{made:?}");
    assert_eq!(count(&made, &Created::Exists), 15, "{made:?}");
    let parts = [
        keys::project(world.org, &id("shop")),
        keys::env_type(world.org, &id("testing")),
        keys::runner(world.org, &id("laptop")),
    ];
    for part in &parts {
        assert_eq!(world.uses(part).await, 1, "{part:?}");
    }
    let dev = world.env("dev").await;
    let gone = race(|_| {
        let (World { table, org }, dev) = (world.clone(), dev.clone());
        async move { table.delete_environment(org, &dev, &record()).await.unwrap() }
    })
    .await;
    assert_eq!(count(&gone, &Deleted::Yes), 1, "{gone:?}");
    for part in &parts {
        assert_eq!(world.uses(part).await, 0, "{part:?}");
    }
}

async fn an_environment_of_an_absent_thing_is_refused_and_the_first_absent_thing_is_named(
    table: Table,
) {
    let World { table, org } = World::new(table).await;
    let before = everything(&table).await;
    let break_reference: [fn(&mut Environment); 4] = [
        |environment| environment.project_id = id("absent"),
        |environment| environment.env_type_id = id("absent"),
        |environment| environment.runner_id = id("absent"),
        |environment| environment.fallback_runner_ids = vec![id("absent")],
    ];
    for (missing, break_reference) in (1..).zip(break_reference) {
        let mut dev = environment("shop", "dev");
        break_reference(&mut dev);
        let made = table.create_environment(org, &dev, &record()).await.unwrap();
        assert_eq!(made, Created::Missing(missing));
    }
    assert_eq!(everything(&table).await, before);
}

async fn of_16_writers_that_read_one_version_one_wins(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let saved = race(|n| {
        let (World { table, org }, mut dev) = (world.clone(), dev.clone());
        dev.status_message = Some(format!("by {n}"));
        dev.version += 1;
        async move { table.save_environment(org, &dev, &record()).await.unwrap() }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
    let winner = saved.iter().position(|saved| *saved == Saved::Yes).unwrap();
    let stored = world.env("dev").await;
    assert_eq!((stored.status_message, stored.version), (Some(format!("by {winner}")), 2));

    let before = everything(&world.table).await;
    let deleted = world.table.delete_environment(world.org, &dev, &record()).await.unwrap();
    assert_eq!(deleted, Deleted::No, "it is not as it was read");
    let mut absent = environment("shop", "absent");
    absent.version = 2;
    let saved = world.table.save_environment(world.org, &absent, &record()).await.unwrap();
    assert_eq!(saved, Saved::Lost);
    assert_eq!(everything(&world.table).await, before);
}

async fn a_relink_moves_the_uses_from_some_runners_to_the_others(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let World { table, org } = &world;
    for name in ["other", "third"] {
        table.create_runner(*org, &runner(name, "local"), &record()).await.unwrap();
    }
    let linked = |dev: &Environment| dev.runner_ids().cloned().collect::<Vec<_>>();
    let relinked = race(|n| {
        let (World { table, org }, mut dev) = (world.clone(), dev.clone());
        dev.runner_id = id(["other", "absent"][n % 2]);
        dev.fallback_runner_ids = vec![id("laptop")];
        dev.version += 1;
        let former = [id("laptop")];
        async move { table.relink_environment(org, &dev, &former, &record()).await.unwrap() }
    })
    .await;
    assert_eq!(count(&relinked, &Saved::Yes), 1, "{relinked:?}");
    let uses = async || {
        let runner = |name| keys::runner(*org, &id(name));
        let (first, second) =
            (world.uses(&runner("laptop")).await, world.uses(&runner("other")).await);
        (first, second, world.uses(&runner("third")).await)
    };
    assert_eq!(uses().await, (1, 1, 0));

    for (fallbacks, expected) in [
        (vec!["laptop"], (1, 1, 0)),
        (vec!["third", "laptop"], (1, 1, 1)),
        (vec!["third"], (0, 1, 1)),
        (vec![], (0, 1, 0)),
    ] {
        let mut next = world.env("dev").await;
        let former = linked(&next);
        next.fallback_runner_ids = fallbacks.iter().copied().map(id).collect();
        next.version += 1;
        let saved = table.relink_environment(*org, &next, &former, &record()).await.unwrap();
        assert_eq!((saved, uses().await), (Saved::Yes, expected), "{former:?} to {fallbacks:?}");
    }

    let mut next = world.env("dev").await;
    let former = linked(&next);
    next.fallback_runner_ids = vec![id("third"), id("laptop")];
    next.version += 1;
    table.relink_environment(*org, &next, &former, &record()).await.unwrap();
    let next = world.env("dev").await;
    let deleted = table.delete_environment(*org, &next, &record()).await.unwrap();
    assert_eq!((deleted, uses().await), (Deleted::Yes, (0, 0, 0)));
}

async fn environments_of_one_project_are_listed_without_projects_of_the_same_prefix(table: Table) {
    let World { table, org } = World::new(table).await;
    for name in ["shop-2", "shop/api"] {
        table.create_project(org, &project(name), &record()).await.unwrap();
    }
    for (project, env) in
        [("shop", "dev"), ("shop", "prod"), ("shop-2", "dev"), ("shop/api", "dev")]
    {
        let environment = environment(project, env);
        table.create_environment(org, &environment, &record()).await.unwrap();
    }
    let request = PageRequest { limit: 100, after: None };
    for (project, expected) in [(Some("shop"), 2), (Some("shop-2"), 1), (None, 4)] {
        let project = project.map(id);
        let page = table.environments(org, project.as_ref(), &request, |_| true).await.unwrap();
        assert_eq!(page.items.len(), expected, "{project:?}");
        assert!(
            page.items
                .iter()
                .all(|env| project.is_none() || project.as_ref() == Some(&env.project_id))
        );
    }
}
