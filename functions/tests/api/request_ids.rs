//! Each request has one id: in the answer, in the body of a refusal, and in each line of the log.

use crate::agent_world::{Key, far_away, open, opening, order, say, token};
use crate::harness::Api;
use crate::job::{raw, request};
use canyon_api::nonce::{ANSWER_NONCE_HEADER, NONCE_HEADER, REPEATED};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::io::Write;
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn an_answer_names_its_request_and_a_refusal_does_so_in_its_body_too() {
    let api = Api::start().await;
    let ask = async |path: &str, id: Option<&str>| {
        let mut request = request(&api, &api.ours.viewer, Method::GET, path);
        if let Some(id) = id {
            request = request.header("x-request-id", id);
        }
        let answer = raw(request).await;
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        let told = body["request_id"].as_str().map(str::to_owned);
        (answer.status, answer.headers["x-request-id"].to_str().unwrap().to_owned(), told)
    };
    let (status, first, told) = ask("/projects", None).await;
    assert!(status == 200 && first.parse::<uuid::Uuid>().is_ok() && told.is_none(), "{first}");
    let (status, second, told) = ask("/projects/none", None).await;
    assert_eq!((status, told.as_ref()), (404, Some(&second)));
    assert_ne!(first, second);
    // The caller's own id is kept, if it is safe in a log.
    let (_, brought, told) = ask("/projects/none", Some("JKJaXmPLvHcESHA=")).await;
    assert_eq!((brought.as_str(), told), ("JKJaXmPLvHcESHA=", Some(brought.clone())));
    for bad in ["", "a b", "a\"b", "<b>", &"a".repeat(129)] {
        let (_, id, _) = ask("/projects/none", Some(bad)).await;
        assert!(id.parse::<uuid::Uuid>().is_ok(), "{id}");
    }
    // An unknown path, and an unsupported method.
    for (method, path, expected) in
        [(Method::GET, "/no/such/path", 404), (Method::PATCH, "/projects", 405)]
    {
        let answer = raw(request(&api, &api.ours.viewer, method, path)).await;
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer.status, expected);
        assert_eq!(body["request_id"], answer.headers["x-request-id"].to_str().unwrap());
    }
}

#[tokio::test]
async fn every_answer_repeats_the_word_of_its_request() {
    let api = Api::start().await;
    let ask = async |token: &str, method, path: &str, word: &'static str| {
        let asked = request(&api, token, method, path).header(NONCE_HEADER, word);
        let answer = raw(asked).await;
        (
            answer.status,
            answer.headers.get(ANSWER_NONCE_HEADER).map(|it| it.to_str().unwrap().to_owned()),
        )
    };
    let viewer = api.ours.viewer.clone();
    for (token, method, path, status) in [
        (viewer.as_str(), Method::GET, "/projects", 200),
        (&viewer, Method::GET, "/projects/none", 404),
        (&viewer, Method::GET, "/no/such/path", 404),
        (&viewer, Method::PATCH, "/projects", 405),
        (&viewer, Method::POST, "/projects", 400),
        ("cya_no-good-token", Method::POST, "/agents/a/sessions/1/take", 401),
    ] {
        let word = "a-Word_1";
        assert_eq!(ask(token, method, path, word).await, (status, Some(word.to_owned())), "{path}");
    }
    for bad in ["", "a b", "a.b", "<b>"] {
        assert_eq!(ask(&viewer, Method::GET, "/projects", bad).await, (200, None), "{bad}");
    }
}

#[tokio::test]
async fn a_change_that_a_network_repeats_late_undoes_no_later_one() {
    let api = Api::start().await;
    api.furnish().await;
    api.make("/projects/shop/envs", json!({ "id": "main", "env_type_id": "dev" })).await;
    let change = async |token: &str, word: &'static str, allowed: Value| {
        let path = "/projects/shop/envs/main";
        let body = json!({ "deletion_protection": allowed });
        let asked =
            request(&api, token, Method::PATCH, path).header(NONCE_HEADER, word).json(&body);
        let answer = raw(asked).await;
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        (answer.status, body["details"]["code"].clone(), body["deletion_protection"].clone())
    };
    let (admin, none) = (api.ours.admin.clone(), json!({ "max_deletions": 0 }));
    assert_eq!(change(&admin, "first", Value::Null).await.0, 200);
    assert_eq!(change(&admin, "second", none.clone()).await, (200, Value::Null, none.clone()));
    for word in ["first", "second"] {
        let refused = change(&admin, word, Value::Null).await;
        assert_eq!(refused, (409, json!(REPEATED), Value::Null), "{word}");
    }
    let found = api.get("/projects/shop/envs/main").await.1;
    assert_eq!(found["deletion_protection"], none);
    // Idempotent requests: the second answer equals the first.
    let (bytes, digest) = (b"archive".to_vec(), hex::encode(Sha256::digest(b"archive")));
    for _ in 0..2 {
        let path = format!("/archives/{digest}");
        let upload = request(&api, &admin, Method::PUT, &path).header(NONCE_HEADER, "upload");
        assert_eq!(raw(upload.body(bytes.clone())).await.status, 204);
    }
    // A nonce belongs to its caller, and a request that only reads may be repeated.
    let other = api.ours.deployer.clone();
    assert_eq!(change(&other, "first", Value::Null).await.0, 403);
    for _ in 0..2 {
        let read = request(&api, &admin, Method::GET, "/projects").header(NONCE_HEADER, "first");
        assert_eq!(raw(read).await.status, 200);
    }
}

