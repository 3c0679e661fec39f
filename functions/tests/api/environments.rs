//! Environments and their link to a runner.

use crate::harness::{Api, faults, local_runner, message, settled};
use crate::job::{Job, deploy, order};
use canyon_domain::audit::AuditRecord;
use canyon_domain::environment_state::EnvironmentState;
use canyon_domain::ids::{DeploymentId, PrincipalId};
use canyon_domain::inventory::Environment;
use canyon_domain::ports::{Clock as _, Entropy as _};
use canyon_identity::system::System;
use canyon_store::outcome::Saved;
use serde_json::{Value, json};
use uuid::Uuid;

const MAIN: &str = "/projects/shop/envs/main";

async fn furnished() -> Api {
    let api = Api::start().await;
    api.furnish().await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    api
}

/// Changes the stored environment as deployments would.
async fn change(api: &Api, how: impl Fn(&mut Environment)) {
    let org = api.ours.uuid;
    let (project, env) = ("shop".parse().unwrap(), "main".parse().unwrap());
    let mut found = api.app.table.environment(org, &project, &env).await.unwrap().unwrap();
    how(&mut found);
    found.version += 1;
    let at = api.clock.now();
    let record = AuditRecord {
        id: System.id(at),
        at,
        by: PrincipalId(Uuid::nil()),
        action: "test.change".to_owned(),
        subject: "the test".to_owned(),
        by_right: "canyon".to_owned(),
        details: Vec::new(),
    };
    assert_eq!(api.app.table.save_environment(org, &found, &record).await.unwrap(), Saved::Yes);
}

#[tokio::test]
async fn an_environment_is_made_read_renamed_listed_and_deleted() {
    let api = furnished().await;
    let (status, made) = api.get(MAIN).await;
    assert_eq!(status, 200);
    insta::assert_snapshot!(settled(&made), @r#"
    {
      "created_at": "[time]",
      "display_name": "main",
      "env_type_id": "dev",
      "id": "main",
      "project_id": "shop",
      "project_uuid": "[uuid]",
      "runner_id": "shared",
      "status": "active",
      "updated_at": "[time]",
      "uuid": "[uuid]"
    }
    "#);
    let (status, renamed) = api.patch(MAIN, json!({ "display_name": "Main" })).await;
    assert_eq!((status, &renamed["display_name"]), (200, &json!("Main")));
    api.make("/env-types", json!({ "id": "prod" })).await;
    api.make("/projects", json!({ "id": "shop/eu" })).await;
    api.make("/projects/shop%2Feu/envs", json!({ "id": "live", "env_type_id": "prod" })).await;
    for (path, ids) in [
        ("/envs", json!(["main", "live"])),
        ("/projects/shop/envs", json!(["main"])),
        ("/projects/shop%2Feu/envs", json!(["live"])),
        ("/envs?byEnvTypeId=prod", json!(["live"])),
        ("/envs?byEnvTypeId=prod&byEnvTypeId=dev", json!(["main", "live"])),
        ("/projects/shop/envs?byEnvTypeId=prod", json!([])),
    ] {
        let (status, page) = api.get(path).await;
        let found: Vec<_> = page["items"].as_array().unwrap().iter().map(|e| &e["id"]).collect();
        assert_eq!((status, json!(found)), (200, ids), "{path}");
    }
    assert_eq!(api.get("/projects/absent/envs").await.0, 404);
    assert_eq!(api.delete(MAIN).await.0, 204, "nothing was deployed, so nothing is destroyed");
    assert_eq!(api.get(MAIN).await.0, 404);
}

#[tokio::test]
async fn an_environment_needs_a_project_a_type_a_rule_and_a_free_name() {
    let api = Api::start().await;
    let body = json!({ "id": "main", "env_type_id": "dev" });
    let post = async || api.post("/projects/shop/envs", body.clone()).await;
    let refused = post().await;
    assert_eq!((refused.0, message(&refused)), (404, "there is no project `shop`"));
    api.make("/projects", json!({ "id": "shop" })).await;
    let refused = post().await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["env_type_id"]));
    assert!(message(&refused).ends_with("canyon create environment-type dev"));
    api.make("/env-types", json!({ "id": "dev" })).await;
    let refused = post().await;
    assert_eq!(refused.0, 409);
    insta::assert_snapshot!(message(&refused), @"no runner rule covers project `shop` and environment type `dev`; add one: canyon create runner-rule --set=runner_id=RUNNER --set=project_id=shop --set=env_type_id=dev");
    api.make("/runners", local_runner("shared")).await;
    api.make("/runner-rules", json!({ "runner_id": "shared" })).await;
    assert_eq!(post().await.0, 201);
    let again = post().await;
    assert_eq!(
        (again.0, message(&again)),
        (409, "project `shop` has an environment `main` already")
    );
}

