//! Organizations, environment types, projects and runner rules.

use crate::harness::{Api, faults, local_runner, message, settled};
use canyon_functions::App;
use canyon_functions::http::HttpSettings;
use canyon_store::meter::Meter;
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn an_environment_type_is_made_read_renamed_listed_and_deleted() {
    let api = Api::start().await;
    let made = api.make("/env-types", json!({ "id": "dev", "display_name": "Development" })).await;
    insta::assert_snapshot!(settled(&made), @r#"
    {
      "created_at": "[time]",
      "display_name": "Development",
      "id": "dev",
      "uuid": "[uuid]"
    }
    "#);
    assert_eq!(api.get("/env-types/dev").await, (200, made));
    let (status, renamed) = api.patch("/env-types/dev", json!({ "display_name": "Dev!" })).await;
    assert_eq!((status, &renamed["display_name"]), (200, &json!("Dev!")));
    assert_eq!(api.get("/env-types").await, (200, json!({ "items": [renamed] })));
    assert_eq!(api.delete("/env-types/dev").await, (204, json!(null)));
    for (method, body) in [
        (Method::GET, None),
        (Method::DELETE, None),
        (Method::PATCH, Some(json!({ "display_name": "gone" }))),
    ] {
        let answer = api.call_as(&api.ours.admin, method, "/env-types/dev", body.as_ref()).await;
        assert_eq!((answer.0, message(&answer)), (404, "there is no environment type `dev`"));
    }
}

#[tokio::test]
async fn a_project_may_be_a_path_of_groups() {
    let api = Api::start().await;
    let made = api.make("/projects", json!({ "id": "payments/eu/api" })).await;
    for id in ["payments/variables", "payments/eu/git-credentials"] {
        let refused = api.post("/projects", json!({ "id": id })).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec!["id"]), "it is a path of the API");
    }
    api.make("/projects", json!({ "id": "variables" })).await;
    assert_eq!(api.delete("/projects/variables").await.0, 204, "without groups it is none");
    insta::assert_snapshot!(settled(&made), @r#"
    {
      "created_at": "[time]",
      "display_name": "payments/eu/api",
      "id": "payments/eu/api",
      "status": "active",
      "updated_at": "[time]",
      "uuid": "[uuid]"
    }
    "#);
    assert_eq!(api.get("/projects/payments%2Feu%2Fapi").await, (200, made.clone()));
    let path = "/projects/payments%2Feu%2Fapi";
    let (status, renamed) = api.patch(path, json!({ "display_name": "The API" })).await;
    assert_eq!((status, &renamed["display_name"]), (200, &json!("The API")));
    assert_ne!(renamed["updated_at"], made["updated_at"]);
    let again = api.post("/projects", json!({ "id": "payments/eu/api" })).await;
    assert_eq!((again.0, message(&again)), (409, "project `payments/eu/api` exists already"));
    assert_eq!(api.delete(path).await.0, 204);
    assert_eq!(api.get("/projects").await, (200, json!({ "items": [] })));
}

#[tokio::test]
async fn a_project_is_deleted_with_its_rules_only_if_the_request_says_so() {
    let api = Api::start().await;
    api.furnish().await;
    let rule =
        api.make("/runner-rules", json!({ "runner_id": "shared", "project_id": "shop" })).await;
    let rule = rule["id"].as_str().unwrap();
    let before = api.audit().await;
    let refused = api.delete("/projects/shop").await;
    assert_eq!(refused.0, 409);
    assert_eq!(
        message(&refused),
        format!(
            "project `shop` is used by runner rule `{rule}` (project `shop`); delete those first, or set `deleteRules=true`"
        )
    );
    assert_eq!(refused.1["details"]["runner_rules"], json!([rule]));

    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    let refused = api.delete("/projects/shop?deleteRules=true").await;
    assert_eq!(refused.0, 409);
    assert!(message(&refused).contains("environment `main` of project `shop`"), "{refused:?}");
    assert_eq!(api.get(&format!("/runner-rules/{rule}")).await.0, 200, "nothing was deleted");

    assert_eq!(api.delete("/projects/shop/envs/main").await.0, 204);
    assert_eq!(api.delete("/projects/shop?deleteRules=true").await.0, 204);
    assert_eq!(api.get(&format!("/runner-rules/{rule}")).await.0, 404);
    let written = api.audit().await;
    assert_eq!(
        written[..written.len() - before.len()],
        [
            "project.delete projects/shop".to_owned(),
            format!("runner_rule.delete runner-rules/{rule}"),
            "environment.delete projects/shop/envs/main".to_owned(),
            "environment.create projects/shop/envs/main".to_owned(),
        ]
    );
}

#[tokio::test]
async fn an_environment_type_in_use_is_kept_and_its_users_are_named() {
    let api = Api::start().await;
    api.furnish().await;
    let rule =
        api.make("/runner-rules", json!({ "runner_id": "shared", "env_type_id": "dev" })).await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    let refused = api.delete("/env-types/dev").await;
    assert_eq!(refused.0, 409);
    let rule = rule["id"].as_str().unwrap();
    assert_eq!(
        message(&refused),
        format!(
            "environment type `dev` is used by environment `main` of project `shop`; runner rule `{rule}` (environment type `dev`); delete those first: canyon delete environment PROJECT ENV, canyon delete runner-rule ID"
        )
    );
    assert_eq!(
        refused.1["details"]["environments"],
        json!([{ "project_id": "shop", "id": "main" }])
    );
    assert_eq!(api.get("/env-types/dev").await.0, 200);
}

