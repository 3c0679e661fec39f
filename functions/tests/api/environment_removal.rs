//! The deletion of an environment that has resources.

use crate::container_world::{
    begin, begin_accepted, order_for, resources, shown_environment, succeeds, with_engine,
};
use crate::harness::{Api, message};
use crate::job::order;
use canyon_domain::resource::MAX_RESOURCES;
use serde_json::{Value, json};

/// An environment with two resources, whose deletion is requested. Returns the destroy runs in their order.
async fn deleting() -> (Api, Vec<String>) {
    let api = with_engine().await;
    for resource in ["s3#old", "dns#new"] {
        succeeds(&api, order_for(resource)).await;
    }
    let (status, answer) = api.delete("/projects/shop/envs/main").await;
    assert_eq!((status, &answer["status"]), (202, &json!("deleting")), "{answer}");
    let (_, listed) = api.get("/deployments?project_id=shop&env_id=main&per_page=2").await;
    let mut runs: Vec<_> = listed["items"].as_array().unwrap().clone();
    runs.reverse();
    let destroyed: Vec<_> = runs.iter().map(|run| (&run["mode"], &run["resource"])).collect();
    let destroy = json!("destroy");
    let expected = [(&destroy, &json!("dns.default#new")), (&destroy, &json!("s3.default#old"))];
    assert_eq!(destroyed, expected, "the newest first: {listed}");
    (api, runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect())
}

async fn destroys(api: &Api, id: &str) {
    let (job, claimed) = begin_accepted(api, id).await;
    assert_eq!(claimed["mode"], "destroy");
    assert_eq!(job.report(api, "apply", json!([])).await.0, 200);
    job.succeed(api).await;
}

#[tokio::test]
async fn the_resources_of_an_environment_are_destroyed_before_it_is_deleted_the_newest_first() {
    let (api, runs) = deleting().await;
    let refused = api.post("/deployments", order_for("s3#old")).await;
    assert!(message(&refused).contains("is being deleted"), "{}", refused.1);
    let (status, again) = api.delete("/projects/shop/envs/main").await;
    assert_eq!(
        (status, &again["status"]),
        (202, &json!("deleting")),
        "a repeated request changes nothing"
    );
    destroys(&api, &runs[0]).await;
    let left = resources(&api).await;
    assert_eq!(left, [("s3.default#old".to_owned(), "ready".to_owned())]);
    destroys(&api, &runs[1]).await;
    assert_eq!(api.get("/projects/shop/envs/main").await.0, 404);
    let (_, audit) = api.get("/audit-records?action=environment.delete").await;
    let details: Vec<&Value> =
        audit["items"].as_array().unwrap().iter().map(|record| &record["details"][0]).collect();
    assert!(
        details
            .iter()
            .any(|text| text.as_str().unwrap().ends_with("of resource `dns.default#new`")),
        "{audit}"
    );
}

#[tokio::test]
async fn a_destroy_run_that_fails_stops_the_deletion_which_says_what_is_left() {
    let (api, runs) = deleting().await;
    let (job, _) = begin_accepted(&api, &runs[0]).await;
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    let failure = json!({ "status": "failure" });
    assert_eq!(job.result(&api, failure).await.0, 204);
    let environment = shown_environment(&api).await;
    assert_eq!(environment["status"], "delete_failed", "{environment}");
    let said = environment["status_message"].as_str().unwrap();
    for part in [
        &runs[0],
        "resource `dns.default#new` ended as failed",
        "`s3.default#old`, `dns.default#new`",
    ] {
        assert!(said.contains(part), "no {part} in {said}");
    }
}

#[tokio::test]
async fn an_environment_with_all_resources_that_it_may_have_and_a_module_can_be_deleted() {
    let api = with_engine().await;
    for number in 0..MAX_RESOURCES {
        succeeds(&api, order_for(&format!("s3#r{number}"))).await;
    }
    let (module, _) = begin(&api, order()).await;
    assert_eq!(module.report(&api, "apply", json!([])).await.0, 200);
    module.succeed(&api).await;
    let (status, answer) = api.delete("/projects/shop/envs/main").await;
    assert_eq!((status, &answer["status"]), (202, &json!("deleting")), "{answer}");
    let (_, shown) = api.get("/projects/shop/envs/main?include=deployments").await;
    assert_eq!(shown["status"], "deleting", "{shown}");
    let listed = api.get("/deployments?mode=destroy&per_page=100").await.1;
    assert_eq!(listed["items"].as_array().unwrap().len(), 100, "and one more");
}