#[tokio::test]
async fn the_link_to_a_runner_stays_until_it_is_refreshed() {
    let api = furnished().await;
    api.make("/runners", local_runner("own")).await;
    api.make("/runner-rules", json!({ "runner_id": "own", "project_id": "shop" })).await;
    let linked = async || api.get(MAIN).await.1["runner_id"].clone();
    let refresh = format!("{MAIN}/actions/refresh_runner");
    assert_eq!(linked().await, "shared");
    let before = api.audit().await;
    let dry = api.act(&format!("{refresh}?dry_run=true")).await;
    assert_eq!(dry, (200, json!({ "runner_id": "own", "updated": false })));
    assert_eq!(linked().await, "shared");
    assert_eq!(api.audit().await, before, "a dry run writes nothing");

    change(&api, |env| env.queue.join(DeploymentId(Uuid::now_v7())).unwrap()).await;
    let busy = api.act(&refresh).await;
    assert!(busy.0 == 409 && message(&busy).contains("cancel"), "{busy:?}");
    change(&api, |env| env.queue = canyon_domain::deployment_queue::DeploymentQueue::default())
        .await;

    assert_eq!(api.act(&refresh).await, (200, json!({ "runner_id": "own", "updated": true })));
    assert_eq!(linked().await, "own");
    assert_eq!(api.act(&refresh).await, (200, json!({ "runner_id": "own", "updated": false })));

    // Without any rule the environment keeps its runner, and the refusal says why it cannot be refreshed.
    for rule in api.get("/runner-rules").await.1["items"].as_array().unwrap() {
        let path = format!("/runner-rules/{}", rule["id"].as_str().unwrap());
        assert_eq!(api.delete(&path).await.0, 204);
    }
    let refused = api.act(&refresh).await;
    assert!(refused.0 == 409 && message(&refused).contains("create runner-rule"), "{refused:?}");
    assert_eq!(linked().await, "own");
    assert_eq!(api.delete("/runners/shared").await.0, 204, "nothing uses it any more");
    assert_eq!(api.delete("/runners/own").await.0, 409);
}

#[tokio::test]
async fn states_on_the_disk_of_another_machine_are_elsewhere_though_their_path_is_the_same() {
    let api = furnished().await;
    change(&api, |env| env.module.applied = Some(DeploymentId(Uuid::now_v7()))).await;
    let by_agents = json!({ "type": "local", "agents": { "labels": { "host": "other" } } });
    let mut elsewhere = local_runner("elsewhere");
    elsewhere["runner_configuration"] = by_agents.clone();
    api.make("/runners", elsewhere).await;
    api.make("/runner-rules", json!({ "runner_id": "elsewhere", "project_id": "shop" })).await;
    let refresh = format!("{MAIN}/actions/refresh_runner");
    let refused = api.act(&refresh).await;
    assert!(refused.0 == 409 && message(&refused).contains("of other machines"), "{refused:?}");
    let moves = json!({ "runner_configuration": by_agents });
    let refused = api.patch("/runners/shared", moves.clone()).await;
    assert!(refused.0 == 409 && message(&refused).contains("project `shop`"), "{refused:?}");
    // A state in a bucket has the same location for every runner.
    let bucket = json!({ "type": "s3", "bucket": "states" });
    change(&api, |env| env.module.applied = None).await;
    let body = json!({ "state_storage_configuration": bucket });
    let patched = api.patch("/runners/shared", body).await;
    assert_eq!(patched.0, 200, "{patched:?}");
    change(&api, |env| env.module.applied = Some(DeploymentId(Uuid::now_v7()))).await;
    let patched = api.patch("/runners/shared", moves).await;
    assert_eq!(patched.0, 200, "{patched:?}");
}