#[tokio::test]
async fn a_rule_is_made_read_filtered_and_deleted() {
    let api = Api::start().await;
    api.furnish().await;
    api.make("/projects", json!({ "id": "payments/eu" })).await;
    api.make("/runners", local_runner("second")).await;
    let body = json!({ "runner_id": "second", "project_id": "payments", "env_type_id": "dev" });
    let made = api.make("/runner-rules", body).await;
    insta::assert_snapshot!(settled(&made), @r#"
    {
      "created_at": "[time]",
      "env_type_id": "dev",
      "id": "[uuid]",
      "org_id": "our-org",
      "project_id": "payments",
      "runner_id": "second"
    }
    "#);
    let path = format!("/runner-rules/{}", made["id"].as_str().unwrap());
    assert_eq!(api.get(&path).await, (200, made.clone()));
    for (filter, count) in [
        ("", 2),
        ("?byRunnerId=second", 1),
        ("?byProjectId=payments&byEnvTypeId=dev", 1),
        ("?byProjectId=shop", 0),
        ("?byEnvTypeId=No%20Id", 0),
    ] {
        let (status, page) = api.get(&format!("/runner-rules{filter}")).await;
        assert_eq!((status, page["items"].as_array().unwrap().len()), (200, count), "{filter}");
    }
    assert_eq!(api.delete(&path).await.0, 204);
    assert_eq!(api.delete(&path).await.0, 404);
}

#[tokio::test]
async fn a_rule_has_fallbacks_that_keep_states_where_its_runner_does() {
    let api = Api::start().await;
    api.furnish().await;
    for id in ["second", "third"] {
        api.make("/runners", local_runner(id)).await;
    }
    let mut elsewhere = local_runner("elsewhere");
    elsewhere["state_storage_configuration"] = json!({ "type": "local", "path": "/srv/other" });
    api.make("/runners", elsewhere).await;
    let rule = |fallbacks: &[&str]| json!({ "runner_id": "shared", "project_id": "shop", "fallback_runner_ids": fallbacks });
    let before = api.audit().await;
    for (fallbacks, faults) in [
        (
            &["absent", "elsewhere", "second"][..],
            &["[0]` names no runner", "[1]` keeps states"][..],
        ),
        (&["shared", "second", "second", "../x"], &["[0]` is named", "[2]` is named", "[3]` "]),
        (&["a1", "a2", "a3", "a4", "a5"], &["` has at most 4 entries"]),
    ] {
        let refused = api.post("/runner-rules", rule(fallbacks)).await;
        assert_eq!(refused.0, 400, "{refused:?}");
        for fault in faults {
            let expected = format!("`fallback_runner_ids{fault}");
            assert!(message(&refused).contains(&expected), "{expected}: {refused:?}");
        }
    }
    let absent =
        json!({ "runner_id": "absent", "project_id": "shop", "fallback_runner_ids": ["second"] });
    let refused = api.post("/runner-rules", absent).await;
    assert!(message(&refused).starts_with("`runner_id` names no runner"), "{refused:?}");
    assert_eq!(api.audit().await, before, "nothing is written");

    let made = api.make("/runner-rules", rule(&["second", "third"])).await;
    assert_eq!(made["fallback_runner_ids"], json!(["second", "third"]));
    let path = format!("/runner-rules/{}", made["id"].as_str().unwrap());
    assert_eq!(api.get(&path).await, (200, made));
    let found = api.get("/runner-rules?byRunnerId=third").await.1;
    assert_eq!(found["items"].as_array().unwrap().len(), 1, "a fallback is found");
    let refused = api.delete("/runners/third").await;
    assert!(refused.0 == 409 && message(&refused).contains("runner rule"), "{refused:?}");

    let env = api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    assert_eq!(env["fallback_runner_ids"], json!(["second", "third"]));
    assert_eq!(api.delete(&path).await.0, 204);
    let refused = api.delete("/runners/third").await;
    assert!(refused.0 == 409 && message(&refused).contains("environment `main`"), "{refused:?}");

    api.make("/runner-rules", rule(&["second"])).await;
    let refresh = "/projects/shop/envs/main/actions/refresh_runner";
    let changed =
        json!({ "runner_id": "shared", "fallback_runner_ids": ["second"], "updated": true });
    assert_eq!(api.act(refresh).await, (200, changed.clone()));
    let mut same = changed;
    same["updated"] = json!(false);
    assert_eq!(api.act(refresh).await, (200, same));
    assert_eq!(api.delete("/runners/third").await.0, 204, "nothing uses it any more");
    let main = api.get("/projects/shop/envs/main").await.1;
    assert_eq!(main["fallback_runner_ids"], json!(["second"]));
}

#[tokio::test]
async fn a_second_rule_for_the_same_scope_is_refused_and_the_first_is_named() {
    let api = Api::start().await;
    api.furnish().await;
    api.make("/runners", local_runner("second")).await;
    let rules = api.get("/runner-rules").await.1;
    let first = rules["items"][0]["id"].as_str().unwrap();
    let same = api.post("/runner-rules", json!({ "runner_id": "shared" })).await;
    assert_eq!(same.0, 409);
    assert_eq!(
        message(&same),
        format!(
            "rule `{first}` has this scope and runner already: runner `shared` for every environment"
        )
    );
    let other = api.post("/runner-rules", json!({ "runner_id": "second" })).await;
    assert_eq!(other.0, 409);
    assert_eq!(
        message(&other),
        format!(
            "rule `{first}` gives every environment to runner `shared`; delete it first: canyon delete runner-rule {first}"
        )
    );
    assert_eq!(other.1["details"]["runner_rule"], json!(first));
}

#[tokio::test]
async fn a_rule_names_only_what_is_there() {
    let api = Api::start().await;
    api.furnish().await;
    let cases = [
        (json!({ "runner_id": "absent", "project_id": "shop" }), "runner_id"),
        (json!({ "runner_id": "shared", "env_type_id": "absent" }), "env_type_id"),
        (json!({ "runner_id": "shared", "project_id": "sho" }), "project_id"),
        (json!({ "runner_id": "../x" }), "runner_id"),
    ];
    for (body, field) in cases {
        let refused = api.post("/runner-rules", body.clone()).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec![field]), "{body}");
    }
}

