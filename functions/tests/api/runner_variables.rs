//! Variables of a runner: which runs get them, what overrides them, and who may read and change them.

use crate::harness::{Answer, Api, faults, local_runner, message};
use crate::job::{Job, deploy, furnished, launch, stored};
use canyon_domain::job::FORMAT;
use canyon_store::deployment_item::Wake;
use canyon_store::outcome::Saved;
use reqwest::Method;
use serde_json::{Value, json};

/// Of the runner of `shop/main`.
const OF_RUNNER: &str = "/runners/shared/variables";
const SECRET: &str = "correct horse";

async fn set(api: &Api, path: &str, body: Value) -> Value {
    let (status, changed) = api.patch(path, body).await;
    assert_eq!(status, 200, "{changed}");
    changed
}

async fn claim(api: &Api, id: &str, format: u32) -> Answer {
    let code = launch(api, id).await;
    let path = format!("/deployments/{id}/attempts/1/claim");
    let body = json!({ "claimant": "claimant-of-the-test", "job_format": format });
    api.call_as(&code, Method::POST, &path, Some(&body)).await
}

/// The variables of a deployment's job as `kind.name=value of scope`.
async fn variables_of(api: &Api, id: String) -> Vec<String> {
    let (status, claimed) = claim(api, &id, FORMAT).await;
    assert_eq!(status, 200, "{claimed}");
    let token = claimed["token"].as_str().unwrap().to_owned();
    Job { id, number: 1, token }.succeed(api).await;
    let text = |of: &Value, name: &str| of[name].as_str().unwrap().to_owned();
    let line = |of: &Value| {
        let [kind, name, value, from] = ["kind", "name", "value", "from"].map(|key| text(of, key));
        format!("{kind}.{name}={value} of {from}")
    };
    claimed["job"]["variables"].as_array().into_iter().flatten().map(line).collect()
}

#[tokio::test]
async fn a_job_gets_the_variables_of_its_runner_unless_another_scope_has_them() {
    let api = furnished().await;
    let value = |value: &str| json!({ "value": value });
    let secret = json!({ "value": SECRET, "secret": true });
    let body = json!({ "environment": { "TOKEN": secret, "A": value("runner"), "B": value("runner") },
        "terraform": { "region": value("runner") } });
    let changed = set(&api, OF_RUNNER, body).await;
    assert_eq!(changed["scope"], "runner:shared");
    set(&api, "/variables", json!({ "environment": { "A": value("org") } })).await;
    let main = "/projects/shop/envs/main/variables";
    set(&api, main, json!({ "environment": { "B": value("env") } })).await;
    let id = deploy(&api).await;
    assert_eq!(
        variables_of(&api, id).await,
        [
            "terraform.region=runner of runner:shared",
            "environment.A=org of organization",
            "environment.B=env of environment:shop/main",
            "environment.TOKEN=correct horse of runner:shared",
        ]
    );

    let (_, effective) = api.get(&format!("{main}/effective")).await;
    let token = json!({ "secret": true, "from": "runner:shared" });
    assert_eq!(effective["environment"]["TOKEN"], token);
    assert_eq!(effective["environment"]["A"]["overrides"], json!(["runner:shared"]));
    let (_, listed) = api.get("/variable-sets").await;
    let scopes: Vec<_> = listed["items"].as_array().unwrap().iter().map(|s| &s["scope"]).collect();
    assert!(scopes.contains(&&json!("runner:shared")), "{scopes:?}");
    let (_, uses) = api.get("/variables/environment/TOKEN/uses?scope=runner:shared").await;
    assert_eq!(uses["items"][0]["from"], "runner:shared");
    let (_, uses) = api.get("/variables/environment/A/uses?scope=runner:shared").await;
    assert_eq!(uses["items"][0]["overridden_by"], "organization");
    let (_, uses) = api.get("/variables/environment/TOKEN/uses?scope=runner:other").await;
    assert_eq!(uses["items"], json!([]));

    let audit = api.audit().await;
    assert!(audit.contains(&"variables.update runners/shared/variables".to_owned()), "{audit:?}");
    let records = api.get("/audit-records").await.1;
    for shown in [changed, effective, listed, api.get(OF_RUNNER).await.1, records] {
        assert!(!shown.to_string().contains(SECRET), "{shown}");
    }
}

#[tokio::test]
async fn a_run_on_a_fallback_gets_the_variables_of_that_runner() {
    let api = Api::start().await;
    api.make("/projects", json!({ "id": "shop" })).await;
    api.make("/env-types", json!({ "id": "dev" })).await;
    for runner in ["shared", "other", "third"] {
        api.make("/runners", local_runner(runner)).await;
        let body = json!({ "terraform": { "a": { "value": runner } } });
        set(&api, &format!("/runners/{runner}/variables"), body).await;
    }
    let rule = json!({ "runner_id": "shared", "fallback_runner_ids": ["other"] });
    api.make("/runner-rules", rule).await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    let (_, effective) = api.get("/projects/shop/envs/main/variables/effective").await;
    assert_eq!(effective["terraform"]["a"]["from"], "runner:shared", "as long as it can");
    let uses = async |query: &str| {
        let (_, page) = api.get(&format!("/variables/terraform/a/uses{query}")).await;
        let from = |of: &Value| of["from"].as_str().unwrap().to_owned();
        page["items"].as_array().unwrap().iter().map(from).collect::<Vec<_>>()
    };
    assert_eq!(uses("").await, ["runner:shared"]);
    assert_eq!(uses("?scope=runner:shared").await, ["runner:shared"]);
    assert_eq!(uses("?scope=runner:other").await, ["runner:other"], "when it takes a run");
    assert_eq!(uses("?scope=runner:third").await, [""; 0]);

    let id = deploy(&api).await;
    assert_eq!(variables_of(&api, id).await, ["terraform.a=shared of runner:shared"]);
    let id = deploy(&api).await;
    // As the launcher does before it starts the job.
    let mut deployment = stored(&api, &id).await;
    deployment.runner = "other".parse().unwrap();
    deployment.version += 1;
    let (table, org) = (&api.app.table, api.ours.uuid);
    let saved = table.save_deployment(org, &deployment, Wake::None).await.unwrap();
    assert_eq!(saved, Saved::Yes);
    assert_eq!(variables_of(&api, id).await, ["terraform.a=other of runner:other"]);
}