#[tokio::test]
async fn force_removes_an_environment_at_once_but_not_under_a_deployment() {
    let api = furnished().await;
    change(&api, |env| {
        env.module.applied = Some(DeploymentId(Uuid::now_v7()));
        env.queue.join(DeploymentId(Uuid::now_v7())).unwrap();
    })
    .await;
    for path in [MAIN.to_owned(), format!("{MAIN}?force=true")] {
        let refused = api.delete(&path).await;
        assert!(refused.0 == 409 && message(&refused).contains("cancel"), "{path}: {refused:?}");
    }
    change(&api, |env| env.queue = canyon_domain::deployment_queue::DeploymentQueue::default())
        .await;
    assert_eq!(api.delete(&format!("{MAIN}?force=true&deleteRules=true")).await.0, 204);
    assert_eq!(api.get(MAIN).await.0, 404);
}

#[tokio::test]
async fn a_deletion_that_comes_late_spares_the_environment_that_was_made_anew() {
    let api = furnished().await;
    let uuid = |found: &Value| found["uuid"].as_str().unwrap().to_owned();
    let first = uuid(&api.get(MAIN).await.1);
    let meant = format!("{MAIN}?force=true&uuid={first}");
    assert_eq!(api.delete(&meant).await.0, 204);
    let main = json!({ "id": "main", "env_type_id": "dev" });
    let second = uuid(&api.make("/projects/shop/envs", main).await);
    for late in [meant, format!("{MAIN}?uuid={first}")] {
        let refused = api.delete(&late).await;
        assert!(refused.0 == 409 && message(&refused).contains(&second), "{late}: {refused:?}");
    }
    assert_eq!(uuid(&api.get(MAIN).await.1), second);
    assert_eq!(api.delete(&format!("{MAIN}?uuid=main")).await.0, 400);
    assert_eq!(api.delete(&format!("{MAIN}?uuid={second}")).await.0, 204);
}

#[tokio::test]
async fn what_was_deployed_is_destroyed_before_its_environment_goes() {
    let api = furnished().await;
    let module = json!({ "source": "inline", "source_code": "output \"x\" { value = 1 }" });
    let body =
        json!({ "project_id": "shop", "env_id": "main", "mode": "deploy", "module": module });
    let deployment = api.make("/deployments", body).await;
    let id = deployment["id"].as_str().unwrap().parse().unwrap();
    change(&api, |env| {
        env.module.applied = Some(id);
        env.queue = canyon_domain::deployment_queue::DeploymentQueue::default();
    })
    .await;
    let (status, left) = api.delete(MAIN).await;
    assert_eq!((status, &left["status"]), (202, &json!("deleting")), "{left}");
    assert!(left["status_message"].as_str().unwrap().starts_with("destroy run "), "{left}");
    assert_eq!(api.delete(MAIN).await, (202, left.clone()), "asking again changes nothing");
    let (status, mut shown) = api.get(MAIN).await;
    let deployments = shown.as_object_mut().unwrap().remove("deployments").unwrap();
    assert_eq!((status, shown), (200, left));
    assert_eq!(deployments["last"]["mode"], "destroy");
    assert_eq!(api.delete(&format!("{MAIN}?force=true")).await.0, 409, "its destroy run waits");
}

#[tokio::test]
async fn the_audit_record_of_a_changed_deletion_protection_says_what_is_allowed() {
    let api = furnished().await;
    for (protection, expected) in [
        (json!({ "max_deletions": 3 }), "a run may delete at most 3 resources"),
        (Value::Null, "a run may delete any number of resources"),
    ] {
        let change = json!({ "deletion_protection": protection });
        assert_eq!(api.patch("/projects/shop/envs/main", change).await.0, 200);
        let newest = &api.get("/audit-records?per_page=1").await.1["items"][0];
        assert_eq!(newest["details"], json!([expected]), "{newest}");
    }
}

