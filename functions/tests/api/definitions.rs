//! Resource definitions: who may write them, which one a resource gets, and what runs for it.

use crate::container_world::{begin, order_without_job, resources, succeeds, with_engine};
use crate::harness::{Api, message};
use reqwest::Method;
use serde_json::{Value, json};

const DEFS: &str = "/resources/defs";

fn echo(id: &str, resource_type: &str, values: &Value, criteria: &Value) -> Value {
    json!({
        "id": id, "name": id, "type": resource_type, "driver_type": "humanitec/echo",
        "driver_inputs": { "values": values }, "criteria": criteria,
    })
}

fn bucket(id: &str, more: &Value) -> Value {
    let mut body = json!({
        "id": id, "name": "S3 Bucket", "type": "s3", "driver_type": "humanitec/container-runner",
        "driver_inputs": { "values": { "job": { "image": "acme/bucket:1", "command": ["/opt/bucket"] } } },
        "criteria": [{ "env_type": "dev" }],
    });
    canyon_domain::merge_patch::merge_patch(&mut body, more.clone());
    body
}

/// An environment on an engine, whose `config` names no cluster.
async fn with_config() -> Api {
    let api = with_engine().await;
    let config =
        echo("config-runner", "config", &json!({}), &json!([{ "res_id": "container-runner" }]));
    api.make(DEFS, config).await;
    api
}

async fn explained(api: &Api, resource: &str) -> Value {
    let name = resource.replace('#', "%23");
    let path = format!("/projects/shop/envs/main/resources/{name}/explanation");
    let (status, found) = api.get(&path).await;
    assert_eq!(status, 200, "{found}");
    found
}

#[tokio::test]
async fn a_resource_runs_the_job_of_its_definition_with_its_parameters() {
    let api = with_config().await;
    let files = json!({ "a.json": "{\"bucket\": \"${context.app.id}-${context.env.id}-${context.res.id}\"}" });
    let more =
        json!({ "driver_inputs": { "values": { "files": files, "append_logs_to_error": true } } });
    api.make(DEFS, bucket("s3-bucket", &more)).await;
    let mut order = order_without_job("deploy", "s3#photos");
    order["params"] = json!({ "versioned": true });
    let (job, claimed) = begin(&api, order).await;
    let task = &claimed["bundle"]["container"];
    assert_eq!(
        (&task["resource"], &task["job"]["image"]),
        (&json!("s3.default#photos"), &json!("acme/bucket:1"))
    );
    assert_eq!(task["job"]["inputs"], json!({ "versioned": true }));
    assert_eq!(task["job"]["files"]["a.json"], "{\"bucket\": \"shop-main-photos\"}");
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    job.succeed(&api).await;

    // A destroy repeats that job, also when the definition has changed or is gone.
    let refused = api.delete(&format!("{DEFS}/s3-bucket")).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    assert!(
        message(&refused).contains("resource `s3.default#photos` of environment `main`"),
        "{}",
        refused.1
    );
    let forced = api.delete(&format!("{DEFS}/s3-bucket?force=true")).await;
    assert_eq!(forced.0, 204, "{}", forced.1);
    let (job, claimed) = begin(&api, order_without_job("destroy", "s3#photos")).await;
    assert_eq!(claimed["bundle"]["container"]["job"]["image"], "acme/bucket:1");
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    job.succeed(&api).await;
    assert_eq!(resources(&api).await, []);
}

#[tokio::test]
async fn secrets_of_a_definition_are_sealed_shown_to_no_caller_and_given_to_the_job() {
    let api = with_config().await;
    let secrets = json!({ "job": { "variables": { "TOKEN": { "value": "hunter${22}" } } } });
    let made = api
        .make(DEFS, bucket("s3-bucket", &json!({ "driver_inputs": { "secret_refs": secrets } })))
        .await;
    assert_eq!(
        made["driver_inputs"]["secret_refs"]["job"]["variables"]["TOKEN"],
        json!({ "sealed": true })
    );
    let changed = api.patch(&format!("{DEFS}/s3-bucket"), json!({ "name": "Other" })).await;
    assert_eq!((changed.0, &changed.1["name"]), (200, &json!("Other")), "{}", changed.1);
    let forged = json!({ "driver_inputs": { "secret_refs": { "job": { "variables": { "TOKEN": { "sealed": "x" } } } } } });
    let refused = api.patch(&format!("{DEFS}/s3-bucket"), forged).await;
    assert_eq!(refused.0, 400, "{}", refused.1);
    let (_, listed) = api.get(DEFS).await;
    assert!(!listed.to_string().contains("hunter${22}"), "{listed}");
    let (_, claimed) = begin(&api, order_without_job("deploy", "s3")).await;
    assert_eq!(
        claimed["bundle"]["container"]["job"]["secret_variables"]["TOKEN"],
        json!({ "sealed": true })
    );
    let secret =
        claimed["variables"].as_array().unwrap().iter().find(|one| one["value"] == "hunter${22}");
    assert_eq!(
        secret.unwrap()["name"],
        "secret_variables[\"TOKEN\"]",
        "after a change of another field too"
    );
}

