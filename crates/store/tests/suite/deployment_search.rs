//! Lists with filters find each deployment once, newest first, at a cost that does not depend on the others.

use crate::world::{World, at, environment, hash, id, project, queued, record, uuid};
use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use canyon_domain::attempt::Outcome;
use canyon_domain::deployment::{Deployment, Status};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::ids::DeploymentId;
use canyon_domain::inventory::Environment;
use canyon_domain::lifecycle;
use canyon_domain::run_kind::RunKind;
use canyon_store::deployment_lists::DeploymentFilter;
use canyon_store::deployment_search::DeploymentSearch;
use canyon_store::meter::Meter;
use canyon_store::outcome::Saved;
use canyon_store::page::{Cursor, PageRequest};
use canyon_store::{Table, keys};
use std::collections::HashMap;

on_each_table!(
    each_search_finds_its_deployments_once_and_newest_first,
    an_end_is_in_the_list_of_its_status_and_of_no_other,
);

fn failed() -> Outcome {
    Outcome::Failed(Failure::new(FailureClass::User, "wrong"))
}

/// Accepts `deployment`, and ends it unless `outcome` is `None`.
async fn run(world: &World, mut deployment: Deployment, outcome: Option<Outcome>) -> Deployment {
    world.accept(&deployment).await;
    let Some(outcome) = outcome else { return deployment };
    if outcome == Outcome::Succeeded {
        deployment = world.launch(deployment.id, deployment.created_at).await.unwrap();
        let (code, token, now) = (hash("code"), hash("token"), deployment.created_at);
        lifecycle::claim(&mut deployment, 1, &code, "a runner", token, (0, 0), now).unwrap();
        lifecycle::end(&mut deployment, 1, outcome, at(10_000)).unwrap();
    } else {
        lifecycle::end_without_attempt(&mut deployment, outcome, at(10_000));
    }
    deployment.version += 1;
    let ended = world.table.end_deployment(world.org, &deployment, at(10_000), None).await;
    assert_eq!(ended.unwrap(), Saved::Yes);
    world.stored(deployment.id).await
}

/// 60 deployments with each end and kind, in three environments of two projects, oldest first.
async fn many(world: &World) -> (Vec<Deployment>, Vec<Environment>) {
    world.table.create_project(world.org, &project("pay"), &record()).await.unwrap();
    let names = [("shop", "dev"), ("shop", "prod"), ("pay", "dev")];
    let environments = names.map(|(project, env)| environment(project, env));
    for environment in &environments {
        world.table.create_environment(world.org, environment, &record()).await.unwrap();
    }
    let mut all = Vec::new();
    for n in 0..60 {
        let mut deployment = queued(&environments[n as usize % 3], n);
        deployment.plan_only = n % 7 == 0;
        let outcome = match n % 10 {
            0 | 1 => Some(failed()),
            2 => Some(Outcome::Cancelled),
            _ if n >= 50 => None,
            _ => Some(Outcome::Cancelled),
        };
        all.push(run(world, deployment, outcome).await);
    }
    (all, environments.to_vec())
}

async fn found(world: &World, search: &DeploymentSearch, limit: u32) -> Vec<DeploymentId> {
    let (mut found, mut after) = (Vec::new(), None::<Cursor>);
    loop {
        let request = PageRequest { limit, after };
        let page = world.table.search_deployments(world.org, search, &request).await.unwrap();
        assert!(page.items.len() <= limit as usize);
        found.extend(page.items.iter().map(|deployment| deployment.id));
        let Some(next) = page.next else { return found };
        // As text, as it goes to the client and back.
        after = Some(Cursor::decode("list", &next.encode("list")).unwrap());
    }
}

async fn each_search_finds_its_deployments_once_and_newest_first(table: Table) {
    let world = World::new(table).await;
    let (mut all, environments) = many(&world).await;
    all.reverse();
    let scopes = [
        DeploymentFilter::All,
        DeploymentFilter::Project(id("shop")),
        DeploymentFilter::Environment(environments[2].uuid),
    ];
    let statuses = [None, Some(Status::Failed), Some(Status::Cancelled), Some(Status::Queued)];
    for scope in scopes {
        for status in statuses {
            for (kind, since) in [
                (None, None),
                (Some(RunKind::Plan), None),
                (None, Some(at(40))),
                (Some(RunKind::Deploy), Some(at(52))),
            ] {
                let wanted = all.iter().filter(|deployment| {
                    let is_in_scope = match &scope {
                        DeploymentFilter::All => true,
                        DeploymentFilter::Project(project) => deployment.project == *project,
                        DeploymentFilter::Environment(env) | DeploymentFilter::Checks(env) => {
                            deployment.env_uuid == *env
                        }
                    };
                    is_in_scope
                        && status.is_none_or(|status| deployment.status == status)
                        && kind.is_none_or(|kind| RunKind::of(deployment) == kind)
                        && since.is_none_or(|since| deployment.created_at >= since)
                });
                let wanted: Vec<_> =
                    wanted.map(|found| (found.id, found.status.is_terminal())).collect();
                for (lists_ends, ended) in
                    [(true, None), (false, None), (true, Some(true)), (true, Some(false))]
                {
                    let scope = scope.clone();
                    let of_scope = DeploymentSearch::of(scope);
                    let search =
                        DeploymentSearch { status, ended, kind, since, lists_ends, ..of_scope };
                    let wanted = wanted.iter().filter(|(_, is)| ended.is_none_or(|of| of == *is));
                    let wanted: Vec<_> = wanted.map(|(id, _)| *id).collect();
                    for limit in [5, 100] {
                        let found = found(&world, &search, limit).await;
                        assert_eq!(found, wanted, "{search:?} by {limit}");
                    }
                }
            }
        }
    }
}

