//! Many deployments at once: one at a time in each environment, in the order of their acceptance;
//! and one deployment for each idempotency key.

use crate::harness::deployments::{accept, assert_succeeded, end, request};
use crate::harness::ledger;
use crate::harness::module::{self, THIRTY, inline};
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_api::deployment::DeploymentQuery;
use canyon_api::page::PageQuery;
use futures::future::join_all;

const ENVIRONMENTS: u32 = 10;
const EACH: u32 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn fifty_deployments_to_ten_environments_take_turns() {
    let site = Site::new().await;
    let environments: Vec<String> = (0..ENVIRONMENTS).map(|n| format!("env-{n}")).collect();
    for env in &environments {
        site.environment(env).await;
    }
    let path = |env: &str| site.server.path(&format!("ledger-{env}"));
    let order = async |env: &str, round: u32| {
        let module = module::ledger(&path(env), 1, "0.05", round);
        let id = site.accept(&request(env, Some(module))).await;
        (env.to_owned(), round, id)
    };
    // Each environment's are requested one after the other: fifty requests at once are fifty functions that start at once.
    let of_environment = environments.iter().map(async |env| {
        let mut accepted = Vec::new();
        for round in 1..=EACH {
            accepted.push(order(env, round).await);
        }
        accepted
    });
    let accepted = join_all(of_environment).await.concat();
    // One request at a time waits for each environment: 50 that wait keep the store of a busy machine so busy that it
    // answers none of them in time.
    let ends = environments.iter().map(async |env| {
        let mut ended = Vec::new();
        for (_, _, id) in accepted.iter().filter(|(of, _, _)| of == env) {
            ended.push(end(&site.client, id).await);
        }
        ended
    });
    let ended = join_all(ends).await.concat();
    ended.iter().for_each(assert_succeeded);

    for env in &environments {
        // Ids sort by acceptance.
        let mut order: Vec<_> =
            accepted.iter().filter(|(of, _, _)| of == env).map(|(_, n, id)| (id, *n)).collect();
        order.sort();
        let expected: Vec<_> =
            order.iter().flat_map(|(_, round)| [("begin", *round), ("end", *round)]).collect();
        let entries = ledger::read(&path(env));
        let found: Vec<_> =
            entries.iter().map(|entry| (entry.what.as_str(), entry.round)).collect();
        assert_eq!(found, expected, "in {env}");

        // No two attempts of one environment overlap.
        let mut attempts: Vec<_> = ended
            .iter()
            .filter(|deployment| deployment.env_id == *env)
            .flat_map(|deployment| &deployment.attempts)
            .map(|attempt| {
                (attempt.launched_at, attempt.ended_at.unwrap(), attempt.phase == "apply")
            })
            .collect();
        attempts.sort();
        // A job that a busy machine starves before its apply is retried; after that it is not.
        let applied = attempts.iter().filter(|(_, _, applied)| *applied).count();
        assert_eq!(applied, EACH as usize, "{env}: {attempts:?}");
        for pair in attempts.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{env}: {pair:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_is_one_deployment() {
    let mut site = Site::new().await;
    let body = request(ENV, Some(inline(THIRTY)));
    let clients: Vec<_> = (0..10).map(|_| site.server.client()).collect();
    let ids = join_all(clients.iter().map(|client| accept(client, &body, "one key"))).await;
    let id = &ids[0];
    assert!(ids.iter().all(|one| one == id), "{ids:?}");

    let other = request(ENV, Some(inline("# another body")));
    let refused = site.client.create_deployment(&other, "one key").await.unwrap_err();
    assert_eq!(refused.status(), Some(409), "{refused}");
    assert_succeeded(&site.end(id).await);

    for kill in [true, false] {
        if kill {
            site.server.kill();
        } else {
            site.server.stop();
        }
        site.server.restart().await;
        let again = accept(&site.client, &body, "one key").await;
        assert_eq!(&again, id, "the key is remembered");
        let refused = site.client.create_deployment(&other, "one key").await.unwrap_err();
        assert_eq!(refused.status(), Some(409), "{refused}");
    }
    let filter = DeploymentQuery {
        project_id: Some(PROJECT.to_owned()),
        env_id: Some(ENV.to_owned()),
        ..DeploymentQuery::default()
    };
    let all = site.client.deployments(&filter, &PageQuery::default()).await.unwrap();
    assert_eq!(all.items.len(), 1);
}
