//! Variables of scopes: what a job gets, what a caller sees, and what becomes of them.

use crate::harness::{Answer, Api, faults, message};
use crate::job::{Job, deploy, furnished, launch};
use canyon_functions::App;
use canyon_functions::http::HttpSettings;
use canyon_store::meter::Meter;
use reqwest::Method;
use serde_json::{Value, json};

const MAIN: &str = "/projects/shop/envs/main/variables";
const SECRET: &str = "correct horse";

/// Claims the only attempt of a deployment, as a runner that understands jobs of `format`.
async fn claim_as(api: &Api, id: &str, code: &str, format: u32) -> Answer {
    let path = format!("/deployments/{id}/attempts/1/claim");
    let body = json!({ "claimant": "claimant-of-the-test", "job_format": format });
    api.call_as(code, Method::POST, &path, Some(&body)).await
}

/// The variables of a new deployment's job: kind, name, value, scope.
async fn job_variables(api: &Api) -> Value {
    let id = deploy(api).await;
    let code = launch(api, &id).await;
    let (status, claimed) = claim_as(api, &id, &code, 5).await;
    assert_eq!(status, 200, "{claimed}");
    let token = claimed["token"].as_str().unwrap().to_owned();
    Job { id, number: 1, token }.succeed(api).await;
    claimed["job"]["variables"].clone()
}

async fn set(api: &Api, path: &str, body: Value) -> Value {
    let (status, changed) = api.patch(path, body).await;
    assert_eq!(status, 200, "{changed}");
    changed
}

#[tokio::test]
async fn a_job_gets_the_nearest_value_of_each_variable_and_no_answer_shows_a_secret() {
    let api = furnished().await;
    let value = |value: &str| json!({ "value": value });
    let all = json!({ "terraform": { "a": value("org"), "b": value("org"), "c": value("org"),
        "d": value("org"), "n": { "value": 12_345_678_901_234_567_890_u64 } } });
    set(&api, "/variables", all).await;
    let most = json!({ "terraform": { "a": value("project"), "b": value("project"), "c": value("project") } });
    set(&api, "/projects/shop/variables", most).await;
    let some = json!({ "terraform": { "a": value("type"), "b": value("type") } });
    set(&api, "/env-types/dev/variables", some).await;
    let body = json!({
        "terraform": { "a": { "value": SECRET, "secret": true, "description": "of the database" } },
        "environment": { "TF_LOG": value("debug") },
    });
    let changed = set(&api, MAIN, body).await;
    assert_eq!(changed["scope"], "environment:shop/main");
    let secret = &changed["terraform"]["a"];
    assert_eq!((&secret["secret"], secret.get("value")), (&json!(true), None), "{changed}");
    assert_eq!(secret["description"], "of the database");

    let variable = |kind: &str, name: &str, value: Value, from: &str| json!({ "kind": kind, "name": name, "value": value, "from": from });
    let mut hidden = variable("terraform", "a", json!(SECRET), "environment:shop/main");
    hidden["secret"] = json!(true);
    let expected = json!([
        hidden,
        variable("terraform", "b", json!("type"), "env-type:dev"),
        variable("terraform", "c", json!("project"), "project:shop"),
        variable("terraform", "d", json!("org"), "organization"),
        variable("terraform", "n", json!(12_345_678_901_234_567_890_u64), "organization"),
        variable("environment", "TF_LOG", json!("debug"), "environment:shop/main"),
    ]);
    assert_eq!(job_variables(&api).await, expected);

    let (_, effective) = api.get(&format!("{MAIN}/effective")).await;
    let a = json!({ "secret": true, "from": "environment:shop/main",
        "overrides": ["organization", "project:shop", "env-type:dev"] });
    assert_eq!(effective["terraform"]["a"], a);
    assert_eq!(
        effective["terraform"]["d"],
        json!({ "value": "org", "secret": false, "from": "organization" })
    );
    let (_, listed) = api.get("/variable-sets").await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 4);
    let audit = api.audit().await.join("\n");
    assert!(audit.contains("variables.update"), "{audit}");
    let records = api.get("/audit-records").await.1.to_string();
    assert!(records.contains("set terraform.a (secret)"), "{records}");
    for shown in [effective, listed, api.get(MAIN).await.1, records.into()] {
        assert!(!shown.to_string().contains(SECRET), "{shown}");
    }
}

