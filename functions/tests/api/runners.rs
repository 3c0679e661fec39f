//! Runners, their secrets and their users.

use crate::harness::{Api, faults, local_runner, message, settled};
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::PrincipalId;
use canyon_domain::ports::Entropy as _;
use canyon_identity::system::System;
use canyon_store::runners::RunnerRecord;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

fn gke() -> Value {
    json!({
        "id": "my-gke-runner",
        "description": "EU production",
        "runner_configuration": {
            "type": "kubernetes-gke",
            "cluster": {
                "name": "my-cluster", "project_id": "my-gcp-project", "location": "europe-west3",
                "auth": {
                    "gcp_audience": "//iam.googleapis.com/projects/123456789/locations/global/workloadIdentityPools/canyon/providers/canyon",
                    "gcp_service_account": "runner@my-gcp-project.iam.gserviceaccount.com",
                },
            },
            "job": { "namespace": "canyon-runner", "service_account": "canyon-runner" },
        },
        "state_storage_configuration": { "type": "kubernetes", "namespace": "canyon-runner" },
    })
}

pub(crate) fn kubernetes() -> Value {
    json!({
        "id": "my-cluster",
        "runner_configuration": {
            "type": "kubernetes",
            "cluster": {
                "cluster_data": {
                    "server": "https://cluster.example:6443",
                    "certificate_authority_data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==",
                },
                "auth": { "service_account_token": "very-secret-token" },
            },
            "job": { "namespace": "canyon", "service_account": "canyon" },
        },
        "state_storage_configuration": { "type": "kubernetes", "namespace": "canyon" },
    })
}

#[tokio::test]
async fn a_token_in_the_field_of_a_certificate_is_shown_to_administrators_alone() {
    let api = Api::start().await;
    let field = |runner: &Value| {
        runner["runner_configuration"]["cluster"]["auth"]["client_certificate_data"].clone()
    };
    let mut body = kubernetes();
    body["runner_configuration"]["cluster"]["auth"] =
        json!({ "client_certificate_data": "hunter2", "client_key_data": "Y2E=" });
    let made = api.make("/runners", body.clone()).await;
    let path = "runner_configuration.cluster.auth.client_certificate_data";
    assert_eq!(made["warnings"][0]["path"], path, "{made}");
    assert_eq!(field(&api.get("/runners/my-cluster").await.1), "hunter2");
    for token in [&api.ours.viewer, &api.ours.deployer] {
        let (status, seen) = api.call_as(token, Method::GET, "/runners/my-cluster", None).await;
        assert_eq!((status, &seen["warnings"]), (200, &made["warnings"]));
        assert!(!seen.to_string().contains("hunter2"), "{seen}");
    }
    // A certificate is public.
    let certificate = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==";
    body["id"] = json!("other");
    body["runner_configuration"]["cluster"]["auth"]["client_certificate_data"] = certificate.into();
    api.make("/runners", body).await;
    let (_, seen) = api.call_as(&api.ours.viewer, Method::GET, "/runners/other", None).await;
    assert_eq!(field(&seen), certificate);
}

