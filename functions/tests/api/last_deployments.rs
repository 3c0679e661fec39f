//! The last deployment of each environment.

use crate::harness::{Api, faults};
use crate::job::{Job, furnished, order, run};
use serde_json::{Value, json};

async fn page(api: &Api, query: &str) -> (Vec<String>, Option<String>) {
    let (status, page) = api.get(&format!("/last-deployments?{query}")).await;
    assert_eq!(status, 200, "{query}: {page}");
    let id = |item: &Value| item["id"].as_str().unwrap().to_owned();
    let ids = page["items"].as_array().unwrap().iter().map(id).collect();
    (ids, page["next_page_token"].as_str().map(str::to_owned))
}

async fn last(api: &Api, query: &str) -> Vec<String> {
    page(api, query).await.0
}

async fn accepted(api: &Api, body: Value) -> String {
    api.make("/deployments", body).await["id"].as_str().unwrap().to_owned()
}

fn plan() -> Value {
    let mut plan = order();
    plan["mode"] = "plan_only".into();
    plan
}

/// `order` for another environment.
fn order_for(project: &str, env: &str) -> Value {
    let mut order = order();
    (order["project_id"], order["env_id"]) = (project.into(), env.into());
    order
}

/// The environments `main` and `empty` of `shop`, and `main` of `bank`, which has a deployment. Returns that one's id.
async fn with_bank() -> (Api, String) {
    let api = furnished().await;
    api.make("/projects/shop/envs", json!({ "id": "empty", "env_type_id": "dev" })).await;
    api.make("/projects", json!({ "id": "bank" })).await;
    api.make("/projects/bank/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    let bank = accepted(&api, order_for("bank", "main")).await;
    (api, bank)
}

#[tokio::test]
async fn each_environment_has_its_last_deployment_or_its_last_one_that_was_to_change_something() {
    let (api, bank) = with_bank().await;
    let job = Job::start(&api).await;
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    assert_eq!(job.result(&api, json!({ "status": "failure" })).await.0, 204);
    let failed = job.id;
    let all = "state_change_only=false";
    let changes = "state_change_only=true";
    assert_eq!(last(&api, "").await, [&*bank, &*failed]);
    let plan = accepted(&api, plan()).await;
    for (query, expected) in [
        ("", vec![&bank, &plan]),
        (all, vec![&bank, &plan]),
        (changes, vec![&bank, &failed]),
        ("project_id=shop", vec![&plan]),
        ("project_id=shop&state_change_only=true", vec![&failed]),
        ("env_id=main", vec![&bank, &plan]),
        ("project_id=bank&env_id=main", vec![&bank]),
        ("project_id=shop&env_id=empty", vec![]),
        ("project_id=none", vec![]),
    ] {
        assert_eq!(last(&api, query).await.iter().collect::<Vec<_>>(), expected, "{query}");
    }
    let destroy = json!({ "project_id": "shop", "env_id": "main", "mode": "destroy" });
    let destroy = accepted(&api, destroy).await;
    assert_eq!(last(&api, changes).await, [&*bank, &*destroy]);
}

#[tokio::test]
async fn the_answer_is_the_deployment_as_in_other_lists() {
    let (api, bank) = with_bank().await;
    let (_, listed) = api.get("/deployments?project_id=bank").await;
    assert_eq!(listed["items"][0]["id"], json!(bank));
    let (_, last) = api.get("/last-deployments?project_id=bank").await;
    assert_eq!(last["items"], listed["items"]);
}

#[tokio::test]
async fn after_a_hundred_plans_the_last_change_is_the_one_that_the_environment_records() {
    let api = furnished().await;
    let (deployed, _) = run(&api, order()).await;
    for planned in 0..101 {
        let id = accepted(&api, plan()).await;
        assert_eq!(api.act(&format!("/deployments/{id}/actions/cancel")).await.0, 202);
        if [0, 10, 100].contains(&planned) {
            assert_eq!(last(&api, "state_change_only=true").await, [&*deployed], "{planned}");
            assert_eq!(last(&api, "").await, [id]);
        }
    }
}

#[tokio::test]
async fn a_page_has_so_many_environments_and_other_parameters_are_refused() {
    let (api, bank) = with_bank().await;
    let main = accepted(&api, order()).await;
    let (mut found, mut next, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let (ids, token) = page(&api, &format!("per_page=1{next}")).await;
        found.extend(ids);
        pages += 1;
        let Some(token) = token else { break };
        next = format!("&page={token}");
    }
    assert_eq!((found, pages), (vec![bank, main], 3));
    let (_, token) = page(&api, "per_page=1").await;
    let other = format!("/last-deployments?state_change_only=true&page={}", token.unwrap());
    assert_eq!(api.get(&other).await.0, 400, "a token is good for the same list only");
    for (query, path) in [
        ("state=x", "state"),
        ("project_id=No", "project_id"),
        ("env_id=No", "env_id"),
        ("per_page=0", "per_page"),
    ] {
        let answer = api.get(&format!("/last-deployments?{query}")).await;
        assert_eq!((answer.0, faults(&answer)), (400, vec![path]), "{query}: {answer:?}");
    }
    assert_eq!(api.get("/last-deployments?state_change_only=perhaps").await.0, 400);
}
