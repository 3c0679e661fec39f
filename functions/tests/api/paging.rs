//! Lists have pages, and a cursor is valid only for its own list.

use crate::agent_world::Key;
use crate::harness::{Api, local_runner};
use crate::job::order;
use crate::new_agents::ask;
use serde_json::{Value, json};
use std::collections::BTreeSet;

async fn walk(api: &Api, path: &str) -> Vec<Vec<Value>> {
    let mut pages = Vec::new();
    let mut next = String::new();
    loop {
        let (status, page) = api.get(&format!("{path}{next}")).await;
        assert_eq!(status, 200, "{page}");
        pages.push(page["items"].as_array().unwrap().clone());
        match page["next_page_token"].as_str() {
            Some(token) => next = format!("&page={token}"),
            None => return pages,
        }
    }
}

#[tokio::test]
async fn a_hundred_and_twenty_runners_come_in_three_pages() {
    let api = Api::start().await;
    for n in 0..120 {
        api.make("/runners", local_runner(&format!("runner-{n:03}"))).await;
    }
    let pages = walk(&api, "/runners?per_page=50").await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [50, 50, 20]);
    let ids: Vec<_> = pages.concat().iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect();
    let expected: Vec<_> = (0..120).map(|n| format!("runner-{n:03}")).collect();
    assert_eq!(ids, expected);

    let records = walk(&api, "/audit-records?per_page=50").await.concat();
    let at = |record: &Value| record["at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(records.is_sorted_by(|a, b| at(a) >= at(b)), "newest first");
    let made = records.iter().filter(|record| record["action"] == "runner.create").count();
    assert_eq!(made, 120);
}

#[tokio::test]
async fn a_cursor_of_another_list_is_refused() {
    let api = Api::start().await;
    for id in ["one", "two", "three"] {
        api.make("/runners", local_runner(id)).await;
        api.make("/projects", json!({ "id": id })).await;
    }
    let token = |page: Value| page["next_page_token"].as_str().unwrap().to_owned();
    let runners = token(api.get("/runners?per_page=1").await.1);
    let filtered = token(api.get("/runners?per_page=1&byRunnerType=local").await.1);
    for (path, cursor, status) in [
        ("/runners?", &runners, 200),
        ("/projects?", &runners, 400),
        ("/envs?", &runners, 400),
        ("/resources/accounts?", &runners, 400),
        ("/runner-rules?", &runners, 400),
        ("/audit-records?", &runners, 400),
        ("/runners?byRunnerType=local", &runners, 400),
        ("/runners?byRunnerType=local", &filtered, 200),
        ("/runners?", &filtered, 400),
    ] {
        let answer = api.get(&format!("{path}&page={cursor}")).await;
        assert_eq!(answer.0, status, "{path}: {answer:?}");
    }
}

/// The lists with filters, and filter values that several objects have.
const FILTERED: [(&str, &[&str]); 11] = [
    ("/agents", &["state=pending"]),
    (
        "/audit-records",
        &[
            "action=runner",
            "by=AUTHOR",
            "subject=projects",
            "since=2020-01-01T00:00:00Z",
            "until=2040-01-01T00:00:00Z",
        ],
    ),
    ("/runners", &["byRunnerType=local"]),
    ("/runner-rules", &["byRunnerId=laptop", "byEnvTypeId=dev", "byProjectId=shop"]),
    ("/envs", &["byEnvTypeId=dev"]),
    ("/projects/shop/envs", &["byEnvTypeId=dev"]),
    ("/drift", &["project_id=shop", "status=unknown"]),
    ("/last-deployments", &["project_id=shop", "env_id=main", "state_change_only=true"]),
    ("/variable-sets", &["store=team"]),
    ("/variables/{kind}/{name}/uses", &["scope=organization"]),
    (
        "/deployments",
        &[
            "project_id=shop",
            "project_id=shop&env_id=main",
            "status=queued",
            "ended=false",
            "mode=deploy",
            "project_id=shop&env_id=main&resource=s3",
            "since=2020-01-01T00:00:00Z",
        ],
    ),
];

/// The lists in the OpenAPI document, with their filters.
fn documented_lists() -> Vec<(String, Vec<String>)> {
    let document = serde_json::to_value(canyon_functions::http::document()).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let parameters = item["get"]["parameters"].as_array().cloned().unwrap_or_default();
        let query = parameters.iter().filter(|parameter| parameter["in"] == "query");
        let names: Vec<_> = query.map(|parameter| parameter["name"].as_str().unwrap()).collect();
        if names.contains(&"per_page") {
            let path = path.strip_prefix("/orgs/{orgId}").unwrap().replace("{projectId}", "shop");
            let path = path.replace("{envId}", "main");
            let filters = names.into_iter().filter(|name| !["page", "per_page"].contains(name));
            found.push((path, filters.map(str::to_owned).collect()));
        }
    }
    found
}

/// The filters of each list in the OpenAPI document.
fn documented_filters() -> BTreeSet<String> {
    let lists = documented_lists().into_iter();
    lists.flat_map(|(path, names)| names.into_iter().map(move |n| format!("{path}?{n}"))).collect()
}