#[tokio::test]
async fn a_runner_reads_back_as_it_was_given() {
    let api = Api::start().await;
    let made = api.make("/runners", gke()).await;
    assert_eq!(api.get("/runners/my-gke-runner").await, (200, made.clone()));
    for (name, value) in gke().as_object().unwrap() {
        assert_eq!(&made[name], value, "{name}");
    }
    let (status, page) = api.get("/runners").await;
    assert_eq!(status, 200);
    insta::assert_snapshot!(settled(&page), @r#"
    {
      "items": [
        {
          "created_at": "[time]",
          "description": "EU production",
          "id": "my-gke-runner",
          "org_id": "our-org",
          "runner_configuration": {
            "type": "kubernetes-gke"
          },
          "state_storage_configuration": {
            "type": "kubernetes"
          },
          "updated_at": "[time]"
        }
      ]
    }
    "#);
    api.make("/runners", local_runner("other")).await;
    for (filter, count) in [("local", 1), ("kubernetes-gke", 1), ("serverless-ecs", 0), ("x", 0)] {
        let (_, page) = api.get(&format!("/runners?byRunnerType={filter}")).await;
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{filter}");
    }
    let again = api.post("/runners", gke()).await;
    assert!(again.0 == 409 && message(&again).contains("canyon update runner"), "{again:?}");
    assert_eq!(api.delete("/runners/my-gke-runner").await.0, 204);
    assert_eq!(api.get("/runners/my-gke-runner").await.0, 404);
}

#[tokio::test]
async fn an_update_changes_what_it_gives_and_keeps_the_rest() {
    let api = Api::start().await;
    let made = api.make("/runners", gke()).await;
    let job = json!({ "namespace": "elsewhere", "service_account": "canyon-runner" });
    let patch = json!({ "runner_configuration": { "type": "kubernetes-gke", "job": job } });
    let (status, changed) = api.patch("/runners/my-gke-runner", patch).await;
    assert_eq!((status, &changed["runner_configuration"]["job"]), (200, &job), "{changed}");
    assert_eq!(changed["runner_configuration"]["cluster"], made["runner_configuration"]["cluster"]);
    assert_eq!(changed["description"], "EU production");
    assert_eq!(api.get("/runners/my-gke-runner").await.1, changed);
    let other = json!({ "runner_configuration": { "type": "kubernetes" } });
    let refused = api.patch("/runners/my-gke-runner", other).await;
    assert_eq!(refused.0, 400);
    assert!(faults(&refused).contains(&"runner_configuration.type"), "{refused:?}");
    assert_eq!(api.patch("/runners/absent", json!({})).await.0, 404);
}

#[tokio::test]
async fn a_secret_is_sealed_never_shown_and_kept_until_it_is_replaced() {
    const PATH: &str = "runner_configuration.cluster.auth.service_account_token";
    let api = Api::start().await;
    let made = api.make("/runners", kubernetes()).await;
    assert!(!made.to_string().contains("very-secret"), "{made}");
    let id = "my-cluster".parse().unwrap();
    let place = RunnerRecord::sealing_context(api.ours.uuid, &id);
    let opened = async || {
        let stored = api.app.table.runner(api.ours.uuid, &id).await.unwrap().unwrap();
        assert!(!stored.definition.contains("secret"), "{}", stored.definition);
        let sealed = stored.sealed_secrets.unwrap();
        let key = api.app.master_keys.get().await.unwrap();
        serde_json::from_slice::<Value>(&key.open(&place, &sealed).unwrap()).unwrap()
    };
    assert_eq!(opened().await, json!({ PATH: "very-secret-token" }));

    assert_eq!(api.patch("/runners/my-cluster", json!({ "description": "ours" })).await.0, 200);
    assert_eq!(opened().await, json!({ PATH: "very-secret-token" }), "it is kept");

    let mut cluster = kubernetes()["runner_configuration"]["cluster"].clone();
    cluster["auth"]["service_account_token"] = json!("new-secret-token");
    let patch =
        json!({ "runner_configuration": { "type": "kubernetes", "cluster": cluster.clone() } });
    assert_eq!(api.patch("/runners/my-cluster", patch).await.0, 200);
    assert_eq!(opened().await, json!({ PATH: "new-secret-token" }), "it is replaced");

    // A caller that changes the cluster's address must give the secret again that is sent there.
    cluster["cluster_data"]["server"] = json!("https://elsewhere.example:6443");
    cluster["auth"] = json!({});
    let patch = json!({ "runner_configuration": { "type": "kubernetes", "cluster": cluster } });
    let refused = api.patch("/runners/my-cluster", patch).await;
    assert_eq!(refused.0, 400, "{refused:?}");
    assert_eq!(opened().await, json!({ PATH: "new-secret-token" }));
}

#[tokio::test]
async fn a_runner_in_use_is_kept_and_its_users_are_named() {
    let api = Api::start().await;
    api.furnish().await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    let refused = api.delete("/runners/shared").await;
    assert_eq!(refused.0, 409);
    let text = message(&refused);
    for part in ["environment `main` of project `shop`", "(every environment)", "refresh-runner"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(refused.1["details"]["runner_rules"].as_array().unwrap().len(), 1);
    assert_eq!(api.get("/runners/shared").await.0, 200);
}

#[tokio::test]
async fn a_canyon_without_a_machine_of_its_own_refuses_local_runners() {
    let api = Api::start_with(false).await;
    let refused = api.post("/runners", local_runner("mine")).await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["runner_configuration.type"]));
    // A runner whose jobs agents launch cannot become a local one either.
    let mut runner = local_runner("far");
    runner["runner_configuration"]["agents"] = json!({ "ids": ["a"] });
    api.make("/runners", runner).await;
    let change = json!({ "runner_configuration": { "agents": null } });
    let refused = api.patch("/runners/far", change).await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["runner_configuration.type"]));
}