#[tokio::test]
async fn the_log_has_one_line_for_a_request_with_its_route_and_nothing_that_may_be_secret() {
    let log = Log::of_this_process();
    let api = Api::start().await;
    let path = "/projects/shop?page=very-secret-query";
    let call = request(&api, &api.ours.viewer, Method::GET, path);
    assert_eq!(raw(call.header("x-request-id", "my-request")).await.status, 404);
    let lines = log.lines_about("my-request");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let (fields, span) = (&lines[0]["fields"], &lines[0]["span"]);
    assert_eq!(
        (fields["message"].as_str(), fields["status"].as_u64()),
        (Some("answered"), Some(404))
    );
    assert!(fields["duration_ms"].as_f64().unwrap() > 0.0, "{fields}");
    assert_eq!(span["method"], "GET");
    assert_eq!(span["path"], "/orgs/{orgId}/projects/{projectId}");
    assert_eq!(span["organization"], "our-org");

    // A caller without a valid token belongs to no organization, whatever the path says.
    let call = request(&api, "cya_no-good-token", Method::GET, "/projects");
    assert_eq!(raw(call.header("x-request-id", "not-known")).await.status, 401);
    let lines = log.lines_about("not-known");
    assert_eq!((lines.len(), &lines[0]["span"]["organization"]), (1, &Value::Null));

    let mut secrets = said_by_and_to_agents().await;
    secrets.extend(["very-secret-query", "no-good-token", &api.ours.viewer].map(str::to_owned));
    let all = log.text();
    assert!(all.contains("refused a sign-in"), "it is the log of these requests too");
    for secret in secrets {
        assert!(!all.contains(&secret), "{secret}");
    }
}

/// An agent takes a job, another one shows its key, and a sign-in is refused. These parts of the requests and answers
/// are secret.
async fn said_by_and_to_agents() -> Vec<String> {
    let api = far_away().await;
    let own = token(&api, json!({})).await;
    let session = open(&api, &own, "berlin", "a").await;
    let path = |what: &str| format!("berlin/sessions/{session}/{what}");
    let (claim_code, job) = order(&api).await;
    say(&api, &own, &path("poll"), json!({ "running": 0, "wait_seconds": 0 })).await;
    let answer = say(&api, &own, &path("take"), json!({ "jobs": [job] })).await.1;
    assert_eq!(answer["taken"][0]["environment"]["CANYON_CLAIM_CODE"], claim_code);

    let key = Key::new();
    let (signed, shown) = (key.token(&api, "boston"), key.token(&api, "boston"));
    let mut body = opening("b");
    body["public_key"] = json!(key.pem());
    assert_eq!(say(&api, &signed, "boston/sessions", body).await.0, 202);

    let policy = json!({
        "issuer": "https://issuer.example.com", "audience": "canyon", "bound_claims": { "sub": "x" },
    });
    let account = json!({ "id": "ci", "role": "viewer", "trust_policies": [policy] });
    api.make("/service-accounts", account).await;
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt"),
        ("subject_token", &shown),
        ("service_account", "ci"),
    ];
    let url = format!("{}/orgs/our-org/oauth/token", api.url);
    assert_eq!(api.http.post(url).form(&form).send().await.unwrap().status(), 400);
    // The signed text reveals nothing without its signature.
    let signature = |token: &str| token.rsplit('.').next().unwrap().to_owned();
    vec![own, claim_code, signature(&signed), signature(&shown)]
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// The log of all concurrent tests: a subscriber for a single thread may miss callsites that other threads register
    /// first.
    fn of_this_process() -> Self {
        let log = Self::default();
        let writer = log.clone();
        tracing_subscriber::fmt().json().with_writer(move || writer.clone()).init();
        log
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines of our requests.
    fn lines_about(&self, id: &str) -> Vec<Value> {
        let lines = self.text();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["span"]["request_id"] == id).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
