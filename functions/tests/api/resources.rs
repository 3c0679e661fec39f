//! The resources of an environment: what creates them, what destroys them, and what they leave alone.

use crate::container_world::{
    IMAGE, begin, begin_accepted, fails, is_lost, order_for, order_without_job, resources,
    run_program, shown_environment, succeeds, with_engine,
};
use crate::harness::{Api, message};
use crate::job::{environment, order, stored};
use serde_json::{Value, json};

const PHOTOS: &str = "s3#photos";

fn with_image(image: &str) -> Value {
    let mut body = order_for(PHOTOS);
    body["container"]["image"] = json!(image);
    body
}

fn status(of: &str) -> [(String, String); 1] {
    [("s3.default#photos".to_owned(), of.to_owned())]
}

#[tokio::test]
async fn a_destroy_runs_the_job_of_the_last_success_and_not_that_of_a_later_failure() {
    let api = with_engine().await;
    let created = succeeds(&api, with_image("bucket:1")).await;
    fails(&api, with_image("bucket:2")).await;
    assert_eq!(resources(&api).await, status("failed"));
    let (job, claimed) = begin(&api, order_without_job("destroy", PHOTOS)).await;
    assert_eq!((&claimed["mode"], &claimed["backend"]), (&json!("destroy"), &Value::Null));
    assert_eq!(claimed["bundle"]["container"]["job"]["image"], "bucket:1");
    assert_eq!(resources(&api).await, status("destroying"));
    let shown = shown_environment(&api).await;
    assert_eq!(
        shown["resources"][0]["deployment_id"],
        json!(created),
        "its outputs stay until then"
    );
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    job.succeed(&api).await;
    assert_eq!(resources(&api).await, []);
    let again = api.post("/deployments", order_without_job("destroy", PHOTOS)).await;
    assert_eq!(again.0, 409, "{}", again.1);
}

#[tokio::test]
async fn a_first_job_that_failed_after_it_began_leaves_a_resource_that_its_own_job_destroys() {
    let api = with_engine().await;
    fails(&api, with_image("bucket:1")).await;
    assert_eq!(resources(&api).await, status("failed"));
    let (job, claimed) = begin(&api, order_without_job("destroy", PHOTOS)).await;
    assert_eq!(claimed["bundle"]["container"]["job"]["image"], "bucket:1");
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    let failure = json!({ "status": "failure" });
    assert_eq!(job.result(&api, failure).await.0, 204);
    assert_eq!(resources(&api).await, status("failed"), "what was not destroyed stays");

    // A request may bring another job that destroys it.
    let mut other = with_image("cleaner:1");
    other["mode"] = json!("destroy");
    let (job, claimed) = begin(&api, other).await;
    assert_eq!(claimed["bundle"]["container"]["job"]["image"], "cleaner:1");
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    job.succeed(&api).await;
    assert_eq!(resources(&api).await, []);
}

#[tokio::test]
async fn what_is_being_created_has_no_job_to_destroy_it_yet() {
    let api = with_engine().await;
    let creating = run_program(&api, order_for(PHOTOS)).await;
    let refused = api.post("/deployments", order_without_job("destroy", PHOTOS)).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    assert!(message(&refused).contains("wait for the one that runs"), "{}", refused.1);
    creating.succeed(&api).await;
    succeeds(&api, order_without_job("destroy", PHOTOS)).await;
}

#[tokio::test]
async fn of_two_destroys_that_wait_the_second_leaves_nothing_even_if_it_fails() {
    let api = with_engine().await;
    succeeds(&api, order_for(PHOTOS)).await;
    let destroy = order_without_job("destroy", PHOTOS);
    let first = api.make("/deployments", destroy.clone()).await;
    let second = api.make("/deployments", destroy).await;
    let (job, _) = begin_accepted(&api, first["id"].as_str().unwrap()).await;
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    job.succeed(&api).await;
    let (job, _) = begin_accepted(&api, second["id"].as_str().unwrap()).await;
    assert_eq!(resources(&api).await, []);
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    assert_eq!(job.result(&api, json!({ "status": "failure" })).await.0, 204);
    assert_eq!(resources(&api).await, []);
}

#[tokio::test]
async fn a_job_that_ends_before_its_program_begins_leaves_a_resource_as_it_was() {
    let api = with_engine().await;
    let failure = json!({ "status": "failure" });
    let (job, _) = begin(&api, order_for(PHOTOS)).await;
    assert_eq!(job.result(&api, failure.clone()).await.0, 204);
    assert_eq!(resources(&api).await, [], "it never existed");
    let created = succeeds(&api, order_for(PHOTOS)).await;
    let (job, _) = begin(&api, with_image("bucket:2")).await;
    assert_eq!(job.result(&api, failure).await.0, 204);
    assert_eq!(resources(&api).await, status("ready"));
    let shown = shown_environment(&api).await;
    assert_eq!(shown["resources"][0]["deployment_id"], json!(created));
}