#[tokio::test]
async fn what_a_runner_cannot_be_is_refused_field_by_field() {
    let with = |path: &str, value: Value| {
        let mut body = gke();
        *body.pointer_mut(path).unwrap() = value;
        body
    };
    let template = |spec: Value| {
        let mut body = gke();
        body["runner_configuration"]["job"]["pod_template"] = json!({ "spec": spec });
        body
    };
    let mut unknown = gke();
    unknown["runner_configuration"]["cluster"]["zone"] = json!("a");
    let container = |extra: Value| {
        let mut container = json!({ "name": "canyon-runner" });
        container.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({ "containers": [container] })
    };
    let cases = [
        ("unknown field", unknown, "runner_configuration.cluster.zone"),
        (
            "unknown type",
            with("/runner_configuration/type", json!("nomad")),
            "runner_configuration.type",
        ),
        ("wrong type", with("/runner_configuration/job", json!([])), "runner_configuration.job"),
        (
            "impossible pair",
            with("/state_storage_configuration", json!({ "type": "local", "path": "/x" })),
            "state_storage_configuration.type",
        ),
        (
            "host path",
            template(json!({ "volumes": [{ "name": "root", "hostPath": { "path": "/" } }] })),
            "volumes",
        ),
        (
            "privileged",
            template(container(json!({ "securityContext": { "privileged": true } }))),
            "privileged",
        ),
        ("host network", template(json!({ "hostNetwork": true })), "hostNetwork"),
        (
            "service account",
            template(json!({ "serviceAccountName": "admin" })),
            "serviceAccountName",
        ),
    ];
    let api = Api::start().await;
    let before = api.audit().await;
    for (what, body, path) in cases {
        let refused = api.post("/runners", body).await;
        let named = faults(&refused).iter().any(|fault| fault.contains(path));
        assert!(refused.0 == 400 && named, "{what}: {refused:?}");
    }
    assert_eq!(api.get("/runners").await.1, json!({ "items": [] }));
    assert_eq!(api.audit().await, before);
}

#[tokio::test]
async fn a_runner_is_disabled_and_enabled_and_stays_what_it_is() {
    let api = Api::start().await;
    let made = api.make("/runners", local_runner("laptop")).await;
    assert!(made.get("disabled").is_none(), "{made}");
    let (status, off) = api.patch("/runners/laptop", json!({ "disabled": true })).await;
    assert_eq!((status, &off["disabled"]), (200, &json!(true)), "{off}");
    assert_eq!(off["runner_configuration"], made["runner_configuration"]);
    assert_eq!(api.get("/runners").await.1["items"][0]["disabled"], json!(true));

    // A change of its definition does not enable it.
    let (_, changed) = api.patch("/runners/laptop", json!({ "description": "mine" })).await;
    assert_eq!((&changed["disabled"], &changed["description"]), (&json!(true), &json!("mine")));
    let before = api.audit().await.len();
    let both = json!({ "disabled": false, "description": "ours" });
    let (_, on) = api.patch("/runners/laptop", both).await;
    assert!(on.get("disabled").is_none() && on["description"] == "ours", "{on}");
    assert_eq!(api.audit().await.len(), before + 1, "both in one write");
    let none = api.patch("/runners/none", json!({ "disabled": true })).await;
    assert_eq!(none.0, 404, "{none:?}");
}

