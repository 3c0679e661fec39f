//! People sign in with tokens of an identity provider, and their groups decide what they may do.

use crate::foreign::{Foreign, URL};
use crate::harness::{Answer, Api, faults, local_runner, message, settled};
use crate::service_accounts::{GRANT, JWT, exchange};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const CLIENT: &str = "canyon";

pub(crate) async fn company(foreign: &Foreign) -> Value {
    json!({
        "id": "company",
        "issuer": URL,
        "client_id": CLIENT,
        "jwks": foreign.keys().await,
        "rules": [
            { "group": "platform", "role": "admin" },
            { "group": "shop", "role": "deployer", "project_id": "shop" },
            { "group": "auditors", "role": "viewer" },
        ],
    })
}

/// A token that the issuer gives a person with these groups.
pub(crate) async fn id_token(foreign: &Foreign, person: &str, groups: &[&str]) -> String {
    let claims = json!({ "groups": groups, "email": format!("{person}@example.com") });
    foreign.token_with(person, CLIENT, claims.as_object().unwrap().clone()).await
}

pub(crate) async fn sign_in(api: &Api, org: &str, provider: &str, token: &str) -> (u16, Value) {
    let form = [
        ("grant_type", GRANT),
        ("subject_token_type", JWT),
        ("subject_token", token),
        ("identity_provider", provider),
    ];
    exchange(api, org, &form).await
}

pub(crate) async fn signed_in(
    api: &Api,
    foreign: &Foreign,
    person: &str,
    groups: &[&str],
) -> String {
    let token = id_token(foreign, person, groups).await;
    let (status, answer) = sign_in(api, "our-org", "company", &token).await;
    assert_eq!(status, 200, "{answer}");
    answer["access_token"].as_str().unwrap().to_owned()
}

pub(crate) async fn whoami(api: &Api, token: &str) -> Answer {
    api.call_as(token, Method::GET, "/caller", None).await
}