#[tokio::test]
async fn the_place_of_a_state_without_a_record_is_recorded_before_its_runner_moves_states() {
    let api = furnished().await;
    // An earlier version of Canyon deployed it, and recorded no state.
    change(&api, |environment| environment.module.applied = Some(DeploymentId(Uuid::nil()))).await;
    let storage = json!({ "type": "local", "path": "/var/lib/other" });
    let moved = json!({ "state_storage_configuration": storage, "migrate": true });
    let (status, answer) = api.patch("/runners/shared", moved).await;
    assert_eq!(status, 200, "{answer}");
    let found = api.get("/projects/shop/envs/main").await.1;
    let place = found["state"]["place"].as_str().unwrap();
    assert!(place.starts_with("/var/lib/state/"), "{found}");
    assert_eq!(found["state"]["uncertain"], true, "no run has reported it");
}

#[tokio::test]
async fn an_environment_with_resources_that_no_destroy_run_would_find_is_deleted_only_by_force() {
    let storage = json!({ "type": "local", "path": "/var/lib/state" });
    let facts = json!({ "lineage": "a", "serial": 1, "resources": 3 });
    let unfinished = json!({ "unfinished": Uuid::nil() });
    for (state, reason) in [
        (json!({ "storage": storage, "facts": facts }), "has 3 resources, and no deployment"),
        (json!({ "storage": storage, "doubt": unfinished }), "did not report everything"),
    ] {
        let api = furnished().await;
        let state: EnvironmentState = serde_json::from_value(state).unwrap();
        change(&api, |environment| environment.module.state = Some(state.clone())).await;
        let refused = api.delete(MAIN).await;
        assert!(refused.0 == 409 && message(&refused).contains(reason), "{refused:?}");
        assert_eq!(api.get(MAIN).await.0, 200, "it is still there");
        let forced = api.delete(&format!("{MAIN}?force=true")).await;
        assert_eq!(forced.0, 204, "{forced:?}");
    }
}

#[tokio::test]
async fn an_environment_shows_what_was_deployed_last_and_what_succeeded_last() {
    let api = crate::job::furnished().await;
    let glance = async || {
        let (status, found) = api.get("/projects/shop/envs/main").await;
        assert_eq!(status, 200, "{found}");
        found["deployments"].clone()
    };
    assert_eq!(glance().await, Value::Null, "nothing was deployed");
    let first = Job::start(&api).await;
    first.succeed(&api).await;
    let mut plan = order();
    plan["plan_only"] = true.into();
    let plan = api.make("/deployments", plan).await;
    let plan = Job::of(&api, plan["id"].as_str().unwrap().to_owned()).await;
    plan.succeed(&api).await;
    let shown = glance().await;
    assert_eq!(
        (&shown["last"]["id"], &shown["last"]["plan_only"]),
        (&json!(plan.id), &json!(true))
    );
    assert_eq!(shown["last_success"]["id"], json!(first.id), "a plan is none");
    assert_eq!(shown["last_success"]["status"], "succeeded");

    let second = Job::start(&api).await;
    let third = deploy(&api).await;
    let shown = glance().await;
    assert_eq!((&shown["current"], &shown["waiting"]), (&json!(second.id), &json!(1)));
    assert_eq!((&shown["last"]["id"], &shown["last"]["status"]), (&json!(third), &json!("queued")));
    assert_eq!(second.result(&api, json!({ "status": "failure" })).await.0, 204);
    assert_eq!(glance().await["last_success"]["id"], json!(first.id));
    let page = api.get("/projects/shop/envs").await.1;
    assert_eq!(page["items"][0]["deployments"], Value::Null, "lists leave it out");
}

#[tokio::test]
async fn a_success_that_an_earlier_version_did_not_record_is_found() {
    let api = crate::job::furnished().await;
    let first = Job::start(&api).await;
    first.succeed(&api).await;
    let mut environment = crate::job::environment(&api).await;
    assert_eq!(environment.module.last_success, Some(first.deployment()));
    environment.module.last_success = None;
    environment.version += 1;
    let deployment = crate::job::stored(&api, &first.id).await;
    let (id, now) = (uuid::Uuid::now_v7(), deployment.created_at);
    let record = canyon_domain::audit::AuditRecord::of_end(id, now, "canyon", &deployment);
    api.app.table.save_environment(api.ours.uuid, &environment, &record).await.unwrap();
    let found = api.get("/projects/shop/envs/main").await.1;
    assert_eq!(found["deployments"]["last_success"]["id"], json!(first.id), "{found}");
}