#[tokio::test]
async fn only_the_operator_makes_organizations() {
    let api = Api::start().await;
    let post = async |token: &str| api.send(Method::POST, "/orgs", Some(token), None).await;
    for token in [&api.theirs.admin, &api.ours.viewer] {
        assert_eq!(post(token).await.0, 403);
    }
    let (status, made) = post(&api.ours.admin).await;
    assert_eq!((status, &made["plan"]), (201, &json!("open-source")));
    let path = format!("/orgs/{}", made["id"].as_str().unwrap());
    let token = made["admin_token"].as_str().unwrap();
    let (status, read) = api.send(Method::GET, &path, Some(token), None).await;
    assert_eq!((status, &read["uuid"]), (200, &made["uuid"]));
    assert_eq!(api.send(Method::GET, &path, Some(&api.ours.admin), None).await.0, 404);
    assert_eq!(post(token).await.0, 403, "a new organization's admin is no operator");
}

#[tokio::test]
async fn to_delete_a_project_the_api_reads_no_environments_of_other_projects() {
    let mut api = Api::start().await;
    api.furnish().await;
    let meter = Meter::default();
    let table = meter.watch(&api.app.table);
    let change = |app: App| App { table, ..app };
    api.serve_again(change, &HttpSettings::default()).await;
    let deleted = async |project: &str| {
        api.make("/projects", json!({ "id": project })).await;
        meter.take();
        assert_eq!(api.delete(&format!("/projects/{project}")).await.0, 204);
        meter.take().0["Query"]
    };
    let few = deleted("middle").await;
    // They are before and behind it in the organization's list.
    for project in ["early", "middle/not", "shop"] {
        if project != "shop" {
            api.make("/projects", json!({ "id": project })).await;
        }
        for number in 0..30 {
            let env = json!({ "id": format!("env-{number}"), "env_type_id": "dev" });
            let path = format!("/projects/{}/envs", project.replace('/', "%2F"));
            api.make(&path, env).await;
        }
    }
    let many = deleted("middle").await;
    assert_eq!((many.requests, many.units), (few.requests, few.units));
}

#[tokio::test]
async fn a_project_names_the_profile_that_runners_may_ask_it_for() {
    let api = Api::start().await;
    let name = "${project.id}-${env_type.id}";
    api.make("/projects", json!({ "id": "shop", "profile": name })).await;
    let shown = api.get("/projects/shop").await.1;
    assert_eq!((&shown["profile"], &shown["display_name"]), (&json!(name), &json!("shop")));
    let (status, changed) = api.patch("/projects/shop", json!({ "display_name": "Shop" })).await;
    assert_eq!((status, &changed["profile"]), (200, &json!(name)));
    let (_, removed) = api.patch("/projects/shop", json!({ "profile": null })).await;
    assert_eq!((&removed["profile"], &removed["display_name"]), (&json!(null), &json!("Shop")));

    for (bad, reason) in [
        ("${project.profile}", "that is this name"),
        ("${region}", "a reference that is not known"),
        ("", "1 to 255 bytes"),
    ] {
        let body = json!({ "display_name": "x", "profile": bad });
        let refused = api.patch("/projects/shop", body).await;
        assert_eq!(refused.0, 400, "{refused:?}");
        assert_eq!(faults(&refused), ["profile", "display_name"], "both at once");
        assert!(refused.1["details"].to_string().contains(reason), "{refused:?}");
    }
    assert_eq!(api.get("/projects/shop").await.1["profile"], json!(null), "nothing is written");
}