#[tokio::test]
async fn the_variables_of_a_runner_that_does_not_exist_are_neither_read_nor_written() {
    let api = furnished().await;
    let path = "/runners/none/variables";
    let body = json!({ "terraform": { "a": { "value": "x" } } });
    for answer in [api.get(path).await, api.patch(path, body.clone()).await] {
        assert!(answer.0 == 404 && message(&answer).contains("runner `none`"), "{answer:?}");
    }
    assert_eq!(api.get("/variable-sets").await.1["items"], json!([]));
    let faulty = json!({ "environment": { "CANYON_X": { "value": "x" }, "S": { "value": "short", "secret": true } } });
    let refused = api.patch(OF_RUNNER, faulty).await;
    assert_eq!(faults(&refused), ["environment[\"CANYON_X\"]", "environment[\"S\"].value"]);

    // They go with the runner, and another one of its name has none.
    api.make("/runners", local_runner("unused")).await;
    set(&api, "/runners/unused/variables", body).await;
    assert_eq!(api.delete("/runners/unused").await.0, 204);
    assert_eq!(api.get("/runners/unused/variables").await.0, 404);
    assert_eq!(api.get("/variable-sets").await.1["items"], json!([]));
    api.make("/runners", local_runner("unused")).await;
    assert_eq!(api.get("/runners/unused/variables").await.1["terraform"], json!({}));
}

#[tokio::test]
async fn only_readers_of_the_organization_see_them_and_only_its_administrators_change_them() {
    let api = furnished().await;
    let body = json!({ "environment": { "TOKEN": { "value": SECRET, "secret": true },
        "REGION": { "value": "eu-central-1" } } });
    set(&api, OF_RUNNER, body.clone()).await;
    let token = async |roles: Value| {
        let made = api.make("/tokens", roles).await;
        made["secret"].as_str().unwrap().to_owned()
    };
    let viewer = token(json!({ "role": "viewer" })).await;
    let (status, shown) = api.call_as(&viewer, Method::GET, OF_RUNNER, None).await;
    assert_eq!((status, &shown["environment"]["REGION"]["value"]), (200, &json!("eu-central-1")));
    assert_eq!(shown["environment"]["TOKEN"].get("value"), None);
    let scoped = json!([{ "role": "admin", "project_id": "shop" }]);
    let of_project = token(json!({ "role": "none", "scoped_roles": scoped })).await;
    let (status, _) = api.call_as(&of_project, Method::GET, OF_RUNNER, None).await;
    assert_eq!(status, 403, "the runner serves other projects too");
    let (_, listed) = api.call_as(&of_project, Method::GET, "/variable-sets", None).await;
    assert_eq!(listed["items"], json!([]));
    for role in [json!({ "role": "deployer" }), json!({ "role": "viewer" })] {
        let token = token(role).await;
        let (status, _) = api.call_as(&token, Method::PATCH, OF_RUNNER, Some(&body)).await;
        assert_eq!(status, 403);
    }
    let (status, _) = api.call_as(&of_project, Method::PATCH, OF_RUNNER, Some(&body)).await;
    assert_eq!(status, 403);
    let (status, _) = api.call_as(&api.theirs.admin, Method::GET, OF_RUNNER, None).await;
    assert_eq!(status, 404, "another organization");
}

#[tokio::test]
async fn a_store_that_a_runners_variable_refers_to_is_not_deleted() {
    let api = furnished().await;
    let configuration = json!({ "type": "aws-ssm", "region": "eu-central-1" });
    api.make("/secret-stores", json!({ "id": "team", "store_configuration": configuration })).await;
    let reference = json!({ "reference": { "store": "team", "ref": "/runner/token" } });
    set(&api, OF_RUNNER, json!({ "environment": { "TOKEN": reference } })).await;
    let refused = api.delete("/secret-stores/team").await;
    assert_eq!(refused.0, 409);
    let named = "`environment.TOKEN` of runner:shared refers to secret store `team`";
    assert!(message(&refused).contains(named), "{refused:?}");
    let (_, listed) = api.get("/variable-sets?store=team").await;
    assert_eq!(listed["items"][0]["scope"], "runner:shared");
    let id = deploy(&api).await;
    let (status, claimed) = claim(&api, &id, FORMAT).await;
    assert_eq!(status, 200, "{claimed}");
    assert_eq!(claimed["job"]["stored_variables"][0]["from"], "runner:shared");
}

#[tokio::test]
async fn a_program_that_knows_no_variables_of_runners_gets_no_job_that_has_some() {
    let api = furnished().await;
    set(&api, OF_RUNNER, json!({ "terraform": { "a": { "value": "x" } } })).await;
    let id = deploy(&api).await;
    let refused = claim(&api, &id, 8).await;
    let is_named = message(&refused).contains("format 9 of jobs, and it knows 8");
    assert!(refused.0 == 409 && is_named, "{refused:?}");
}
