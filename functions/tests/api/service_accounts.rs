//! Service accounts: administrators create them, and callers sign in with tokens of a trusted issuer.

use crate::foreign::{Foreign, URL};
use crate::harness::{Api, faults, local_runner, message, settled};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) const AUDIENCE: &str = "canyon-our-org";
pub(crate) const SUBJECT: &str = "system:serviceaccount:canyon:agent";
pub(crate) const GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
pub(crate) const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

pub(crate) async fn exchange(api: &Api, org: &str, form: &[(&str, &str)]) -> (u16, Value) {
    let url = format!("{}/orgs/{org}/oauth/token", api.url);
    let response = api.http.post(url).form(form).send().await.unwrap();
    assert_eq!(response.headers()["cache-control"], "no-store");
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn sign_in(api: &Api, account: &str, token: &str) -> (u16, Value) {
    let form = [
        ("grant_type", GRANT),
        ("subject_token_type", JWT),
        ("subject_token", token),
        ("service_account", account),
    ];
    exchange(api, "our-org", &form).await
}

pub(crate) async fn signed_in(api: &Api, account: &str, token: &str) -> String {
    let (status, answer) = sign_in(api, account, token).await;
    assert_eq!(status, 200, "{answer}");
    answer["access_token"].as_str().unwrap().to_owned()
}

async fn may_read(api: &Api, token: &str) -> bool {
    api.call_as(token, Method::GET, "/projects", None).await.0 == 200
}

#[tokio::test]
async fn a_service_account_is_made_read_changed_listed_and_deleted() {
    let api = Api::start().await;
    let policy = json!({
        "issuer": URL,
        "audience": AUDIENCE,
        "bound_claims_type": "GLOB",
        "bound_claims": { "sub": "repo:acme/*:ref:refs/heads/main", "ref": ["refs/heads/main", "x"] },
    });
    let body = json!({ "id": "ci", "role": "deployer", "trust_policies": [policy] });
    let made = api.make("/service-accounts", body.clone()).await;
    insta::assert_snapshot!(settled(&made), @r#"
    {
      "created_at": "[time]",
      "description": "",
      "id": "ci",
      "org_id": "our-org",
      "role": "deployer",
      "trust_policies": [
        {
          "audience": "canyon-our-org",
          "bound_claims": {
            "ref": [
              "refs/heads/main",
              "x"
            ],
            "sub": "repo:acme/*:ref:refs/heads/main"
          },
          "bound_claims_type": "GLOB",
          "issuer": "https://issuer.example.com"
        }
      ],
      "updated_at": "[time]",
      "uuid": "[uuid]"
    }
    "#);
    assert_eq!(api.get("/service-accounts/ci").await, (200, made.clone()));
    let (status, again) = api.post("/service-accounts", body).await;
    assert_eq!(status, 409, "{again}");
    let change = json!({ "description": "builds", "role": "viewer" });
    let (status, changed) = api.patch("/service-accounts/ci", change).await;
    assert_eq!((status, &changed["description"]), (200, &json!("builds")), "{changed}");
    assert_eq!(changed["trust_policies"], made["trust_policies"]);
    assert_eq!(api.get("/service-accounts").await, (200, json!({ "items": [changed] })));
    assert_eq!(api.delete("/service-accounts/ci").await, (204, json!(null)));
    assert_eq!(api.get("/service-accounts/ci").await.0, 404);
    let written = ["delete", "update", "create"];
    let written = written.map(|verb| format!("service_account.{verb} service-accounts/ci"));
    assert_eq!(api.audit().await[..3], written);
}

#[tokio::test]
async fn a_trust_policy_that_would_admit_others_is_refused_with_its_path() {
    let api = Api::start().await;
    api.make("/runners", local_runner("here")).await;
    let with = |name: &str, value: Value| {
        let mut policy = json!({
            "issuer": URL, "audience": AUDIENCE, "bound_claims": { "sub": SUBJECT },
        });
        policy[name] = value;
        json!({ "id": "ci", "role": "deployer", "trust_policies": [policy] })
    };
    let and = |name: &str, value: Value| {
        let mut body = with("audience", json!(AUDIENCE));
        body[name] = value;
        body
    };
    let glob = |subject: &str| {
        let mut body = with("bound_claims", json!({ "sub": subject }));
        body["trust_policies"][0]["bound_claims_type"] = json!("GLOB");
        body
    };
    let private = json!({ "keys": [{ "kty": "oct", "k": "AAAA" }] });
    let mut deep = Foreign::new(&api).policy().await["jwks"].clone();
    deep["keys"][0]["more"] = (0..30).fold(json!(1), |inner, _| json!([inner]));
    let cases = [
        (with("issuer", json!("http://issuer.example.com")), "trust_policies[0].issuer"),
        (with("issuer", json!("https://169.254.169.254")), "trust_policies[0].issuer"),
        (with("audience", json!("")), "trust_policies[0].audience"),
        (with("audience", json!(["a"])), "trust_policies[0].audience"),
        (with("bound_claims", json!({})), "trust_policies[0].bound_claims"),
        (with("bound_claims", json!({ "sub": "a*" })), "trust_policies[0].bound_claims.sub"),
        (glob("repo:*"), "trust_policies[0].bound_claims.sub"),
        (glob("repo:acme-corp*"), "trust_policies[0].bound_claims.sub"),
        (with("bound_claims", json!({ "sub": 1 })), "trust_policies[0].bound_claims.sub"),
        (with("bound_claims", json!({ "sub": [] })), "trust_policies[0].bound_claims.sub"),
        (with("bound_claims_type", json!("REGEX")), "trust_policies[0].bound_claims_type"),
        (with("jwks", json!({})), "trust_policies[0].jwks"),
        (with("jwks", private), "trust_policies[0].jwks"),
        (with("jwks", deep), "trust_policies[0].jwks"),
        (with("jwks", json!({ "keys": [] })), "trust_policies[0].jwks"),
        (with("jwks_uri", json!("https://a.com")), "trust_policies[0].jwks_uri"),
        (and("trust_policies", json!([])), "trust_policies"),
        (and("role", json!("owner")), "role"),
        (and("runner_id", json!("here")), "runner_id"),
        (and("id", json!("CI")), "id"),
    ];
    let kept = api.make("/service-accounts", and("id", json!("kept"))).await;
    for (body, path) in cases {
        let answer = api.post("/service-accounts", body.clone()).await;
        assert_eq!((answer.0, faults(&answer)), (400, vec![path]), "{body}\n{}", answer.1);
        if path.starts_with("trust_policies") {
            let change = json!({ "description": "x", "trust_policies": body["trust_policies"] });
            let answer = api.patch("/service-accounts/kept", change).await;
            assert_eq!((answer.0, faults(&answer)), (400, vec![path]), "{body}\n{}", answer.1);
        }
    }
    assert_eq!(api.get("/service-accounts/kept").await, (200, kept));
    let mut agent = and("role", json!("agent"));
    agent["runner_id"] = json!("nowhere");
    let answer = api.post("/service-accounts", agent.clone()).await;
    assert_eq!((answer.0, faults(&answer)), (400, vec!["runner_id"]));
    agent["runner_id"] = json!("here");
    api.make("/service-accounts", agent).await;
    for token in [&api.ours.viewer, &api.ours.deployer] {
        let body = and("id", json!("mine"));
        let answer = api.call_as(token, Method::POST, "/service-accounts", Some(&body)).await;
        assert_eq!(answer.0, 403);
    }
}

#[tokio::test]
async fn who_shows_a_trusted_token_is_the_service_account_for_a_quarter_of_an_hour() {
    let api = Api::start().await;
    let foreign = Foreign::new(&api);
    let policies = json!([with_issuer("https://other.example.com"), foreign.policy().await]);
    let body = json!({ "id": "ci", "role": "deployer", "trust_policies": policies });
    let account = api.make("/service-accounts", body).await;
    let token = foreign.token(SUBJECT, AUDIENCE).await;
    let (status, answer) = sign_in(&api, "ci", &token).await;
    assert_eq!(status, 200, "{answer}");
    let told = ["issued_token_type", "token_type", "expires_in"].map(|name| &answer[name]);
    let kind = json!("urn:ietf:params:oauth:token-type:access_token");
    assert_eq!(told, [&kind, &json!("Bearer"), &json!(900)]);
    let ours = answer["access_token"].as_str().unwrap();
    assert!(may_read(&api, ours).await);
    let made = api.call_as(ours, Method::POST, "/projects", Some(&json!({ "id": "shop" }))).await;
    assert_eq!(made.0, 403, "it is a deployer and no more");
    let theirs = format!("/orgs/{}/projects", api.theirs.id);
    assert_eq!(api.send(Method::GET, &theirs, Some(ours), None).await.0, 404);
    let (_, records) = api.get("/audit-records").await;
    let record = &records["items"][0];
    let said = ["action", "subject", "by", "by_right"].map(|name| record[name].clone());
    let expected = [
        json!("service_account.sign_in"),
        json!("service-accounts/ci"),
        account["uuid"].clone(),
        json!("trust_policies[1] of version 1"),
    ];
    assert_eq!(said, expected);
    let (_, tokens) = api.get("/tokens").await;
    assert!(!tokens.to_string().contains("ci"), "it stands in no list: {tokens}");
    api.clock.advance(Duration::from_secs(899));
    assert!(may_read(&api, ours).await);
    api.clock.advance(Duration::from_secs(1));
    assert!(!may_read(&api, ours).await);
}

fn with_issuer(issuer: &str) -> Value {
    json!({ "issuer": issuer, "audience": AUDIENCE, "bound_claims": { "sub": SUBJECT } })
}

#[tokio::test]
async fn a_token_ends_within_5_s_of_a_change_of_its_service_account_wherever_that_was_made() {
    let mut api = Api::start().await;
    let foreign = Foreign::new(&api);
    let policies = json!([foreign.policy().await]);
    let body = json!({ "id": "ci", "role": "viewer", "trust_policies": policies });
    let theirs = foreign.token(SUBJECT, AUDIENCE).await;
    for (method, change) in [
        (Method::PATCH, Some(json!({ "description": "other" }))),
        (
            Method::PATCH,
            Some(json!({ "trust_policies": [with_issuer("https://other.example.com")] })),
        ),
        (Method::DELETE, None),
    ] {
        if api.get("/service-accounts/ci").await.0 == 404 {
            api.make("/service-accounts", body.clone()).await;
        }
        api.patch("/service-accounts/ci", json!({ "trust_policies": policies })).await;
        let ours = signed_in(&api, "ci", &theirs).await;
        assert!(may_read(&api, &ours).await);
        // Another process, whose cache is empty and is not cleared by the first one.
        let here = api.url.clone();
        let anew = |mut app: canyon_functions::App| {
            app.authenticated = canyon_functions::app::authentication::RecentTokens::default();
            app
        };
        api.serve_again(anew, &canyon_functions::http::HttpSettings::default()).await;
        let path = "/service-accounts/ci";
        let done = api.call_as(&api.ours.admin, method.clone(), path, change.as_ref()).await;
        assert!(done.0 < 300, "{}", done.1);
        assert!(!may_read(&api, &ours).await, "not where it was changed: {method}");
        api.url = here;
        api.clock.advance(Duration::from_secs(5));
        assert!(!may_read(&api, &ours).await, "and nowhere else after 5 s: {method}");
    }
    // A new account with the same name and the same version is a different account.
    api.make("/service-accounts", body.clone()).await;
    let ours = signed_in(&api, "ci", &theirs).await;
    api.delete("/service-accounts/ci").await;
    api.make("/service-accounts", body).await;
    assert!(!may_read(&api, &ours).await);
}

#[tokio::test]
async fn an_agent_signs_in_and_reads_nothing_that_people_read() {
    let api = Api::start().await;
    let foreign = Foreign::new(&api);
    let policies = json!([foreign.policy().await]);
    let account = json!({ "id": "a1", "role": "agent", "trust_policies": policies });
    api.make("/service-accounts", account).await;
    let ours = signed_in(&api, "a1", &foreign.token(SUBJECT, AUDIENCE).await).await;
    for path in ["/projects", "/runners", "/service-accounts", "/audit-records", "/deployments"] {
        assert_eq!(api.call_as(&ours, Method::GET, path, None).await.0, 403, "{path}");
    }
}

#[tokio::test]
async fn a_sender_learns_nothing_before_its_tokens_signature_is_good() {
    let api = Api::start().await;
    let foreign = Foreign::new(&api);
    let stranger = Foreign::new(&api);
    let policies = json!([foreign.policy().await]);
    let account = json!({ "id": "ci", "role": "viewer", "trust_policies": policies });
    api.make("/service-accounts", account).await;
    let good = foreign.token(SUBJECT, AUDIENCE).await;
    let before = api.audit().await;
    let forged = stranger.token(SUBJECT, AUDIENCE).await;
    let cut = &good[..good.len() - 4];
    let mut refusals = Vec::new();
    for (org, account, token) in [
        ("our-org", "ci", forged.as_str()),
        ("our-org", "ci", cut),
        ("our-org", "ci", "x"),
        ("our-org", "ci", "a.b.c"),
        ("our-org", "no-such-account", &good),
        ("our-org", "../ci", &good),
        ("their-org", "ci", &good),
        ("no-org", "ci", &good),
    ] {
        let form = [
            ("grant_type", GRANT),
            ("subject_token_type", JWT),
            ("subject_token", token),
            ("service_account", account),
        ];
        let (status, mut answer) = exchange(&api, org, &form).await;
        assert_eq!((status, &answer["error"]), (400, &json!("invalid_grant")), "{answer}");
        answer.as_object_mut().unwrap().remove("request_id");
        refusals.push(answer);
    }
    refusals.dedup();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    // From here on the token has proved that its issuer signed it.
    for (token, reason) in [
        (foreign.token("system:serviceaccount:canyon:agent-2", AUDIENCE).await, "claim `sub`"),
        (foreign.token(SUBJECT, "canyon-their-org").await, "`aud`"),
    ] {
        let answer = sign_in(&api, "ci", &token).await;
        assert_eq!(answer.0, 400);
        assert!(message(&answer).contains(reason), "{}", answer.1);
        assert!(!answer.1.to_string().contains(SUBJECT), "what the policy wants stays unsaid");
    }
    api.clock.advance(Duration::from_mins(12));
    let answer = sign_in(&api, "ci", &good).await;
    assert!(message(&answer).contains("expired"), "{}", answer.1);
    assert_eq!(api.audit().await, before, "nothing was changed");
}

#[tokio::test]
async fn a_form_that_is_not_that_of_an_exchange_is_refused_in_the_words_of_oauth() {
    let api = Api::start().await;
    let foreign = Foreign::new(&api);
    let policies = json!([foreign.policy().await]);
    let account = json!({ "id": "ci", "role": "viewer", "trust_policies": policies });
    api.make("/service-accounts", account).await;
    let token = foreign.token(SUBJECT, AUDIENCE).await;
    let good = [
        ("grant_type", GRANT),
        ("subject_token_type", JWT),
        ("subject_token", token.as_str()),
        ("service_account", "ci"),
    ];
    let changed = |name: &'static str, value: &'static str| {
        good.into_iter()
            .filter(move |(it, _)| *it != name)
            .chain([(name, value)])
            .collect::<Vec<_>>()
    };
    let twice = good.into_iter().chain([("subject_token", "a.b.c")]).collect();
    let long: &'static str = Box::leak("x".repeat(40_000).into_boxed_str());
    for (form, status, error) in [
        (changed("grant_type", "client_credentials"), 400, "unsupported_grant_type"),
        (changed("grant_type", ""), 400, "invalid_request"),
        (changed("subject_token_type", "urn:x"), 400, "invalid_request"),
        (changed("subject_token", ""), 400, "invalid_request"),
        (changed("service_account", ""), 400, "invalid_request"),
        (changed("requested_token_type", "urn:x"), 400, "invalid_request"),
        (changed("actor_token", "x"), 400, "invalid_request"),
        (changed("scope", "admin"), 400, "invalid_scope"),
        (changed("resource", "https://a.com"), 400, "invalid_target"),
        (changed("subject_token", long), 413, "invalid_request"),
        (twice, 400, "invalid_request"),
    ] {
        let (was, answer) = exchange(&api, "our-org", &form).await;
        assert_eq!((was, &answer["error"]), (status, &json!(error)), "{form:?}: {answer}");
        assert_eq!(answer["error_description"], answer["message"]);
    }
    // They had no other fault; `audience` is accepted and ignored.
    for form in [good.to_vec(), changed("audience", "whatever")] {
        let (status, answer) = exchange(&api, "our-org", &form).await;
        assert_eq!(status, 200, "{form:?}: {answer}");
    }
    let path = "/orgs/our-org/oauth/token";
    let answer = api.send(Method::POST, path, None, Some(b"{}".to_vec())).await;
    assert_eq!(answer.0, 415);
}