#[tokio::test]
async fn an_explanation_says_which_definition_a_resource_gets_and_what_would_run() {
    let api = with_config().await;
    api.make(DEFS, bucket("s3-general", &json!({ "criteria": [{}] }))).await;
    api.make(DEFS, bucket("s3-of-dev", &json!({}))).await;
    let found = explained(&api, "s3#photos").await;
    assert_eq!(found["considered"][0]["id"], "s3-of-dev");
    assert_eq!(found["considered"][0]["is_chosen"], true);
    assert!(
        found["considered"][1]["reason"]
            .as_str()
            .unwrap()
            .contains("less specific than that of `s3-of-dev`"),
        "{found}"
    );
    assert_eq!((&found["image"], &found["runner_id"]), (&json!("acme/bucket:1"), &json!("engine")));
    let found = explained(&api, "queue").await;
    let problem = found["problem"].as_str().unwrap();
    assert!(
        problem.contains("no resource definition fits `queue.default#main`")
            && problem.contains("canyon create -f"),
        "{found}"
    );
}

#[tokio::test]
async fn references_take_the_outputs_of_resources_that_were_deployed() {
    let api = with_config().await;
    api.make(DEFS, bucket("s3-bucket", &json!({}))).await;
    let files = json!({ "name": "${resources['s3#main'].outputs.name}" });
    let dns = json!({ "type": "dns", "driver_inputs": { "values": { "files": files } } });
    api.make(DEFS, bucket("dns-of-dev", &dns)).await;
    let refused = api.post("/deployments", order_without_job("deploy", "dns")).await;
    assert_eq!(refused.0, 409);
    let expected = "has no resource `s3.default#main` yet, to which a resource definition refers: deploy it first with `canyon deploy shop main --resource s3.default#main`";
    assert!(message(&refused).contains(expected), "{}", refused.1);
    succeeds(&api, order_without_job("deploy", "s3")).await;
    let refused = api.post("/deployments", order_without_job("deploy", "dns")).await;
    assert!(
        message(&refused)
            .contains("refers to output `name` of `s3.default#main`, which has no outputs"),
        "{}",
        refused.1
    );
}

#[tokio::test]
async fn wrong_definitions_are_refused_and_leave_nothing() {
    let api = with_config().await;
    let (status, refused) =
        api.post(DEFS, json!({ "id": "x", "driver_type": "humanitec/helm", "criteria": 1 })).await;
    assert_eq!(status, 400, "{refused}");
    let paths: Vec<_> = refused["details"]["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["path"].clone())
        .collect();
    for path in ["id", "name", "type", "driver_type", "criteria"] {
        assert!(paths.contains(&json!(path)), "no {path} in {refused}");
    }
    api.make(DEFS, bucket("s3-bucket", &json!({}))).await;
    let twin = api.post(DEFS, bucket("s3-twin", &json!({}))).await;
    assert_eq!(twin.0, 400, "{}", twin.1);
    assert!(
        twin.1.to_string().contains("has a criterion that `s3-bucket` has too (env_type dev)"),
        "{}",
        twin.1
    );
    let again = api.post(DEFS, bucket("s3-bucket", &json!({ "criteria": [] }))).await;
    assert_eq!(again.0, 409, "{}", again.1);
    let (_, listed) = api.get(DEFS).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed}");
}

#[tokio::test]
async fn criteria_are_added_and_removed_and_a_proposal_shows_what_would_change() {
    let api = with_config().await;
    api.make(DEFS, bucket("s3-bucket", &json!({}))).await;
    api.make(DEFS, bucket("s3-other", &json!({ "criteria": [] }))).await;
    succeeds(&api, order_without_job("deploy", "s3#photos")).await;
    let path = format!("{DEFS}/s3-other?proposed=true");
    let change = json!({ "criteria": [{ "res_id": "photos" }] });
    let (status, proposed) = api.patch(&path, change).await;
    assert_eq!(status, 200, "{proposed}");
    let expected = json!([{ "app_id": "shop", "env_id": "main", "res_id": "s3.default#photos", "from_def": "s3-bucket", "to_def": "s3-other" }]);
    assert_eq!(proposed, expected);
    assert_eq!(
        explained(&api, "s3#photos").await["considered"][0]["id"],
        "s3-bucket",
        "nothing was written"
    );
    let criteria = format!("{DEFS}/s3-other/criteria");
    let (status, added) = api.post(&criteria, json!({ "res_id": "photos" })).await;
    assert_eq!(status, 201, "{added}");
    assert_eq!(explained(&api, "s3#photos").await["considered"][0]["id"], "s3-other");
    let one = format!("{criteria}/{}", added["id"].as_str().unwrap());
    assert_eq!(api.delete(&one).await.0, 204);
    assert_eq!(api.delete(&one).await.0, 404);
    assert_eq!(explained(&api, "s3#photos").await["considered"][0]["id"], "s3-bucket");
}

