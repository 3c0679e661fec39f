//! Roles in a part of an organization: of tokens, service accounts, trust policies and modules.

use crate::foreign::Foreign;
use crate::harness::{Api, faults};
use crate::job::{claim, furnished, launch, order};
use crate::service_accounts::{AUDIENCE, SUBJECT, signed_in};
use canyon_api::nonce::NONCE_HEADER;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// Another project with an environment, beside `main` of `shop`.
pub(crate) async fn two_projects() -> Api {
    let api = furnished().await;
    api.make("/projects", json!({ "id": "bank" })).await;
    api.make("/projects/bank/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    api
}

pub(crate) async fn token(api: &Api, body: Value) -> String {
    api.make("/tokens", body).await["secret"].as_str().unwrap().to_owned()
}

/// The environments in the caller's list, as `project environment`.
async fn environments(api: &Api, token: &str) -> Vec<String> {
    let (status, page) = api.call_as(token, Method::GET, "/envs", None).await;
    assert_eq!(status, 200, "{page}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let items = page["items"].as_array().unwrap().iter();
    items.map(|env| format!("{} {}", text(&env["project_id"]), text(&env["id"]))).collect()
}

async fn deploys_to(api: &Api, token: &str, project: &str) -> u16 {
    let mut body = order();
    body["project_id"] = json!(project);
    api.call_as(token, Method::POST, "/deployments", Some(&body)).await.0
}

#[tokio::test]
async fn the_roles_of_a_token_are_shown_and_what_is_wrong_with_them_is_refused_with_its_path() {
    let api = Api::start().await;
    let scoped = json!([{ "role": "deployer", "project_id": "shop", "env_type_id": "dev" }]);
    let made = api.make("/tokens", json!({ "role": "none", "scoped_roles": scoped })).await;
    assert_eq!((&made["role"], &made["scoped_roles"]), (&json!("none"), &scoped));
    let listed = api.get("/tokens?per_page=100").await.1;
    let listed = listed["items"].as_array().unwrap().iter();
    assert!(listed.clone().any(|one| one["id"] == made["id"] && one["scoped_roles"] == scoped));

    let viewer = json!({ "role": "viewer", "project_id": "shop" });
    let with = |member: &str, value: Value| {
        let mut role = viewer.clone();
        role[member] = value;
        json!({ "role": "none", "scoped_roles": [viewer, role] })
    };
    let nowhere = json!({ "role": "none", "scoped_roles": [{ "role": "viewer" }] });
    let env_alone = json!({ "role": "viewer", "env_type_id": "dev", "env_id": "main" });
    for (body, paths) in [
        (json!({ "role": "none" }), vec!["role"]),
        (json!({ "role": "agent", "scoped_roles": [viewer] }), vec!["scoped_roles"]),
        (nowhere, vec!["scoped_roles[0]"]),
        (with("role", json!("agent")), vec!["scoped_roles[1].role"]),
        (with("role", json!("none")), vec!["scoped_roles[1].role"]),
        (with("role", json!("owner")), vec!["scoped_roles[1].role"]),
        (with("project_id", json!("../x")), vec!["scoped_roles[1].project_id", "scoped_roles[1]"]),
        (with("env_type_id", json!("X")), vec!["scoped_roles[1].env_type_id"]),
        (with("team", json!("a")), vec!["scoped_roles[1].team"]),
        (
            json!({ "role": "none", "scoped_roles": [env_alone] }),
            vec!["scoped_roles[0].env_id", "scoped_roles[0].env_type_id"],
        ),
        (json!({ "role": "none", "scoped_roles": vec![viewer.clone(); 21] }), vec!["scoped_roles"]),
    ] {
        let refused = api.post("/tokens", body.clone()).await;
        assert_eq!((refused.0, faults(&refused)), (400, paths), "{body}: {}", refused.1);
    }
}

#[tokio::test]
async fn a_trust_policy_lets_its_tokens_do_less_and_never_more_than_its_service_account() {
    let api = two_projects().await;
    let foreign = Foreign::new(&api);
    let (mut narrow, wide) = (foreign.policy().await, foreign.policy().await);
    narrow["bound_claims"] = json!({ "sub": "branch" });
    narrow["scoped_roles"] = json!([{ "role": "viewer", "project_id": "bank" }]);
    let mut body = json!({
        "id": "ci",
        "role": "none",
        "scoped_roles": [
            { "role": "deployer", "project_id": "bank" },
            { "role": "deployer", "project_id": "shop", "env_type_id": "dev" },
        ],
        "trust_policies": [narrow, wide],
    });
    let made = api.make("/service-accounts", body.clone()).await;
    assert_eq!(
        made["trust_policies"][0]["scoped_roles"],
        body["trust_policies"][0]["scoped_roles"]
    );
    let path = "trust_policies[0].scoped_roles[0]";
    body["id"] = json!("other");
    for more in [
        json!({ "role": "admin", "project_id": "bank" }),
        json!({ "role": "viewer", "project_id": "shop" }),
        json!({ "role": "viewer", "env_type_id": "dev" }),
    ] {
        body["trust_policies"][0]["scoped_roles"] = json!([more]);
        assert_eq!(faults(&api.post("/service-accounts", body.clone()).await), [path], "{more}");
    }

    let main = signed_in(&api, "ci", &foreign.token(SUBJECT, AUDIENCE).await).await;
    let branch = signed_in(&api, "ci", &foreign.token("branch", AUDIENCE).await).await;
    assert_eq!(environments(&api, &main).await, ["bank main", "shop main"]);
    assert_eq!(environments(&api, &branch).await, ["bank main"]);
    assert_eq!(deploys_to(&api, &main, "bank").await, 201);
    assert_eq!(deploys_to(&api, &branch, "bank").await, 403);
    assert_eq!(deploys_to(&api, &branch, "shop").await, 409, "it does not see the project");

    // A policy never allows more than the service account, also after the account's roles were reduced.
    let less = json!({ "scoped_roles": [{ "role": "viewer", "project_id": "shop" }] });
    assert_eq!(faults(&api.patch("/service-accounts/ci", less).await), [path]);
}

#[tokio::test]
async fn a_module_reads_no_further_than_the_one_who_deploys_it() {
    let api = two_projects().await;
    let scoped = json!([{ "role": "deployer", "project_id": "shop" }]);
    let narrow = token(&api, json!({ "role": "none", "scoped_roles": scoped })).await;
    for (deployer, sees) in
        [(&narrow, vec!["shop main"]), (&api.ours.deployer, vec!["bank main", "shop main"])]
    {
        let (status, made) =
            api.call_as(deployer, Method::POST, "/deployments", Some(&order())).await;
        assert_eq!(status, 201, "{made}");
        let id = made["id"].as_str().unwrap();
        let code = launch(&api, id).await;
        let claimed = claim(&api, id, 1, &code, "claimant-of-the-test").await.1;
        let module = claimed["read_token"].as_str().unwrap();
        assert_eq!(environments(&api, module).await, sees);
        let runners = api.call_as(module, Method::GET, "/runners", None).await.0;
        assert_eq!(runners, if sees.len() == 1 { 403 } else { 200 });
        // Then the next one has the turn.
        crate::job::lose(&api, id).await;
        let cancelled = api.act(&format!("/deployments/{id}/actions/cancel")).await;
        assert_eq!(cancelled.0, 202, "{}", cancelled.1);
    }
}

#[tokio::test]
async fn the_module_of_another_reads_no_further_than_its_author() {
    let api = two_projects().await;
    let scoped = json!([{ "role": "deployer", "project_id": "shop" }]);
    let narrow = token(&api, json!({ "role": "none", "scoped_roles": scoped })).await;
    let made = api.call_as(&narrow, Method::POST, "/deployments", Some(&order())).await.1;
    let job = crate::job::Job::of(&api, made["id"].as_str().unwrap().to_owned()).await;
    job.report(&api, "apply", json!([])).await;
    job.succeed(&api).await;
    // An administrator destroys it, which runs the module of its author.
    let destroy = json!({ "project_id": "shop", "env_id": "main", "mode": "destroy" });
    let id = api.make("/deployments", destroy).await["id"].as_str().unwrap().to_owned();
    let code = launch(&api, &id).await;
    let claimed = claim(&api, &id, 1, &code, "claimant-of-the-test").await.1;
    let module = claimed["read_token"].as_str().unwrap();
    assert_eq!(environments(&api, module).await, ["shop main"]);
}

#[tokio::test]
async fn an_idempotency_key_shows_no_deployment_that_its_caller_may_not_read() {
    let api = two_projects().await;
    let foreign = Foreign::new(&api);
    let (mut bank, mut shop) = (foreign.policy().await, foreign.policy().await);
    for (policy, subject, project) in [(&mut bank, "bank", "bank"), (&mut shop, "shop", "shop")] {
        policy["bound_claims"] = json!({ "sub": subject });
        policy["scoped_roles"] = json!([{ "role": "deployer", "project_id": project }]);
    }
    let body = json!({ "id": "ci", "role": "deployer", "trust_policies": [bank, shop] });
    api.make("/service-accounts", body).await;
    let mut body = order();
    body["project_id"] = json!("bank");
    let mut answers = Vec::new();
    for subject in ["bank", "shop"] {
        let token = signed_in(&api, "ci", &foreign.token(subject, AUDIENCE).await).await;
        let request = crate::job::request(&api, &token, Method::POST, "/deployments");
        let answer = request.header("idempotency-key", "build-1").json(&body).send().await.unwrap();
        answers.push((answer.status().as_u16(), answer.json::<Value>().await.unwrap()));
    }
    let [made, other] = answers.try_into().unwrap();
    assert_eq!((made.0, other.0), (201, 409), "{}", other.1);
    assert!(!other.1.to_string().contains(made.1["id"].as_str().unwrap()), "{}", other.1);
}

/// A service account, and a policy for each of the two subjects `bank` and `shop`.
async fn shared_account(api: &Api, foreign: &Foreign, role: &str) {
    let mut policies = Vec::new();
    for subject in ["bank", "shop"] {
        let mut policy = foreign.policy().await;
        policy["bound_claims"] = json!({ "sub": subject });
        policies.push(policy);
    }
    let body = json!({ "id": "ci", "role": role, "trust_policies": policies });
    api.make("/service-accounts", body).await;
}

#[tokio::test]
async fn each_holder_of_a_service_account_has_its_own_idempotency_keys_and_keeps_them_with_a_renewed_token()
 {
    let api = two_projects().await;
    let foreign = Foreign::new(&api);
    shared_account(&api, &foreign, "deployer").await;
    let deploys = async |subject: &str| {
        let token = signed_in(&api, "ci", &foreign.token(subject, AUDIENCE).await).await;
        let request = crate::job::request(&api, &token, Method::POST, "/deployments");
        let mut body = order();
        body["project_id"] = json!(subject);
        let answer = request.header("idempotency-key", "build-1").json(&body).send().await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.json::<Value>().await.unwrap();
        assert_eq!(status, 201, "{subject}: {body}");
        (body["project_id"].clone(), body["id"].clone())
    };
    let (bank, shop) = (deploys("bank").await, deploys("shop").await);
    assert_eq!((&bank.0, &shop.0), (&json!("bank"), &json!("shop")));
    // The first token of each has expired.
    api.clock.advance(Duration::from_mins(16));
    assert_eq!((deploys("bank").await, deploys("shop").await), (bank, shop));
}

#[tokio::test]
async fn a_word_of_one_holder_of_a_service_account_stops_no_request_of_another() {
    let api = two_projects().await;
    let foreign = Foreign::new(&api);
    shared_account(&api, &foreign, "admin").await;
    let mut answers = Vec::new();
    for subject in ["bank", "shop", "bank"] {
        let token = signed_in(&api, "ci", &foreign.token(subject, AUDIENCE).await).await;
        let request = crate::job::request(&api, &token, Method::PATCH, "/env-types/dev");
        let request = request.header(NONCE_HEADER, "a-word-of-twenty-and-more-characters");
        let answer = request.json(&json!({ "display_name": subject })).send().await.unwrap();
        answers.push(answer.status().as_u16());
    }
    assert_eq!(answers, [200, 200, 409]);
}

#[tokio::test]
async fn a_cursor_names_nothing_that_its_caller_may_not_read() {
    use base64::Engine as _;
    let api = two_projects().await;
    for project in ["ab", "cd", "zz"] {
        api.make("/projects", json!({ "id": project })).await;
    }
    let scoped = json!([
        { "role": "viewer", "project_id": "ab" },
        { "role": "viewer", "project_id": "zz" },
    ]);
    let narrow = token(&api, json!({ "role": "none", "scoped_roles": scoped })).await;
    let (status, page) = api.call_as(&narrow, Method::GET, "/projects?per_page=1", None).await;
    assert_eq!((status, &page["items"][0]["id"]), (200, &json!("ab")));
    let cursor = page["next_page_token"].as_str().unwrap();
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(cursor).unwrap();
    let text = String::from_utf8_lossy(&bytes[8..]).into_owned();
    assert!(text.contains("ab") && !text.contains("shop"), "{text}");
    let next = format!("/projects?per_page=1&page={cursor}");
    let page = api.call_as(&narrow, Method::GET, &next, None).await.1;
    assert_eq!(page["items"][0]["id"], "zz", "{page}");
}

#[tokio::test]
async fn the_token_of_a_page_without_visible_entries_shows_nothing_and_leads_to_the_next_page() {
    let api = two_projects().await;
    api.make("/projects", json!({ "id": "zz" })).await;
    let (org, shop) = (api.ours.uuid, "shop".parse().unwrap());
    let model = api.app.table.project(org, &shop).await.unwrap().unwrap();
    let record = canyon_domain::audit::AuditRecord {
        id: uuid::Uuid::now_v7(),
        at: model.created_at,
        by: canyon_domain::ids::PrincipalId(uuid::Uuid::nil()),
        action: "project.create".to_owned(),
        subject: "projects/secret".to_owned(),
        by_right: "admin".to_owned(),
        details: Vec::new(),
    };
    for number in 0..3_200 {
        let id = format!("secret-{number:04}").parse().unwrap();
        let hidden = canyon_domain::inventory::Project { id, ..model.clone() };
        let record =
            canyon_domain::audit::AuditRecord { id: uuid::Uuid::now_v7(), ..record.clone() };
        api.app.table.create_project(org, &hidden, &record).await.unwrap();
    }
    let scoped = json!([{ "role": "viewer", "project_id": "zz" }]);
    let narrow = token(&api, json!({ "role": "none", "scoped_roles": scoped })).await;
    let page = async |path: &str| api.call_as(&narrow, Method::GET, path, None).await;
    let (status, first) = page("/projects").await;
    assert_eq!((status, &first["items"]), (200, &json!([])), "{first}");
    let cursor = first["next_page_token"].as_str().unwrap();
    let sealed = cursor.strip_prefix('~').unwrap();
    let plain = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, sealed);
    assert!(!String::from_utf8_lossy(&plain.unwrap()).contains("secret"), "{cursor}");
    let next = page(&format!("/projects?page={cursor}")).await.1;
    assert_eq!((&next["items"][0]["id"], next.get("next_page_token")), (&json!("zz"), None));
    // The cursor is valid for this list only, and only unchanged.
    let (start, end) = cursor.split_at(cursor.len() - 4);
    for path in [
        format!("/envs?page={cursor}"),
        format!("/runners?page={cursor}"),
        format!("/projects?page={start}{}", if end == "AAAA" { "BBBB" } else { "AAAA" }),
    ] {
        assert_eq!(
            page(&path).await.0,
            if path.starts_with("/runners") { 403 } else { 400 },
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_scoped_administrator_rules_its_part_and_nothing_of_the_organization() {
    let api = two_projects().await;
    let scoped = json!([{ "role": "admin", "project_id": "team" }]);
    let admin = token(&api, json!({ "role": "none", "scoped_roles": scoped })).await;
    let call = async |method: Method, path: &str, body: Value| {
        api.call_as(&admin, method, path, Some(&body)).await
    };
    let (post, made) = (Method::POST, json!({ "id": "team/web" }));
    assert_eq!(call(post.clone(), "/projects", made).await.0, 201);
    assert_eq!(call(post.clone(), "/projects", json!({ "id": "teams" })).await.0, 403);
    let env = json!({ "id": "main", "env_type_id": "dev" });
    assert_eq!(call(post.clone(), "/projects/team%2Fweb/envs", env.clone()).await.0, 201);
    assert_eq!(call(post.clone(), "/projects/bank/envs", env).await.0, 404);
    let mut accepts = order();
    accepts["project_id"] = json!("team/web");
    accepts["accept_state"] = json!(true);
    assert_eq!(call(post.clone(), "/deployments", accepts).await.0, 201, "as only admins may");
    let token = json!({ "role": "none", "scoped_roles": scoped });
    assert_eq!(call(post, "/tokens", token).await.0, 403, "no more of its kind");
    let with_rules = "/projects/team%2Fweb?deleteRules=true";
    let (status, refused) = api.call_as(&admin, Method::DELETE, with_rules, None).await;
    assert_eq!(status, 403, "rules are the organization's: {refused}");
    let record = &api.get("/audit-records?per_page=1").await.1["items"][0];
    assert_eq!(record["by_right"], "admin in project team");
}

#[tokio::test]
async fn only_an_administrator_frees_a_lock_whose_holder_may_live() {
    let api = two_projects().await;
    let post = Method::POST;
    let mut unlocks = order();
    unlocks["project_id"] = json!("bank");
    unlocks.as_object_mut().unwrap().remove("module");
    unlocks["mode"] = json!("state");
    unlocks["state_command"] = json!({ "command": "force_unlock", "lock_id": "1", "force": true });
    let deploys = json!([{ "role": "deployer", "project_id": "bank" }]);
    let deployer = token(&api, json!({ "role": "none", "scoped_roles": deploys })).await;
    let forced = api.call_as(&deployer, post.clone(), "/deployments", Some(&unlocks)).await;
    assert_eq!(forced.0, 403, "its holder may live: {forced:?}");
    unlocks["state_command"]["force"] = json!(false);
    let proved = api.call_as(&deployer, post.clone(), "/deployments", Some(&unlocks)).await;
    assert_eq!(proved.0, 201, "{proved:?}");
}

#[tokio::test]
async fn a_token_of_a_page_of_deployments_names_none_that_its_caller_may_not_read() {
    let api = two_projects().await;
    for _ in 0..8 {
        let mut body = order();
        (body["project_id"], body["env_id"]) = (json!("bank"), json!("main"));
        let (status, answer) = api.post("/deployments", body).await;
        assert_eq!(status, 201, "{answer}");
    }
    let scoped = json!([{ "role": "viewer", "project_id": "shop" }]);
    let narrow = token(&api, json!({ "role": "none", "scoped_roles": scoped })).await;
    let (mut path, mut pages) = ("/deployments?per_page=1".to_owned(), 0);
    loop {
        let (status, page) = api.call_as(&narrow, Method::GET, &path, None).await;
        assert_eq!((status, &page["items"]), (200, &json!([])), "{page}");
        let Some(cursor) = page["next_page_token"].as_str() else { break };
        assert!(cursor.starts_with('~'), "not sealed: {cursor}");
        path = format!("/deployments?per_page=1&page={cursor}");
        pages += 1;
        assert!(pages < 20, "it leads on");
    }
    assert!(pages > 0, "there was a token to look at");
}
