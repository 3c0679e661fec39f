//! Named things are created once, changed from the version that was read, and deleted if nothing
//! uses them.

use crate::world::{
    World, at, count, env_type, environment, everything, id, project, race, raw, record, renamed,
    runner,
};
use canyon_domain::change::Change;
use canyon_domain::display_name::DisplayName;
use canyon_domain::ids::{EnvTypeId, ProjectId, RunnerId};
use canyon_domain::runner::agents::ProfileName;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::{Table, keys};

on_each_table!(
    of_16_creators_of_one_name_one_wins_with_one_record,
    of_16_deleters_one_wins_and_a_thing_in_use_is_not_deleted,
    a_rename_changes_an_existing_thing_and_creates_none,
    of_16_writers_that_read_one_version_of_a_runner_one_wins,
    saving_a_runner_sets_and_removes_its_secrets_and_keeps_its_uses,
);

async fn of_16_creators_of_one_name_one_wins_with_one_record(table: Table) {
    let world = World::new(table).await;
    let before = world.records().await;
    for kind in 0..3 {
        let made = race(|_| {
            let World { table, org } = world.clone();
            async move {
                match kind {
                    0 => table.create_env_type(org, &env_type("ours"), &record()).await.unwrap(),
                    1 => table.create_project(org, &project("ours"), &record()).await.unwrap(),
                    _ => {
                        table.create_runner(org, &runner("ours", "local"), &record()).await.unwrap()
                    }
                }
            }
        })
        .await;
        assert_eq!(count(&made, &Created::Yes), 1, "{kind} {made:?}");
        assert_eq!(count(&made, &Created::Exists), 15, "{kind} {made:?}");
    }
    assert_eq!(world.records().await, before + 3);
}

async fn delete(World { table, org }: &World, kind: usize) -> Deleted {
    let (env_type, project, runner): (EnvTypeId, ProjectId, RunnerId) =
        (id("testing"), id("shop"), id("laptop"));
    match kind {
        0 => table.delete_env_type(*org, &env_type, &record()).await.unwrap(),
        1 => table.delete_project(*org, &project, &[], &record()).await.unwrap(),
        _ => table.delete_runner(*org, &runner, &record()).await.unwrap(),
    }
}

async fn of_16_deleters_one_wins_and_a_thing_in_use_is_not_deleted(table: Table) {
    let world = World::new(table).await;
    let dev = environment("shop", "dev");
    world.table.create_environment(world.org, &dev, &record()).await.unwrap();
    let before = everything(&world.table).await;
    for kind in 0..3 {
        assert_eq!(delete(&world, kind).await, Deleted::No, "{kind}");
    }
    assert_eq!(everything(&world.table).await, before);

    world.table.delete_environment(world.org, &dev, &record()).await.unwrap();
    for kind in 0..3 {
        let deleted = race(|_| {
            let world = world.clone();
            async move { delete(&world, kind).await }
        })
        .await;
        assert_eq!(count(&deleted, &Deleted::Yes), 1, "{kind} {deleted:?}");
    }
    assert_eq!(world.table.project(world.org, &id("shop")).await.unwrap(), None);
}

async fn a_rename_changes_an_existing_thing_and_creates_none(table: Table) {
    let world = World::new(table).await;
    let World { table, org } = &world;
    let name = DisplayName::try_from("The Shop".to_owned()).unwrap();
    let shop = id("shop");
    let saved = table
        .change_project(*org, &shop, Some(&name), Change::Keep, &crate::world::record_at(at(5)))
        .await;
    assert_eq!(saved.unwrap(), Saved::Yes);
    let found = table.project(*org, &shop).await.unwrap().unwrap();
    assert_eq!(
        (found.display_name, found.updated_at, found.created_at),
        (name.clone(), at(5), at(0))
    );
    table.update_env_type(*org, &id("testing"), &renamed(&name), &record()).await.unwrap();
    let found = table.env_type(*org, &id("testing")).await.unwrap().unwrap();
    assert_eq!(found.display_name, name);

    let profile: ProfileName = "${project.id}_large".parse().unwrap();
    for (change, expected) in [
        (Change::Set(&profile), Some(&profile)),
        (Change::Keep, Some(&profile)),
        (Change::Remove, None),
    ] {
        table.change_project(*org, &shop, None, change, &record()).await.unwrap();
        let found = table.project(*org, &shop).await.unwrap().unwrap();
        assert_eq!((found.profile.as_ref(), &found.display_name), (expected, &name));
    }

    let before = everything(table).await;
    let absent = table
        .change_project(*org, &id("absent"), Some(&name), Change::Keep, &record())
        .await
        .unwrap();
    assert_eq!(absent, Saved::Lost);
    let absent =
        table.update_env_type(*org, &id("absent"), &renamed(&name), &record()).await.unwrap();
    assert_eq!(absent, Saved::Lost);
    assert_eq!(everything(table).await, before);
}

async fn of_16_writers_that_read_one_version_of_a_runner_one_wins(table: Table) {
    let world = World::new(table).await;
    let saved = race(|n| {
        let World { table, org } = world.clone();
        async move {
            let mut runner = runner("laptop", "local");
            runner.definition = format!(r#"{{"by":{n}}}"#);
            runner.version = 2;
            table.save_runner(org, &runner, None, &record()).await.unwrap()
        }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
    let winner = saved.iter().position(|saved| *saved == Saved::Yes).unwrap();
    let found = world.table.runner(world.org, &id("laptop")).await.unwrap().unwrap();
    assert_eq!((found.definition, found.version), (format!(r#"{{"by":{winner}}}"#), 2));

    let before = everything(&world.table).await;
    for (name, version) in [("laptop", 2), ("laptop", 9), ("absent", 1), ("absent", 2)] {
        let mut runner = runner(name, "local");
        runner.version = version;
        let saved = world.table.save_runner(world.org, &runner, None, &record()).await.unwrap();
        assert_eq!(saved, Saved::Lost, "{name} {version}");
    }
    assert_eq!(everything(&world.table).await, before);
}

async fn saving_a_runner_sets_and_removes_its_secrets_and_keeps_its_uses(table: Table) {
    let (world, _) = World::with_dev(table).await;
    let key = keys::runner(world.org, &id("laptop"));
    let secrets = [None, Some("sealed one"), Some("sealed two"), None];
    for (version, sealed) in (1..).zip(secrets) {
        let mut runner = runner("laptop", "kubernetes");
        runner.sealed_secrets = sealed.map(str::to_owned);
        runner.version = version;
        runner.updated_at = at(9);
        if version > 1 {
            let saved = world.table.save_runner(world.org, &runner, None, &record()).await.unwrap();
            assert_eq!(saved, Saved::Yes, "{version}");
            let found = world.table.runner(world.org, &runner.id).await.unwrap();
            assert_eq!(found, Some(runner), "every field that can change has changed");
        }
        let item = raw(&world.table, &key).await;
        assert_eq!(item.contains_key("sealed_secrets"), sealed.is_some(), "{version}");
        assert_eq!(world.uses(&key).await, 1, "{version}");
    }
}