#[tokio::test]
async fn an_identity_provider_is_made_read_changed_listed_and_deleted() {
    let api = Api::start().await;
    let body = json!({
        "id": "company",
        "issuer": URL,
        "client_id": CLIENT,
        "rules": [
            { "group": "platform", "role": "admin" },
            { "group": "shop", "role": "deployer", "project_id": "shop", "env_type_id": "dev" },
        ],
    });
    let made = api.make("/identity-providers", body.clone()).await;
    insta::assert_snapshot!(settled(&made), @r#"
    {
      "client_id": "canyon",
      "created_at": "[time]",
      "description": "",
      "groups_claim": "groups",
      "id": "company",
      "issuer": "https://issuer.example.com",
      "name_claim": "email",
      "org_id": "our-org",
      "rules": [
        {
          "group": "platform",
          "role": "admin"
        },
        {
          "env_type_id": "dev",
          "group": "shop",
          "project_id": "shop",
          "role": "deployer"
        }
      ],
      "scopes": [
        "openid",
        "profile",
        "email"
      ],
      "updated_at": "[time]",
      "uuid": "[uuid]"
    }
    "#);
    assert_eq!(api.get("/identity-providers/company").await, (200, made.clone()));
    assert_eq!(api.post("/identity-providers", body).await.0, 409);
    let change = json!({ "groups_claim": "roles", "rules": [{ "group": "x", "role": "viewer" }] });
    let (status, changed) = api.patch("/identity-providers/company", change).await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!(changed["groups_claim"], "roles");
    assert_eq!(changed["rules"], json!([{ "group": "x", "role": "viewer" }]));
    assert_eq!((&changed["issuer"], &changed["uuid"]), (&made["issuer"], &made["uuid"]));
    let (_, list) = api.get("/identity-providers").await;
    assert_eq!(list["items"], json!([changed]));
    let theirs = format!("/orgs/{}/identity-providers", api.theirs.id);
    let (_, list) = api.send(Method::GET, &theirs, Some(&api.theirs.admin), None).await;
    assert_eq!(list["items"], json!([]));
    assert_eq!(api.delete("/identity-providers/company").await.0, 204);
    assert_eq!(api.get("/identity-providers/company").await.0, 404);
    let actions = api.audit().await;
    for action in ["create", "update", "delete"] {
        let action = format!("identity_provider.{action}");
        assert!(actions.iter().any(|known| known.contains(&action)), "{action} {actions:?}");
    }
}

#[tokio::test]
async fn each_fault_of_a_provider_is_named_with_its_path_and_nothing_is_written() {
    let api = Api::start().await;
    let body = json!({
        "id": "C",
        "issuer": "http://login.example.com",
        "client_id": "*",
        "scopes": ["profile"],
        "name_claim": "",
        "groups_claim": "a b",
        "jwks": { "keys": "x" },
        "rules": [
            { "group": "", "role": "viewer" },
            { "group": "x", "role": "agent" },
            { "group": "x", "role": "viewer", "env_id": "dev" },
            { "group": "x", "role": "viewer", "project_id": "A B" },
        ],
    });
    let answer = api.post("/identity-providers", body).await;
    assert_eq!(answer.0, 400);
    let expected = [
        "id",
        "issuer",
        "jwks",
        "client_id",
        "scopes",
        "name_claim",
        "groups_claim",
        "rules[0].group",
        "rules[1].role",
        "rules[2]",
        "rules[2].env_id",
        "rules[3].project_id",
        "rules[3]",
    ];
    assert_eq!(faults(&answer), expected);
    // Keys of an issuer on a private network cannot be fetched, neither at first nor after a change.
    let private = json!({
        "id": "company",
        "issuer": "https://10.0.0.1",
        "client_id": CLIENT,
        "rules": [{ "group": "x", "role": "viewer" }],
    });
    let answer = api.post("/identity-providers", private.clone()).await;
    assert_eq!((answer.0, faults(&answer)), (400, vec!["issuer"]));
    let foreign = Foreign::new(&api);
    api.make("/identity-providers", company(&foreign).await).await;
    for change in [
        json!({ "issuer": "https://10.0.0.1", "jwks": {} }),
        json!({ "rules": [] }),
        json!({ "client_id": URL, "issuer": URL }),
    ] {
        let answer = api.patch("/identity-providers/company", change.clone()).await;
        assert_eq!((answer.0, faults(&answer).len()), (400, 1), "{change}");
    }
}

#[tokio::test]
async fn a_person_may_do_what_the_rules_give_to_the_persons_groups() {
    let api = Api::start().await;
    api.furnish().await;
    let foreign = Foreign::new(&api);
    api.make("/identity-providers", company(&foreign).await).await;
    let may = async |token: &str, method: Method, path: &str| {
        let body = (method == Method::POST).then(|| json!({ "id": "new" }));
        api.call_as(token, method, path, body.as_ref()).await.0
    };
    let ada = signed_in(&api, &foreign, "ada", &["everyone", "platform"]).await;
    assert_eq!(may(&ada, Method::GET, "/tokens").await, 200);
    assert_eq!(may(&ada, Method::POST, "/projects").await, 201);
    let grace = signed_in(&api, &foreign, "grace", &["auditors"]).await;
    assert_eq!(may(&grace, Method::GET, "/runners").await, 200);
    assert_eq!(may(&grace, Method::POST, "/projects").await, 403);
    let linus = signed_in(&api, &foreign, "linus", &["shop"]).await;
    assert_eq!(may(&linus, Method::GET, "/runners").await, 403);
    assert_eq!(may(&linus, Method::GET, "/projects/new").await, 404);
    let theirs = format!("/orgs/{}/projects", api.theirs.id);
    assert_eq!(api.send(Method::GET, &theirs, Some(&ada), None).await.0, 404);
    let (_, who) = whoami(&api, &linus).await;
    let (_, again) = whoami(&api, &signed_in(&api, &foreign, "linus", &["auditors"]).await).await;
    assert_eq!(who["id"], again["id"], "a person is one principal in every group");
    let told = ["kind", "name", "identity_provider", "role", "scoped_roles"].map(|name| &who[name]);
    let scoped = json!([{ "role": "deployer", "project_id": "shop" }]);
    let expected =
        [json!("person"), json!("linus@example.com"), json!("company"), json!("none"), scoped];
    assert_eq!(told.map(Clone::clone), expected);
}

#[tokio::test]
async fn a_token_that_proves_no_role_is_refused_with_the_reason_and_an_unproved_one_without() {
    let api = Api::start().await;
    let foreign = Foreign::new(&api);
    api.make("/identity-providers", company(&foreign).await).await;
    let refusal = async |org: &str, provider: &str, token: &str| {
        let (status, answer) = sign_in(&api, org, provider, token).await;
        assert_eq!((status, &answer["error"]), (400, &json!("invalid_grant")), "{answer}");
        answer["message"].as_str().unwrap().to_owned()
    };
    let stranger = id_token(&foreign, "eve", &["Platform", "platform "]).await;
    let said = refusal("our-org", "company", &stranger).await;
    assert_eq!(
        said,
        "no rule of identity provider `company` gives a role to a group of this person: the claim `groups` of the token has \
         `Platform`, `platform `"
    );
    let (_, page) = api.get("/audit-records?action=identity_provider.create").await;
    let granted =
        ["group platform: admin", "group shop: deployer in project shop", "group auditors: viewer"];
    assert_eq!(page["items"][0]["details"], json!(granted));
    let silent = foreign.token("ada", CLIENT).await;
    assert!(refusal("our-org", "company", &silent).await.contains("no claim `groups`"));
    let claims = json!({ "groups": ["platform"] }).as_object().unwrap().clone();
    let other = foreign.token_with("ada", "another-client", claims).await;
    assert!(refusal("our-org", "company", &other).await.contains("`aud`"));
    let good = id_token(&foreign, "ada", &["platform"]).await;
    let forged = format!("{}AAAA", &good[..good.len() - 4]);
    let unproved = refusal("our-org", "company", &forged).await;
    assert_eq!(refusal("our-org", "nowhere", &good).await, unproved);
    assert_eq!(refusal(&api.theirs.id, "company", &good).await, unproved);
    assert_eq!(refusal("no-such-org", "company", &good).await, unproved);
    let both = [
        ("grant_type", GRANT),
        ("subject_token_type", JWT),
        ("subject_token", good.as_str()),
        ("identity_provider", "company"),
        ("service_account", "ci"),
    ];
    let (status, answer) = exchange(&api, "our-org", &both).await;
    assert_eq!((status, &answer["error"]), (400, &json!("invalid_request")));
}

#[tokio::test]
async fn access_ends_an_hour_after_the_issuer_signed_and_with_each_change_of_the_provider() {
    let api = Api::start().await;
    let foreign = Foreign::new(&api);
    api.make("/identity-providers", company(&foreign).await).await;
    let token = id_token(&foreign, "ada", &["platform"]).await;
    api.clock.advance(Duration::from_mins(5));
    let (_, answer) = sign_in(&api, "our-org", "company", &token).await;
    let life = answer["expires_in"].as_u64().unwrap();
    assert!((3_298..=3_300).contains(&life), "{answer}");
    let ours = answer["access_token"].as_str().unwrap();
    api.clock.advance(Duration::from_secs(life - 1));
    assert_eq!(whoami(&api, ours).await.0, 200);
    api.clock.advance(Duration::from_secs(2));
    assert_eq!(whoami(&api, ours).await.0, 401);
    let ours = signed_in(&api, &foreign, "ada", &["platform"]).await;
    api.patch("/identity-providers/company", json!({ "description": "x" })).await;
    assert_eq!(whoami(&api, &ours).await.0, 401);
    let ours = signed_in(&api, &foreign, "ada", &["platform"]).await;
    api.delete("/identity-providers/company").await;
    assert_eq!(whoami(&api, &ours).await.0, 401);
    // Another provider of this name is another one, and its people are others.
    api.make("/identity-providers", company(&foreign).await).await;
    assert_eq!(whoami(&api, &ours).await.0, 401);
}

#[tokio::test]
async fn a_person_of_another_issuer_is_another_principal_although_the_provider_is_the_same() {
    let api = Api::start().await;
    let foreign = Foreign::new(&api);
    let mut of_other = company(&foreign).await;
    of_other["issuer"] = json!("https://issuer.example.com/other");
    api.make("/identity-providers", company(&foreign).await).await;
    let before = whoami(&api, &signed_in(&api, &foreign, "ada", &["platform"]).await).await.1;
    let other = Foreign::at(&api, "https://issuer.example.com/other");
    let change = json!({ "issuer": of_other["issuer"], "jwks": other.keys().await });
    assert_eq!(api.patch("/identity-providers/company", change).await.0, 200);
    let after = whoami(&api, &signed_in(&api, &other, "ada", &["platform"]).await).await.1;
    assert_ne!(before["id"], after["id"]);
}

#[tokio::test]
async fn signing_out_ends_the_token_at_once_and_no_other() {
    let api = Api::start().await;
    let foreign = Foreign::new(&api);
    api.make("/identity-providers", company(&foreign).await).await;
    let (one, other) = (
        signed_in(&api, &foreign, "ada", &["platform"]).await,
        signed_in(&api, &foreign, "ada", &["platform"]).await,
    );
    let revoke = async |org: &str, token: &str| {
        let url = format!("{}/orgs/{org}/oauth/revoke", api.url);
        let response = api.http.post(url).form(&[("token", token)]).send().await.unwrap();
        assert_eq!(response.headers()["cache-control"], "no-store");
        response.status().as_u16()
    };
    assert_eq!(
        revoke(&api.theirs.id, &one).await,
        200,
        "the answer to a foreign token is the same"
    );
    assert_eq!(whoami(&api, &one).await.0, 200);
    assert_eq!(revoke("our-org", &one).await, 200);
    assert_eq!(whoami(&api, &one).await.0, 401);
    assert_eq!(whoami(&api, &other).await.0, 200);
    for again in [one.as_str(), "x", "cya_"] {
        assert_eq!(revoke("our-org", again).await, 200);
    }
    assert_eq!(
        revoke("our-org", &api.ours.viewer).await,
        400,
        "an API token is the administrators'"
    );
    assert_eq!(whoami(&api, &api.ours.viewer).await.0, 200);
    assert!(api.audit().await.iter().any(|record| record.contains("person.sign_out")));
}

#[tokio::test]
async fn a_name_stays_with_what_a_person_did_after_the_provider_and_the_token_are_gone() {
    let api = Api::start().await;
    api.furnish().await;
    let foreign = Foreign::new(&api);
    api.make("/identity-providers", company(&foreign).await).await;
    let ada = signed_in(&api, &foreign, "ada", &["platform"]).await;
    let (status, runner) =
        api.call_as(&ada, Method::POST, "/runners", Some(&local_runner("of-ada"))).await;
    assert_eq!(status, 201, "{runner}");
    let token = json!({ "role": "admin", "description": "the deploy robot" });
    let robot = api.make("/tokens", token).await;
    let secret = robot["secret"].as_str().unwrap();
    let body = json!({ "id": "by-robot" });
    assert_eq!(api.call_as(secret, Method::POST, "/projects", Some(&body)).await.0, 201);
    api.delete("/identity-providers/company").await;
    assert_eq!(api.delete(&format!("/tokens/{}", robot["id"].as_str().unwrap())).await.0, 204);
    let (_, records) = api.get("/audit-records").await;
    let name_of = |action: &str, subject: &str| {
        let mut records = records["items"].as_array().unwrap().iter();
        let found = records.find(|it| it["action"] == action && it["subject"] == subject);
        found.unwrap_or_else(|| panic!("{action} {subject}: {records:?}"))["by_name"].clone()
    };
    assert_eq!(name_of("runner.create", "runners/of-ada"), "ada@example.com");
    assert_eq!(name_of("project.create", "projects/by-robot"), "the deploy robot");
}

#[tokio::test]
async fn the_ways_to_sign_in_are_told_to_strangers_without_rules_and_keys() {
    let api = Api::start().await;
    let foreign = Foreign::new(&api);
    api.make("/identity-providers", company(&foreign).await).await;
    let choices = async |org: &str| {
        api.send(Method::GET, &format!("/orgs/{org}/oauth/providers"), None, None).await
    };
    let expected = json!({ "items": [{
        "id": "company",
        "description": "",
        "issuer": URL,
        "client_id": CLIENT,
        "scopes": ["openid", "profile", "email"],
    }] });
    assert_eq!(choices("our-org").await, (200, expected));
    let none = choices(&api.theirs.id).await;
    assert_eq!(none, (200, json!({ "items": [] })));
    assert_eq!(choices("no-such-org").await, none, "nothing tells which organizations exist");
    let answer = choices("A%20B").await;
    assert!(answer.0 == 200 || message(&answer).contains("id"), "{answer:?}");
}
