//! The due list contains only due deployments; lists contain each deployment once, newest first.

use crate::world::{World, at, environment, id, project, queued, record};
use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use canyon_domain::attempt::Outcome;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::DeploymentId;
use canyon_domain::lifecycle;
use canyon_store::deployment_lists::{DeploymentFilter, Due};
use canyon_store::meter::Meter;
use canyon_store::outcome::Saved;
use canyon_store::page::{Cursor, PageRequest};
use canyon_store::{Table, keys};
use jiff::Timestamp;
use std::collections::{BTreeMap, HashMap};

on_each_table!(
    only_due_deployments_are_listed_longest_due_first_and_never_an_ended_one,
    each_filter_lists_its_deployments_newest_first_in_full_pages,
    a_page_neither_skips_nor_repeats_while_new_deployments_arrive,
    a_page_of_a_project_reads_a_bounded_part_of_the_index,
);

async fn only_due_deployments_are_listed_longest_due_first_and_never_an_ended_one(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let mut model: BTreeMap<Timestamp, DeploymentId> = BTreeMap::new();
    for n in 0..40 {
        let mut deployment = queued(&dev, n);
        deployment.due_at = Some(at(1_000 + (n * 17) % 40)); // not in the order of acceptance
        world.accept(&deployment).await;
        model.insert(deployment.due_at.unwrap(), deployment.id);
    }
    let due = async |now, limit| world.table.due(now, limit).await.unwrap();
    let of = |id| Due { org: world.org, id };
    assert_eq!(due(at(999), 100).await, []);
    for now in [at(1_000), at(1_019), at(1_039), Timestamp::MAX] {
        let expected: Vec<_> = model.range(..=now).map(|(_, id)| of(*id)).collect();
        assert_eq!(due(now, 100).await, expected);
        assert_eq!(due(now, i32::MAX).await, expected);
    }
    let shard = |due: &Due| keys::due_shard_of(due.id);
    for limit in [1, 3] {
        let mut taken = BTreeMap::<String, i32>::new();
        let all = model.values().map(|id| of(*id));
        let expected = all.filter(|due| {
            let taken = taken.entry(shard(due)).or_default();
            *taken += 1;
            *taken <= limit
        });
        assert_eq!(due(at(2_000), limit).await, expected.collect::<Vec<_>>(), "{limit} a shard");
    }
    for id in model.values() {
        let mut deployment = world.stored(*id).await;
        lifecycle::end_without_attempt(&mut deployment, Outcome::Cancelled, at(3_000));
        deployment.version += 1;
        let ended = world.table.end_deployment(world.org, &deployment, at(3_000), None).await;
        assert_eq!(ended.unwrap(), Saved::Yes);
        assert!(!due(Timestamp::MAX, 100).await.contains(&of(*id)));
    }
    assert_eq!(due(Timestamp::MAX, 100).await, []);
}