#[tokio::test]
async fn a_secret_stays_one_until_it_gets_a_plain_value() {
    let api = furnished().await;
    let change =
        async |change: Value| api.patch(MAIN, json!({ "terraform": { "key": change } })).await;
    let (_, first) = change(json!({ "value": "first-secret", "secret": true })).await;
    assert_eq!(first["terraform"]["key"]["secret"], true);
    let (_, second) = change(json!({ "value": "second-secret" })).await;
    assert_eq!(second["terraform"]["key"]["secret"], true, "no flag is needed to rotate it");
    assert_eq!(job_variables(&api).await[0]["value"], "second-secret");
    let (_, described) = change(json!({ "description": "rotated" })).await;
    assert_eq!(described["terraform"]["key"]["description"], "rotated");
    assert_eq!(job_variables(&api).await[0]["value"], "second-secret", "the value is kept");
    let refused = change(json!({ "secret": false })).await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["terraform[\"key\"].secret"]));
    let refused = change(json!({ "value": "short" })).await;
    assert_eq!(faults(&refused), ["terraform[\"key\"].value"], "it would not be masked");
    let (_, plain) = change(json!({ "value": "open", "secret": false })).await;
    assert_eq!(plain["terraform"]["key"]["value"], "open");
    let refused = change(json!({ "secret": true })).await;
    assert_eq!(faults(&refused), ["terraform[\"key\"].value"]);
    let (_, none) = change(Value::Null).await;
    assert_eq!(none["terraform"], json!({}));
    assert_eq!(api.patch(MAIN, json!({ "terraform": { "key": null } })).await.0, 200, "twice");
    assert_eq!(job_variables(&api).await, Value::Null);
}

#[tokio::test]
async fn one_answer_names_every_fault_and_nothing_is_written() {
    let api = furnished().await;
    let body = json!({
        "terraform": { "good": { "value": "x" }, "1": { "value": "x" }, "new": { "secret": true } },
        "environment": { "TF_VAR_a": { "value": "x" }, "N": { "value": 7 }, "S": { "value": "12345", "secret": true } },
    });
    let refused = api.patch(MAIN, body).await;
    assert_eq!(refused.0, 400);
    let expected = [
        "terraform[\"1\"]",
        "environment[\"N\"].value",
        "environment[\"S\"].value",
        "environment[\"TF_VAR_a\"]",
    ];
    assert_eq!(faults(&refused), expected);
    // Faults of the form and of the values are named together.
    let body = json!({
        "terraform": { "a": { "value": "x", "secret": "hunter2", "valeu": 1 }, "b": "hunter2", "1": { "value": "x" } },
        "environment": { "N": { "value": 7, "description": 7 } },
        "other": {},
    });
    let refused = api.patch(MAIN, body).await;
    let expected = [
        "environment[\"N\"].description",
        "other",
        "terraform[\"a\"].secret",
        "terraform[\"a\"].valeu",
        "terraform[\"b\"]",
        "terraform[\"1\"]",
        "environment[\"N\"].value",
    ];
    assert_eq!((refused.0, faults(&refused)), (400, expected.to_vec()));
    assert!(!refused.1.to_string().contains("hunter2"), "{refused:?}");
    let refused = api.patch(MAIN, json!({ "terraform": { "new": {} } })).await;
    assert_eq!(faults(&refused), ["terraform[\"new\"].value"]);
    for body in
        [json!({}), json!({ "terraform": {} }), json!({ "terraform": { "a": { "valeu": 1 } } })]
    {
        assert_eq!(api.patch(MAIN, body).await.0, 400);
    }
    let many = (0..201)
        .map(|n| (format!("v{n}"), json!({ "value": n })))
        .collect::<serde_json::Map<_, _>>();
    let refused = api.patch(MAIN, json!({ "terraform": many })).await;
    assert!(refused.0 == 409 && message(&refused).contains("201 variables"), "{refused:?}");
    let (_, set) = api.get(MAIN).await;
    assert_eq!(
        set,
        json!({ "scope": "environment:shop/main", "terraform": {}, "environment": {} })
    );
    for path in [
        "/projects/none/variables",
        "/env-types/none/variables",
        "/projects/shop/envs/none/variables",
    ] {
        for answer in [
            api.get(path).await,
            api.patch(path, json!({ "terraform": { "a": { "value": 1 } } })).await,
        ] {
            assert_eq!(answer.0, 404, "{path} {answer:?}");
        }
    }
}

#[tokio::test]
async fn variables_go_with_their_object_and_come_back_with_no_other_of_its_name() {
    let api = furnished().await;
    let body = json!({ "terraform": { "a": { "value": "of the former" } } });
    api.make("/projects", json!({ "id": "shop/web" })).await;
    api.make("/env-types", json!({ "id": "other" })).await;
    for path in [
        MAIN,
        "/projects/shop/variables",
        "/projects/shop%2Fweb/variables",
        "/env-types/other/variables",
    ] {
        set(&api, path, body.clone()).await;
    }
    assert_eq!(api.delete("/projects/shop/envs/main?force=true").await.0, 204);
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    assert_eq!(api.get(MAIN).await.1["terraform"], json!({}));
    assert_eq!(api.delete("/env-types/other").await.0, 204);
    api.make("/env-types", json!({ "id": "other" })).await;
    assert_eq!(api.get("/env-types/other/variables").await.1["terraform"], json!({}));

    // As a group, the project's variables are those of the projects in it, too.
    assert_eq!(api.delete("/projects/shop/envs/main?force=true").await.0, 204);
    assert_eq!(api.delete("/projects/shop?deleteRules=true").await.0, 204);
    assert_eq!(
        api.get("/projects/shop/variables").await.1["terraform"]["a"]["value"],
        "of the former"
    );
    assert_eq!(api.delete("/projects/shop%2Fweb").await.0, 204);
    assert_eq!(
        api.get("/projects/shop/variables").await.0,
        404,
        "the group is gone with its last project"
    );
    api.make("/projects", json!({ "id": "shop/web" })).await;
    for path in ["/projects/shop%2Fweb/variables", "/projects/shop/variables"] {
        assert_eq!(api.get(path).await.1["terraform"], json!({}), "{path}");
    }
}