#[tokio::test]
async fn what_cannot_work_is_stored_with_warnings_until_it_is_changed() {
    const SERVER: &str = "runner_configuration.cluster.cluster_data.server";
    const TOKEN: &str = "runner_configuration.cluster.auth.service_account_token";
    let api = Api::start().await;
    let paths = |runner: &Value| {
        let warnings = runner["warnings"].as_array().cloned().unwrap_or_default();
        let path = |warning: Value| warning["path"].as_str().unwrap().to_owned();
        warnings.into_iter().map(path).collect::<Vec<_>>()
    };
    let mut crooked = kubernetes();
    let cluster = &mut crooked["runner_configuration"]["cluster"];
    cluster["cluster_data"]["server"] = json!("cluster.example:6443");
    cluster["auth"] = json!({});
    let made = api.make("/runners", crooked.clone()).await;
    assert_eq!(paths(&made), [SERVER, TOKEN]);
    assert_eq!(api.get("/runners/my-cluster").await, (200, made));
    let (_, trust) = api.get("/runners/my-cluster/trust").await;
    assert!(trust.to_string().contains(SERVER), "{trust}");

    // A fault elsewhere does not block another change.
    let (status, changed) = api.patch("/runners/my-cluster", json!({ "description": "x" })).await;
    assert_eq!((status, paths(&changed)), (200, vec![SERVER.to_owned(), TOKEN.to_owned()]));

    let cluster = kubernetes()["runner_configuration"]["cluster"].clone();
    let patch = json!({ "runner_configuration": { "type": "kubernetes", "cluster": cluster } });
    let (status, changed) = api.patch("/runners/my-cluster", patch).await;
    assert_eq!((status, paths(&changed)), (200, vec![]), "{changed}");
    assert!(changed.get("warnings").is_none(), "{changed}");

    // The warning about a secret is given once, with the answer to the write.
    let mut cluster = kubernetes()["runner_configuration"]["cluster"].clone();
    cluster["auth"]["service_account_token"] = json!("two words");
    let patch = json!({ "runner_configuration": { "type": "kubernetes", "cluster": cluster } });
    let (status, changed) = api.patch("/runners/my-cluster", patch).await;
    assert_eq!((status, paths(&changed)), (200, vec![TOKEN.to_owned()]), "{changed}");
}

#[tokio::test]
async fn a_definition_of_before_that_is_refused_today_can_be_read_changed_and_deleted() {
    let api = Api::start().await;
    let mut body = kubernetes();
    body["runner_configuration"]["cluster"]["auth"] = json!({ "oidc": { "audience": "canyon" } });
    api.make("/runners", body.clone()).await;
    let (org, id) = (api.ours.uuid, "my-cluster".parse().unwrap());
    let mut stored = api.app.table.runner(org, &id).await.unwrap().unwrap();
    stored.definition =
        stored.definition.replace(r#""audience":"canyon""#, r#""audience":"sts.amazonaws.com""#);
    stored.version += 1;
    let record = AuditRecord {
        id: System.id(stored.created_at),
        at: stored.created_at,
        by: PrincipalId(Uuid::nil()),
        action: "test.change".to_owned(),
        subject: "runners/my-cluster".to_owned(),
        by_right: "admin".to_owned(),
        details: Vec::new(),
    };
    api.app.table.save_runner(org, &stored, None, &record).await.unwrap();

    let (status, shown) = api.get("/runners/my-cluster").await;
    let named = shown["warnings"][0]["path"].as_str();
    let audience = "runner_configuration.cluster.auth.oidc.audience";
    assert_eq!((status, named), (200, Some(audience)), "{shown}");
    assert_eq!(api.get("/runners/my-cluster/trust").await.0, 409);
    let cluster = body["runner_configuration"]["cluster"].clone();
    let patch = json!({ "runner_configuration": { "type": "kubernetes", "cluster": cluster } });
    let (status, changed) = api.patch("/runners/my-cluster", patch).await;
    assert!(status == 200 && changed.get("warnings").is_none(), "{changed}");
    assert_eq!(api.delete("/runners/my-cluster").await.0, 204);
}

#[tokio::test]
async fn a_runner_of_the_machines_own_engine_is_refused_where_canyon_has_no_machine() {
    let mut body = gke();
    body["runner_configuration"] = json!({ "type": "docker" });
    body["state_storage_configuration"] = json!({ "type": "s3", "bucket": "states" });
    Api::start_with(true).await.make("/runners", body.clone()).await;
    let answer = Api::start_with(false).await.post("/runners", body).await;
    assert_eq!((answer.0, faults(&answer)), (400, vec!["runner_configuration.type"]));
    let fault = &answer.1["details"]["fields"][0]["reason"];
    assert!(fault.as_str().unwrap().contains("use `docker-agent`"), "{fault}");
}