#[tokio::test]
async fn an_environment_is_deleted_by_force_with_a_record_of_the_resources_that_it_leaves() {
    let api = with_engine().await;
    for name in ["db", "s3#photos", "app.web#front"] {
        succeeds(&api, order_for(name)).await;
    }
    let path = "/projects/shop/envs/main";
    let (code, gone) = api.delete(&format!("{path}?force=true")).await;
    assert_eq!(code, 204, "{gone}");
    assert_eq!(api.get(path).await.0, 404);
    let (_, page) = api.get("/audit-records?action=environment.delete").await;
    let details = &page["items"][0]["details"];
    for name in ["db.default#main", "s3.default#photos", "app.web#front"] {
        let expected = json!(format!("resource {name}"));
        assert!(details.as_array().unwrap().contains(&expected), "{name}: {page}");
    }
}

#[tokio::test]
async fn an_environment_without_its_resources_is_deleted() {
    let api = with_engine().await;
    succeeds(&api, order_for(PHOTOS)).await;
    succeeds(&api, order_without_job("destroy", PHOTOS)).await;
    let (code, gone) = api.delete("/projects/shop/envs/main").await;
    assert_eq!(code, 204, "no destroy run of a module follows: {gone}");
}

/// What Canyon knows of the module of the environment.
async fn module_of(api: &Api) -> impl PartialEq + std::fmt::Debug + use<> {
    let of = environment(api).await;
    (of.module, of.secret_inputs)
}

#[tokio::test]
async fn container_jobs_leave_the_module_of_their_environment_alone_however_they_end() {
    let api = with_engine().await;
    let module = {
        let (job, _) = begin(&api, order()).await;
        let state = json!({ "lineage": "a", "serial": 1, "resources": 1, "addresses": ["null_resource.a"] });
        assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
        assert_eq!(job.result(&api, json!({ "status": "success", "state": state })).await.0, 204);
        job.id
    };
    let before = module_of(&api).await;
    assert_eq!(environment(&api).await.module.last_success.unwrap().to_string(), module);
    succeeds(&api, order_for(PHOTOS)).await;
    assert_eq!(module_of(&api).await, before, "after a success");
    fails(&api, order_for(PHOTOS)).await;
    assert_eq!(module_of(&api).await, before, "after a failure");
    is_lost(&api, order_for(PHOTOS)).await;
    assert_eq!(module_of(&api).await, before, "after a loss");
    succeeds(&api, order_without_job("destroy", PHOTOS)).await;
    assert_eq!(module_of(&api).await, before, "after a destroy");
    let destroy = json!({ "project_id": "shop", "env_id": "main", "mode": "destroy" });
    let (_, claimed) = begin(&api, destroy).await;
    assert_eq!(claimed["bundle"]["module"], order()["module"], "that of the module");
    assert_eq!(claimed["bundle"].get("container"), None);
}

#[tokio::test]
async fn the_deployments_that_a_resource_needs_outlive_the_retention() {
    let api = with_engine().await;
    let old = succeeds(&api, order_for(PHOTOS)).await;
    let created = succeeds(&api, order_for(PHOTOS)).await;
    let failed = fails(&api, order_for(PHOTOS)).await;
    let needed: Vec<_> =
        environment(&api).await.needed_deployments().map(|id| id.to_string()).collect();
    assert!(needed.contains(&created) && needed.contains(&failed), "{needed:?}");
    assert!(!needed.contains(&old), "{needed:?}");
    api.clock.advance(std::time::Duration::from_hours(24 * 40));
    let (_, usage) = api.get("/usage?deployments_days=30").await;
    assert_eq!(usage["deployments"]["removable"], 1, "{usage}");
}

#[tokio::test]
async fn an_environment_has_a_hundred_resources_and_the_next_is_refused() {
    let api = with_engine().await;
    for n in 0..100 {
        succeeds(&api, order_for(&format!("s3#b{n}"))).await;
    }
    let refused = api.post("/deployments", order_for("s3#b100")).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    assert!(message(&refused).contains("has 100 resources, the most"), "{}", refused.1);
    let update = run_program(&api, order_for("s3#b7")).await;
    assert_eq!(stored(&api, &update.id).await.container.as_ref().unwrap().image, IMAGE);
    update.succeed(&api).await;
    succeeds(&api, order_without_job("destroy", "s3#b7")).await;
    succeeds(&api, order_for("s3#b100")).await;
}
