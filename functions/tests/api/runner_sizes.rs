//! The size of a runner that several requests enlarge has the same limit as one request.

use crate::harness::{Answer, Api, faults, local_runner, message};
use crate::runners::kubernetes;
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::PrincipalId;
use canyon_domain::ports::Entropy as _;
use canyon_domain::state_storage::StateStorage;
use canyon_identity::system::System;
use canyon_store::item_size::MAX_ITEM;
use serde_json::{Value, json};
use uuid::Uuid;

/// The job of a Kubernetes runner with an annotation of so many bytes.
fn job(bytes: usize) -> Value {
    json!({
        "namespace": "canyon", "service_account": "canyon",
        "pod_template": { "metadata": { "annotations": { "note": "x".repeat(bytes) } } },
    })
}

fn patch(part: &str, value: &Value) -> Value {
    json!({ "runner_configuration": { "type": "kubernetes", part: value } })
}

fn assert_refused(answer: &Answer, path: &str) {
    assert_eq!((answer.0, faults(answer)), (400, vec![path]), "{}", answer.1);
    assert!(message(answer).contains("131072"), "it says how much may be: {}", answer.1);
}

#[tokio::test]
async fn a_definition_that_changes_let_grow_too_large_is_refused_with_its_largest_part_and_stays() {
    const NOTE: &str = "runner_configuration.job.pod_template.metadata.annotations.note";
    let api = Api::start().await;
    api.make("/runners", kubernetes()).await;
    let (status, grown) = api.patch("/runners/my-cluster", patch("job", &job(90_000))).await;
    assert_eq!(status, 200, "{grown}");
    let before = (api.get("/runners/my-cluster").await, api.audit().await);

    let mut cluster = kubernetes()["runner_configuration"]["cluster"].clone();
    cluster["cluster_data"]["certificate_authority_data"] = json!("x".repeat(60_000));
    let refused = api.patch("/runners/my-cluster", patch("cluster", &cluster)).await;
    assert_refused(&refused, NOTE);
    assert!(message(&refused).contains("has 90002 bytes"), "{}", refused.1);
    assert_refused(&api.patch("/runners/my-cluster", patch("job", &job(140_000))).await, NOTE);
    // Numbers that are short in the request and long in the table.
    let many = vec![1e15; 40_000];
    let body = patch(
        "job",
        &json!({ "namespace": "a", "service_account": "a", "pod_template": { "a": many } }),
    );
    let body = body.to_string().replace("1000000000000000.0", "1e15").into_bytes();
    let path = format!("/orgs/{}/runners/my-cluster", api.ours.id);
    let sent = api.send(reqwest::Method::PATCH, &path, Some(&api.ours.admin), Some(body)).await;
    assert_refused(&sent, "runner_configuration.job.pod_template.a");
    assert_eq!((api.get("/runners/my-cluster").await, api.audit().await), before);

    let mut other = kubernetes();
    other["id"] = json!("other");
    other["runner_configuration"]["job"] = job(140_000);
    assert_refused(&api.post("/runners", other).await, NOTE);
    assert_eq!(api.get("/runners/other").await.0, 404);
    let profile = json!({ "id": "large", "job": job(140_000) });
    let refused = api.post("/runner-profiles", profile).await;
    assert_refused(&refused, &NOTE["runner_configuration.".len()..]);
}

#[tokio::test]
async fn what_canyon_adds_to_a_runner_until_no_item_holds_it_is_refused_and_no_failure_of_canyons()
{
    let api = Api::start().await;
    api.make("/runners", local_runner("laptop")).await;
    let (org, id) = (api.ours.uuid, "laptop".parse().unwrap());
    let mut stored = api.app.table.runner(org, &id).await.unwrap().unwrap();
    let storage = |n: usize| -> StateStorage {
        let path = format!("/{n:0>1000}");
        serde_json::from_value(json!({ "type": "local", "path": path })).unwrap()
    };
    stored.former_storages = (0..MAX_ITEM / 1_060).map(storage).collect();
    stored.version += 1;
    let record = AuditRecord {
        id: System.id(stored.created_at),
        at: stored.created_at,
        by: PrincipalId(Uuid::nil()),
        action: "test.change".to_owned(),
        subject: "runners/laptop".to_owned(),
        by_right: "admin".to_owned(),
        details: Vec::new(),
    };
    api.app.table.save_runner(org, &stored, None, &record).await.unwrap();
    let mut refused = None;
    for n in 0..60 {
        let before = api.get("/runners/laptop").await;
        let storage = json!({ "type": "local", "path": format!("/next-{n:0>1000}") });
        let body = json!({ "state_storage_configuration": storage, "migrate": true });
        let answer = api.patch("/runners/laptop", body).await;
        if answer.0 != 200 {
            assert_eq!(api.get("/runners/laptop").await, before);
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.unwrap();
    assert_eq!((refused.0, faults(&refused)), (400, vec!["former_storages"]), "{}", refused.1);
    assert!(message(&refused).contains("`laptop`") && message(&refused).contains("358400"));
}