#[tokio::test]
async fn a_secret_output_is_sealed_and_reaches_the_secrets_of_another_resource_alone() {
    let api = with_config().await;
    api.make(DEFS, bucket("s3-bucket", &json!({}))).await;
    let (job, _) = begin(&api, order_without_job("deploy", "s3#photos")).await;
    assert_eq!(job.report(&api, "apply", json!([])).await.0, 200);
    let result = json!({
        "status": "success", "phase": "apply", "secret_outputs": { "password": "hunter-2-hunter", "port": 543_210 },
        "plain_outputs": { "password": { "sensitive": true }, "port": { "sensitive": true } },
    });
    assert_eq!(job.result(&api, result).await.0, 204);
    let (_, outputs) = api.get(&format!("/deployments/{}/outputs", job.id)).await;
    assert_eq!(outputs["password"], json!({ "sensitive": true }), "no caller sees it");

    let refers = |place: &str| {
        let output = |name: &str| format!("${{resources['s3#photos'].outputs.{name}}}");
        let (plain, secret) = match place {
            "values" => (json!({ "P": output("password") }), json!({})),
            _ => (
                json!({}),
                json!({ "P": { "value": output("password") }, "N": { "value": output("port") } }),
            ),
        };
        json!({
            "id": "app", "name": "app", "type": "app", "driver_type": "humanitec/container-runner", "criteria": [{}],
            "driver_inputs": {
                "values": { "job": { "image": "a:1", "command": ["/x"], "variables": plain } },
                "secret_refs": { "job": { "variables": secret } },
            },
        })
    };
    api.make(DEFS, refers("values")).await;
    let refused = api.post("/deployments", order_without_job("deploy", "app")).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    let said = message(&refused);
    let expected = "refers in `values.job.variables.P` to output `password` of `s3.default#photos`, which is secret";
    assert!(said.contains(expected) && !said.contains("hunter"), "{said}");
    let (path, body) = (format!("{DEFS}/app"), refers("secrets"));
    let changed = api.call_as(&api.ours.admin, Method::PUT, &path, Some(&body)).await;
    assert_eq!(changed.0, 200, "{}", changed.1);
    let (_, claimed) = begin(&api, order_without_job("deploy", "app")).await;
    let variables = claimed["variables"].as_array().unwrap();
    let value = |name: &str| {
        let name = format!("secret_variables[\"{name}\"]");
        variables.iter().find(|one| one["name"] == name.as_str()).map(|one| one["value"].clone())
    };
    assert_eq!((value("P"), value("N")), (Some(json!("hunter-2-hunter")), Some(json!("543210"))));
    for path in ["/deployments", "/audit-records", DEFS] {
        let (_, shown) = api.get(path).await;
        assert!(!shown.to_string().contains("hunter-2-hunter"), "{shown}");
    }
}

#[tokio::test]
async fn a_few_small_definitions_cannot_make_a_text_of_any_length() {
    let api = with_config().await;
    let any = json!([{}]);
    api.make(DEFS, echo("lol-0", "lol0", &json!({ "a": "x".repeat(1000) }), &any)).await;
    for number in 1..8 {
        let before = format!("${{resources.lol{}.outputs.a}}", number - 1).repeat(50);
        let (id, kind) = (format!("lol-{number}"), format!("lol{number}"));
        api.make(DEFS, echo(&id, &kind, &json!({ "a": before }), &any)).await;
    }
    let files = json!({ "driver_inputs": { "values": { "files": { "a": "${resources.lol7.outputs.a}" } } } });
    api.make(DEFS, bucket("s3-bucket", &files)).await;
    let found = explained(&api, "s3#photos").await;
    let problem = found["problem"].as_str().unwrap();
    assert!(problem.contains("what its references stand for has more than 1024 KiB"), "{problem}");
    let refused = api.post("/deployments", order_without_job("deploy", "s3#photos")).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
}

#[tokio::test]
async fn a_change_may_repeat_what_a_reader_sees_and_name_secrets_as_the_first_request_did() {
    let api = with_config().await;
    let secrets =
        json!({ "job": { "variables": { "TOKEN": "first-token", "KEY": "first-key-1" } } });
    let mut body = bucket("s3-bucket", &json!({}));
    body["driver_inputs"]["secrets"] = secrets;
    let made = api.make(DEFS, body).await;
    let path = format!("{DEFS}/s3-bucket");
    let again = json!({ "driver_inputs": made["driver_inputs"] });
    assert_eq!(api.patch(&path, again).await.0, 200, "nothing changes");
    let text = json!({ "driver_inputs": { "secrets": { "job": { "variables": { "KEY": "second-key" } } } } });
    let changed = api.patch(&path, text).await;
    assert_eq!(changed.0, 200, "{}", changed.1);
    let (_, claimed) = begin(&api, order_without_job("deploy", "s3")).await;
    let values: Vec<_> =
        claimed["variables"].as_array().unwrap().iter().map(|one| one["value"].clone()).collect();
    assert_eq!(values, ["second-key", "first-token"]);
}
