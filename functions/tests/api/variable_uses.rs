//! Which environments get a variable, and which variables refer to a secret store.

use crate::harness::{Api, faults};
use crate::job::furnished;
use reqwest::Method;
use serde_json::{Value, json};

const USES: &str = "/variables/terraform/region/uses";

async fn set(api: &Api, path: &str, body: Value) {
    let (status, changed) = api.patch(path, body).await;
    assert_eq!(status, 200, "{changed}");
}

fn region(value: &str) -> Value {
    json!({ "terraform": { "region": { "value": value } } })
}

/// Each environment as `project/env from`, and what overrides the asked scope there.
async fn uses(api: &Api, token: Option<&str>, query: &str) -> Vec<String> {
    let path = format!("{USES}?{query}");
    let (status, page) = match token {
        Some(token) => api.call_as(token, Method::GET, &path, None).await,
        None => api.get(&path).await,
    };
    assert_eq!(status, 200, "{query}: {page}");
    let text = |of: &Value, name: &str| of[name].as_str().unwrap_or_default().to_owned();
    let line = |of: &Value| {
        let line =
            format!("{}/{} {}", text(of, "project_id"), text(of, "env_id"), text(of, "from"));
        match of["overridden_by"].as_str() {
            Some(nearer) => format!("{line}, overridden by {nearer}"),
            None => line,
        }
    };
    page["items"].as_array().unwrap().iter().map(line).collect()
}

/// Environments of three projects, of which two are in a group, and a variable in some scopes.
async fn world() -> Api {
    let api = furnished().await;
    for (project, envs) in [("pay/eu", ["blue", "green"]), ("pay/us", ["blue", "green"])] {
        api.make("/projects", json!({ "id": project })).await;
        for env in envs {
            let path = format!("/projects/{}/envs", project.replace('/', "%2F"));
            api.make(&path, json!({ "id": env, "env_type_id": "dev" })).await;
        }
    }
    set(&api, "/projects/pay/variables", region("group")).await;
    set(&api, "/projects/pay%2Feu/variables", region("project")).await;
    set(&api, "/projects/pay%2Feu/envs/green/variables", region("environment")).await;
    let other = json!({ "environment": { "region": { "value": "other kind" } } });
    set(&api, "/env-types/dev/variables", other).await;
    api
}

#[tokio::test]
async fn each_environment_is_listed_with_the_scope_whose_value_it_gets() {
    let api = world().await;
    let in_group = [
        "pay/eu/blue project:pay/eu",
        "pay/eu/green environment:pay/eu/green",
        "pay/us/blue project:pay",
        "pay/us/green project:pay",
    ];
    assert_eq!(uses(&api, None, "").await, in_group, "the environment of `shop` gets none");
    assert_eq!(
        uses(&api, None, "scope=project:pay").await,
        [
            "pay/eu/blue project:pay/eu, overridden by project:pay/eu",
            "pay/eu/green environment:pay/eu/green, overridden by environment:pay/eu/green",
            "pay/us/blue project:pay",
            "pay/us/green project:pay",
        ]
    );
    assert_eq!(
        uses(&api, None, "scope=environment:pay/eu/green").await,
        ["pay/eu/green environment:pay/eu/green"]
    );
    for scope in ["organization", "env-type:dev", "project:shop", "environment:pay/eu/blue"] {
        assert_eq!(uses(&api, None, &format!("scope={scope}")).await, [""; 0], "{scope}");
    }
    set(&api, "/variables", region("organization")).await;
    let overridden = uses(&api, None, "scope=organization").await;
    assert_eq!(overridden.len(), 5);
    assert_eq!(overridden[4], "shop/main organization");
    let (_, page) = api.get(&format!("{USES}?per_page=1")).await;
    let first = json!({ "project_id": "pay/eu", "env_id": "blue", "env_type_id": "dev",
        "from": "project:pay/eu", "overrides": ["organization", "project:pay"] });
    assert_eq!(page["items"], json!([first]));
    let other = "/variables/environment/region/uses";
    assert_eq!(api.get(other).await.1["items"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn only_environments_that_the_caller_may_read_are_listed() {
    let api = world().await;
    let body = json!({ "description": "eu", "role": "none",
        "scoped_roles": [{ "role": "viewer", "project_id": "pay/eu" }] });
    let made = api.make("/tokens", body).await;
    let token = made["secret"].as_str().unwrap();
    let expected = ["pay/eu/blue project:pay/eu", "pay/eu/green environment:pay/eu/green"];
    assert_eq!(uses(&api, Some(token), "").await, expected);
    assert_eq!(uses(&api, Some(token), "scope=project:pay%2Fus").await, [""; 0]);
}

#[tokio::test]
async fn a_search_among_many_environments_reads_each_set_once_and_is_bounded() {
    let api = furnished().await;
    for n in 0..130 {
        let body = json!({ "id": format!("env-{n:03}"), "env_type_id": "dev" });
        api.make("/projects/shop/envs", body).await;
    }
    set(&api, "/projects/shop/envs/env-117/variables", region("rare")).await;
    assert_eq!(
        uses(&api, None, "per_page=20").await,
        [""; 0],
        "five pages of environments are read, and the next request continues"
    );
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let (_, page) = api.get(&format!("{USES}?per_page=20{next}")).await;
        found.extend(page["items"].as_array().unwrap().clone());
        match page["next_page_token"].as_str() {
            Some(token) => next = format!("&page={token}"),
            None => break,
        }
    }
    assert_eq!((found.len(), found[0]["env_id"].as_str()), (1, Some("env-117")));
}

#[tokio::test]
async fn a_malformed_variable_or_scope_is_refused() {
    let api = furnished().await;
    let refused = api.get("/variables/terraform/1x/uses?scope=shop&of=y").await;
    assert_eq!(refused.0, 400);
    assert_eq!(faults(&refused), ["of", "name", "scope"]);
    assert_eq!(api.get("/variables/shell/x/uses").await.0, 404);
    assert_eq!(api.get("/variable-sets?store=A").await.0, 400);
}

#[tokio::test]
async fn the_variables_of_a_secret_store_are_listed_with_their_scopes() {
    let api = world().await;
    for id in ["team", "other"] {
        let configuration = json!({ "type": "aws-ssm", "region": "eu-central-1" });
        api.make("/secret-stores", json!({ "id": id, "store_configuration": configuration })).await;
    }
    let refer = |store: &str| json!({ "reference": { "store": store, "ref": "/shop/db" } });
    let body = json!({
        "terraform": { "db": refer("team"), "x": refer("other") },
        "environment": { "DB": refer("team") },
    });
    set(&api, "/projects/shop/variables", body).await;
    set(&api, "/variables", json!({ "terraform": { "x": refer("other") } })).await;
    let (_, page) = api.get("/variable-sets?store=team").await;
    let sets = page["items"].as_array().unwrap();
    assert_eq!((sets.len(), sets[0]["scope"].as_str()), (1, Some("project:shop")), "{page}");
    assert_eq!(sets[0]["terraform"]["db"]["reference"], refer("team")["reference"]);
    let names = |kind: &str| sets[0][kind].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!((names("terraform"), names("environment")), (vec!["db".into()], vec!["DB".into()]));
    let (_, page) = api.get("/variable-sets?store=other").await;
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert_eq!(api.get("/variable-sets?store=absent").await.1["items"], json!([]));
}
