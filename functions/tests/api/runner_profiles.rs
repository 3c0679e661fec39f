//! Profiles of runners.

use crate::harness::{Api, faults, message};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn a_profile_is_made_read_changed_listed_and_deleted() {
    let api = Api::start().await;
    let body = json!({
        "id": "production/eu",
        "description": "large jobs",
        "agents": { "labels": { "region": "eu" } },
        "job": { "memory_limit": 4096, "image": null },
    });
    let made = api.make("/runner-profiles", body.clone()).await;
    assert_eq!(made["runner_types"], json!(["docker-agent"]));
    for name in ["id", "description", "agents", "job"] {
        assert_eq!(made[name], body[name], "{name}");
    }
    let path = "/runner-profiles/production%2Feu";
    assert_eq!(api.get(path).await, (200, made));
    let again = api.post("/runner-profiles", body).await;
    assert!(
        again.0 == 409 && message(&again).contains("canyon update runner-profile"),
        "{again:?}"
    );

    let (status, changed) = api.patch(path, json!({ "agents": {}, "job": {} })).await;
    assert_eq!((status, changed.get("agents"), &changed["job"]), (200, None, &json!({})));
    assert_eq!(changed["description"], "large jobs");
    assert_eq!(changed["runner_types"], json!(["kubernetes-agent", "ecs-agent", "docker-agent"]));
    assert_eq!(api.get("/runner-profiles").await, (200, json!({ "items": [changed] })));
    assert_eq!(api.delete(path).await.0, 204);
    assert_eq!(api.get(path).await.0, 404);
    let written: Vec<_> =
        api.audit().await.into_iter().filter(|line| line.starts_with("runner_profile")).collect();
    assert_eq!(written.len(), 3, "{written:?}");
}

#[tokio::test]
async fn a_profile_that_no_runner_could_take_is_refused_field_by_field() {
    let api = Api::start().await;
    let body = json!({ "id": "a/../b", "agents": {}, "job": { "memory_limit": 1 } });
    let answer = api.post("/runner-profiles", body).await;
    assert_eq!(answer.0, 400);
    let said = faults(&answer).join("\n");
    for path in ["id", "agents"] {
        assert!(said.contains(path), "{path}: {said}");
    }
    let body = json!({ "id": "small", "job": { "memory_limit": 1 } });
    let said = faults(&api.post("/runner-profiles", body).await).join("\n");
    assert!(said.contains("job.memory_limit"), "{said}");
    // A change is validated as a whole, and no part of a faulty one is stored.
    let made = api.make("/runner-profiles", json!({ "id": "small", "job": {} })).await;
    let change = json!({ "description": "x", "job": { "nope": 1 } });
    assert_eq!(api.patch("/runner-profiles/small", change).await.0, 400);
    assert_eq!(api.get("/runner-profiles/small").await.1, made);
}

#[tokio::test]
async fn only_admins_create_profiles_and_no_organization_reads_those_of_others() {
    let api = Api::start().await;
    let body = json!({ "id": "small", "job": {} });
    let paths = [(Method::POST, "/runner-profiles"), (Method::DELETE, "/runner-profiles/small")];
    api.make("/runner-profiles", body.clone()).await;
    for (method, path) in paths {
        for token in [&api.ours.viewer, &api.ours.deployer] {
            let answer = api.call_as(token, method.clone(), path, Some(&body)).await;
            assert_eq!(answer.0, 403, "{method} {path} {answer:?}");
        }
    }
    let foreign = api.call_as(&api.theirs.admin, Method::GET, "/runner-profiles/small", None).await;
    assert_eq!(foreign.0, 404, "{foreign:?}");
}