#[tokio::test]
async fn every_list_refuses_parameters_that_it_does_not_have() {
    let api = Api::start().await;
    api.furnish().await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    let lists = documented_lists();
    assert!(lists.len() > 15, "{lists:?}");
    for (path, filters) in lists {
        let path = path.replace("{kind}", "terraform").replace("{name}", "region");
        let (status, answer) = api.get(&format!("{path}?per_page=1&colour=red&Per_page=2")).await;
        assert_eq!(status, 400, "{path}: {answer}");
        let fields = answer["details"]["fields"].as_array().unwrap();
        let named: Vec<_> = fields.iter().map(|field| field["path"].as_str().unwrap()).collect();
        assert_eq!(named, ["colour", "Per_page"], "{path}: {answer}");
        let reason = fields[0]["reason"].as_str().unwrap();
        for known in filters.iter().map(String::as_str).chain(["per_page", "page"]) {
            assert!(reason.contains(&format!("`{known}`")), "{path}: {reason}");
        }
        let (status, answer) = api.get(&format!("{path}?per_page=1")).await;
        assert_eq!(status, 200, "{path}: {answer}");
    }
}

#[tokio::test]
async fn a_cursor_of_a_filtered_list_is_refused_under_every_other_filter() {
    let named = FILTERED.iter().flat_map(|(path, filters)| {
        let parts = filters.iter().flat_map(|filter| filter.split('&'));
        parts.map(move |part| format!("{path}?{}", part.split_once('=').unwrap().0))
    });
    assert_eq!(named.collect::<BTreeSet<_>>(), documented_filters());

    let api = Api::start().await;
    for id in ["laptop", "other"] {
        api.make("/runners", local_runner(id)).await;
    }
    for id in ["dev", "prod"] {
        api.make("/env-types", json!({ "id": id })).await;
    }
    api.make("/projects", json!({ "id": "shop" })).await;
    api.make("/projects", json!({ "id": "other" })).await;
    for rule in [json!({}), json!({ "env_type_id": "dev" }), json!({ "project_id": "shop" })] {
        let mut rule = rule;
        rule["runner_id"] = json!("laptop");
        api.make("/runner-rules", rule).await;
    }
    for (project, kind) in [("shop", "dev"), ("other", "dev")] {
        let rule = json!({ "runner_id": "laptop", "env_type_id": kind, "project_id": project });
        api.make("/runner-rules", rule).await;
    }
    for id in ["main", "next"] {
        api.make("/projects/shop/envs", json!({ "id": id, "env_type_id": "dev" })).await;
    }
    api.make("/projects/other/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    for agent in ["berlin", "boston"] {
        assert_eq!(ask(&api, agent, &Key::new(), "198.51.100.66").await, 202);
    }
    for (id, kind, of, driver) in [
        ("config", "config", json!({ "res_id": "opentofu-container-runner" }), "echo"),
        ("bucket", "s3", json!({}), "opentofu-container-runner"),
    ] {
        let files = if kind == "s3" { json!({ "files": { "main.tf": "" } }) } else { json!({}) };
        let definition = json!({
            "id": id, "name": id, "type": kind, "driver_type": format!("humanitec/{driver}"),
            "driver_inputs": { "values": files }, "criteria": [of],
        });
        api.make("/resources/defs", definition).await;
    }
    for _ in 0..2 {
        api.make("/deployments", order()).await;
        let of_resource =
            json!({ "project_id": "shop", "env_id": "main", "mode": "deploy", "resource": "s3" });
        api.make("/deployments", of_resource).await;
    }
    let configuration = json!({ "type": "aws-ssm", "region": "eu-central-1" });
    api.make("/secret-stores", json!({ "id": "team", "store_configuration": configuration })).await;
    let reference = json!({ "reference": { "store": "team", "ref": "/x" } });
    for path in ["/variables", "/projects/shop/variables"] {
        let body = json!({ "terraform": { "region": reference } });
        assert_eq!(api.patch(path, body).await.0, 200);
    }
    let newest = &api.get("/audit-records?per_page=1").await.1["items"][0];
    let author = newest["by"].as_str().unwrap();
    for (path, filters) in FILTERED {
        let path = path.replace("{kind}", "terraform").replace("{name}", "region");
        let filters = filters.iter().map(|filter| filter.replace("AUTHOR", author));
        let every: Vec<_> = std::iter::once(String::new()).chain(filters).collect();
        for from in &every {
            let (_, page) = api.get(&format!("{path}?per_page=1&{from}")).await;
            let cursor = page["next_page_token"].as_str();
            let cursor = cursor.unwrap_or_else(|| panic!("{path}?{from} has one page: {page}"));
            for to in &every {
                let answer = api.get(&format!("{path}?page={cursor}&{to}")).await;
                let expected = if from == to { 200 } else { 400 };
                assert_eq!(answer.0, expected, "{path}: from `{from}` to `{to}`: {answer:?}");
            }
        }
    }
}