async fn an_end_is_in_the_list_of_its_status_and_of_no_other(table: Table) {
    let (world, dev) = World::with_dev(table).await;
    let ended = [
        run(&world, queued(&dev, 1), Some(Outcome::Succeeded)).await,
        run(&world, queued(&dev, 2), Some(failed())).await,
        run(&world, queued(&dev, 3), Some(Outcome::Cancelled)).await,
        run(&world, queued(&dev, 4), None).await,
    ];
    let statuses =
        [Status::Succeeded, Status::Failed, Status::Cancelled, Status::Queued].into_iter();
    for (deployment, status) in ended.iter().zip(statuses) {
        assert_eq!(deployment.status, status);
        let search = DeploymentSearch {
            status: Some(status),
            lists_ends: true,
            ..DeploymentSearch::of(DeploymentFilter::All)
        };
        assert_eq!(found(&world, &search, 10).await, [deployment.id], "{status}");
    }
}

/// The entries of so many cancelled deployments, without the rest of them: in the index by time and in their list.
async fn add_cancelled(world: &World, count: i64) {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let entries = (0..count).flat_map(|n| {
        let id = DeploymentId(uuid(at(10 + n)));
        let (key, in_list) = (
            keys::deployment(world.org, id),
            keys::ended_deployment(world.org, Status::Cancelled, id),
        );
        let indexed = vec![
            ("pk", text(&key.pk)),
            ("sk", text(&key.sk)),
            ("gsi1pk", text(&keys::deployments(world.org))),
            ("gsi1sk", text(&id.to_string())),
        ];
        [indexed, vec![("pk", text(&in_list.pk)), ("sk", text(&in_list.sk))]]
    });
    let write = |item: Vec<(&str, AttributeValue)>| {
        let item: HashMap<_, _> =
            item.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let put = PutRequest::builder().set_item(Some(item)).build().unwrap();
        WriteRequest::builder().put_request(put).build()
    };
    let writes: Vec<_> = entries.map(write).collect();
    for batch in writes.chunks(25) {
        let request = world.table.client().batch_write_item();
        request.request_items(world.table.name(), batch.to_vec()).send().await.unwrap();
    }
}

#[tokio::test]
async fn failed_and_unended_deployments_are_found_among_3_000_others_in_one_page_of_requests() {
    for others in [0, 3_000] {
        let (_folder, table) = crate::peers::dynoxide().await;
        let (world, dev) = World::with_dev(table).await;
        let old = [1, 2].map(|n| queued(&dev, n));
        for deployment in old.clone() {
            run(&world, deployment, Some(failed())).await;
        }
        add_cancelled(&world, others).await;
        let last = run(&world, queued(&dev, 5_000), None).await;
        let [first, second] = old.map(|deployment| deployment.id);
        let meter = Meter::default();
        let watched = meter.watch(&world.table);
        for (status, ended, expected, requests) in [
            // The list of the failed, and the deployments.
            (Some(Status::Failed), None, vec![second, first], 2),
            // The shards of the due index, and the deployments.
            (Some(Status::Queued), None, vec![last.id], 5),
            (None, Some(false), vec![last.id], 5),
        ] {
            let search = DeploymentSearch {
                status,
                ended,
                lists_ends: true,
                ..DeploymentSearch::of(DeploymentFilter::All)
            };
            let request = PageRequest { limit: 20, after: None };
            let page = watched.search_deployments(world.org, &search, &request).await.unwrap();
            let ids: Vec<_> = page.items.iter().map(|deployment| deployment.id).collect();
            assert_eq!((ids, page.next), (expected, None), "{status:?}");
            assert_eq!(meter.take().requests(), requests, "{status:?} among {others}");
        }
    }
}