#[tokio::test]
async fn of_changes_at_the_same_time_none_is_lost() {
    let api = std::sync::Arc::new(furnished().await);
    let mut changes = tokio::task::JoinSet::new();
    for n in 0..8 {
        let api = std::sync::Arc::clone(&api);
        let body = json!({ "terraform": { (format!("v{n}")): { "value": n } } });
        changes.spawn(async move {
            loop {
                match api.patch(MAIN, body.clone()).await {
                    (200, _) => return,
                    // Eight at once may need more tries than one request has.
                    (409 | 503, _) => {}
                    answer => panic!("{answer:?}"),
                }
            }
        });
    }
    while let Some(done) = changes.join_next().await {
        done.unwrap();
    }
    assert_eq!(api.get(MAIN).await.1["terraform"].as_object().unwrap().len(), 8);
}

#[tokio::test]
async fn a_runner_that_knows_no_variables_gets_no_job_that_has_some() {
    let api = furnished().await;
    set(&api, "/variables", json!({ "terraform": { "a": { "value": "x" } } })).await;
    let id = deploy(&api).await;
    let code = launch(&api, &id).await;
    let refused = claim_as(&api, &id, &code, 4).await;
    let is_named = message(&refused).contains("format 5 of jobs, and it knows 4");
    assert!(refused.0 == 409 && is_named, "{refused:?}");
}

#[tokio::test]
async fn a_reader_of_one_environment_sees_its_set_and_no_other() {
    let api = furnished().await;
    for path in ["/variables", "/projects/shop/variables", MAIN] {
        set(&api, path, json!({ "terraform": { "a": { "value": path } } })).await;
    }
    let scoped = json!([{ "role": "viewer", "env_type_id": "dev" }]);
    let token = api.make("/tokens", json!({ "role": "none", "scoped_roles": scoped })).await;
    let token = token["secret"].as_str().unwrap();
    let (_, listed) = api.call_as(token, Method::GET, "/variable-sets", None).await;
    let found: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|set| &set["scope"]).collect();
    assert_eq!(found, ["environment:shop/main"]);
    let (_, effective) = api.call_as(token, Method::GET, &format!("{MAIN}/effective"), None).await;
    assert_eq!(effective["terraform"]["a"]["value"], MAIN);
    assert_eq!(api.call_as(&api.theirs.admin, Method::GET, "/variables", None).await.0, 404);
}

#[tokio::test]
async fn a_claim_costs_no_request_more_with_fifty_variables_in_five_scopes() {
    let mut api = furnished().await;
    let meter = Meter::default();
    let table = meter.watch(&api.app.table);
    api.serve_again(|app| App { table, ..app }, &HttpSettings::default()).await;
    let claim = async || {
        let id = deploy(&api).await;
        let code = launch(&api, &id).await;
        meter.take();
        let (status, claimed) = claim_as(&api, &id, &code, 9).await;
        assert_eq!(status, 200, "{claimed}");
        let usage: Vec<_> = meter.take().0.into_values().collect();
        let token = claimed["token"].as_str().unwrap().to_owned();
        Job { id, number: 1, token }.succeed(&api).await;
        let variables = claimed["job"]["variables"].as_array().map_or(0, Vec::len);
        let requests: u64 = usage.iter().map(|of| of.requests).sum();
        let units: f64 = usage.iter().map(|of| of.units).sum();
        (variables, requests, units)
    };
    let without = claim().await;
    for (scope, path) in [
        "/runners/shared/variables",
        "/variables",
        "/projects/shop/variables",
        "/env-types/dev/variables",
        MAIN,
    ]
    .iter()
    .enumerate()
    {
        let names = (0..10).map(|number| format!("v{scope}_{number}"));
        let values: serde_json::Map<_, _> = names
            .map(|name| (name, json!({ "value": "x".repeat(20), "secret": scope == 3 })))
            .collect();
        set(&api, path, json!({ "terraform": values })).await;
    }
    let with = claim().await;
    println!("variables, requests, units of a claim: {without:?}, then {with:?}");
    assert_eq!((without.0, with.0), (0, 50));
    assert_eq!(with.1, without.1, "one request reads every scope");
}