/// 250 deployments in two projects with three environments, newest first.
async fn many(world: &World) -> Vec<Deployment> {
    world.table.create_project(world.org, &project("pay"), &record()).await.unwrap();
    let names = [("shop", "dev"), ("shop", "prod"), ("pay", "dev")];
    let environments = names.map(|(project, env)| environment(project, env));
    for environment in &environments {
        world.table.create_environment(world.org, environment, &record()).await.unwrap();
    }
    let mut all: Vec<_> =
        (0..250).map(|n| queued(&environments[[0, 0, 1, 0, 2][n as usize % 5]], n)).collect();
    // An environment's queue holds at most 100, so each deployment ends right after its acceptance.
    let tasks: Vec<_> = environments
        .iter()
        .map(|environment| {
            let mine = all.iter().filter(|deployment| deployment.env_uuid == environment.uuid);
            let (world, mine) = (world.clone(), mine.cloned().collect::<Vec<_>>());
            tokio::spawn(async move {
                for mut deployment in mine {
                    world.accept(&deployment).await;
                    lifecycle::end_without_attempt(&mut deployment, Outcome::Cancelled, at(1_000));
                    deployment.version += 1;
                    world
                        .table
                        .end_deployment(world.org, &deployment, at(1_000), None)
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for deployment in &mut all {
        lifecycle::end_without_attempt(deployment, Outcome::Cancelled, at(1_000));
        deployment.version += 1;
    }
    all.reverse();
    all
}

async fn each_filter_lists_its_deployments_newest_first_in_full_pages(table: Table) {
    let world = World::new(table).await;
    let all = many(&world).await;
    let dev = all.iter().find(|deployment| deployment.env.as_str() == "prod").unwrap().env_uuid;
    let filters = [
        DeploymentFilter::All,
        DeploymentFilter::Project(id("shop")),
        DeploymentFilter::Project(id("pay")),
        DeploymentFilter::Project(id("absent")),
        DeploymentFilter::Environment(dev),
    ];
    for filter in filters {
        let wanted = all.iter().filter(|deployment| match &filter {
            DeploymentFilter::All => true,
            DeploymentFilter::Project(project) => deployment.project == *project,
            DeploymentFilter::Environment(env) | DeploymentFilter::Checks(env) => {
                deployment.env_uuid == *env
            }
        });
        let wanted: Vec<_> = wanted.cloned().collect();
        for limit in [1, 7, 50, 100] {
            let mut after = None;
            let mut chunks = wanted.chunks(limit).take(6).peekable();
            loop {
                let request = PageRequest { limit: limit as u32, after };
                let page = world.table.deployments(world.org, &filter, &request).await.unwrap();
                let expected = chunks.next().unwrap_or_default();
                assert_eq!(page.items, expected, "{filter:?} by {limit}");
                after = page.next;
                if chunks.peek().is_none() {
                    break;
                }
            }
            assert_eq!(after.is_some(), wanted.len() > 6 * limit, "{filter:?} by {limit}");
        }
    }
}

async fn a_page_neither_skips_nor_repeats_while_new_deployments_arrive(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let mut model = Vec::new();
    for n in 0..20 {
        let deployment = queued(&dev, n);
        world.accept(&deployment).await;
        model.insert(0, deployment.id);
    }
    let (project, env) = (id("shop"), dev.uuid);
    let filters = [
        DeploymentFilter::All,
        DeploymentFilter::Project(project),
        DeploymentFilter::Environment(env),
    ];
    for (round, filter) in (0..).zip(filters) {
        let expected = model.clone();
        let (mut seen, mut after) = (Vec::new(), None::<Cursor>);
        for n in 0.. {
            let request = PageRequest { limit: 3, after };
            let page = world.table.deployments(world.org, &filter, &request).await.unwrap();
            seen.extend(page.items.iter().map(|deployment| deployment.id));
            let Some(next) = page.next else { break };
            // As text, as it goes to the client and back.
            after = Some(Cursor::decode("list", &next.encode("list")).unwrap());
            let arrived = queued(&dev, 100 * (round + 1) + n);
            world.accept(&arrived).await;
            model.insert(0, arrived.id);
        }
        assert_eq!(seen, expected, "{filter:?}");
    }
}

/// Entries of the index alone, as many as no page reads.
async fn a_page_of_a_project_reads_a_bounded_part_of_the_index(table: Table) {
    let world = World::new(table).await;
    let partition = keys::deployments(world.org);
    let entry = |n: u128, project: &str| {
        let id = DeploymentId(uuid::Uuid::from_u128(n));
        let key = keys::deployment(world.org, id);
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let item: HashMap<_, _> = [
            ("pk", text(&key.pk)),
            ("sk", text(&key.sk)),
            ("gsi1pk", text(&partition)),
            ("gsi1sk", text(&id.to_string())),
            ("project", text(project)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let put = PutRequest::builder().set_item(Some(item)).build().unwrap();
        WriteRequest::builder().put_request(put).build()
    };
    let all: Vec<_> = (0..5_000).map(|n| entry(n, if n < 10 { "rare" } else { "pay" })).collect();
    for batch in all.chunks(25) {
        let write = world.table.client().batch_write_item();
        let write = write.request_items(world.table.name(), batch.to_vec());
        write.send().await.unwrap();
    }
    let meter = Meter::default();
    let watched = meter.watch(&world.table);
    let filter = DeploymentFilter::Project(id("absent"));
    let mut request = PageRequest { limit: 50, after: None };
    let mut requests = Vec::new();
    loop {
        let page = watched.deployments(world.org, &filter, &request).await.unwrap();
        assert_eq!(page.items, []);
        requests.push(meter.take().requests());
        assert!(page.next.as_ref().is_none_or(Cursor::names_what_is_left_out));
        request.after = page.next;
        if request.after.is_none() {
            break;
        }
    }
    assert!(requests.len() >= 2 && requests.iter().all(|count| *count <= 4), "{requests:?}");
}
