//! External checks of plans, by a real service on loopback that trusts nothing but the keys that Canyon publishes; on the laptop and on
//! the functions.

use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::module::inline;
use crate::harness::site::{ENV, PROJECT, Site};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use canyon_api::deployment::Deployment;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const LIMIT: Duration = Duration::from_mins(3);
const ONE: &str = "resource \"terraform_data\" \"a\" { input = 1 }";

/// The service: the last part of an address says how it answers.
#[derive(Clone)]
struct Service {
    /// Its own address.
    url: String,
    /// Canyon's.
    canyon: String,
    /// The requests with a valid signature, as path and body.
    received: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Service {
    /// Starts a service that trusts the Canyon of `site`.
    async fn trusting(site: &Site) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = Self { url, canyon: site.server.url(), received: Arc::default() };
        let router = Router::new().route("/{how}", post(receive)).with_state(service.clone());
        // It ends with the test's runtime.
        tokio::spawn(async move { axum::serve(listener, router).await });
        service
    }

    /// A check whose service answers in this way.
    fn check(&self, how: &str) -> Value {
        json!({ "id": how, "url": format!("{}/{how}", self.url) })
    }

    fn received(&self) -> Vec<(String, Value)> {
        self.received.lock().unwrap().clone()
    }

    /// The claims of a token, if Canyon has signed it for this address.
    async fn verified(&self, token: &str, audience: &str) -> Value {
        let get =
            async |url: String| -> Value { reqwest::get(url).await.unwrap().json().await.unwrap() };
        let known = get(format!("{}/.well-known/openid-configuration", self.canyon)).await;
        let keys = get(known["jwks_uri"].as_str().unwrap().to_owned()).await;
        let keys: JwkSet = serde_json::from_value(keys).unwrap();
        let kid = decode_header(token).unwrap().kid.unwrap();
        let key = DecodingKey::from_jwk(keys.find(&kid).unwrap()).unwrap();
        let mut validation = Validation::new(Algorithm::RS256);
        validation.set_audience(&[audience]);
        validation.set_issuer(&[known["issuer"].as_str().unwrap()]);
        validation.set_required_spec_claims(&["exp", "nbf", "aud", "iss", "sub"]);
        decode::<Value>(token, &key, &validation).unwrap().claims
    }
}

async fn receive(
    State(service): State<Service>,
    Path(how): Path<String>,
    headers: HeaderMap,
    body: String,
) -> StatusCode {
    let token = headers["authorization"].to_str().unwrap().strip_prefix("Bearer ").unwrap();
    let claims = service.verified(token, &format!("{}/{how}", service.url)).await;
    assert_eq!(claims["body_sha256"], hex::encode(Sha256::digest(&body)));
    let request: Value = serde_json::from_str(&body).unwrap();
    let earlier = service.received().iter().filter(|(known, _)| *known == how).count();
    service.received.lock().unwrap().push((how.clone(), request.clone()));
    let answer = match how.as_str() {
        "down" if earlier < 2 => return StatusCode::SERVICE_UNAVAILABLE,
        "passes" | "down" => json!({
            "status": "passed", "message": "0 findings", "url": "https://checks.example.com/runs/7",
        }),
        "fails" => json!({ "status": "failed", "message": "a bucket is public" }),
        // It never answers, or the test answers for it.
        _ => return StatusCode::ACCEPTED,
    };
    tokio::spawn(async move { assert_eq!(answer_to(&request, &answer).await, 200) });
    StatusCode::ACCEPTED
}

/// Answers a request, as the service does later. Returns the status of Canyon's answer.
async fn answer_to(request: &Value, answer: &Value) -> u16 {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let sent = client
        .put(request["callback_url"].as_str().unwrap())
        .bearer_auth(request["token"].as_str().unwrap())
        .json(answer);
    sent.send().await.unwrap().status().as_u16()
}

/// Lets each plan of the site's environment that changes something wait for these checks, and for `count` people.
async fn guard(site: &Site, count: u8, checks: &[Value]) {
    let rule = json!({ "required": "changes", "count": count, "checks": checks });
    let path = ["projects", PROJECT, "envs", ENV];
    site.client.update(&path, &json!({ "approval": rule })).await.unwrap();
}

async fn deploy(site: &Site) -> String {
    site.accept(&request(ENV, Some(inline(ONE.to_owned())))).await
}

/// Waits until the service has received a request for the check.
async fn requested(service: &Service, check: &str) -> Value {
    let begun = Instant::now();
    loop {
        let found = service.received().into_iter().find(|(how, _)| how == check);
        if let Some((_, request)) = found {
            return request;
        }
        assert!(begun.elapsed() < LIMIT, "no request for `{check}`");
        sleep(Duration::from_millis(50)).await;
    }
}

fn status_of(deployment: &Deployment, check: &str) -> String {
    let checks = &deployment.approval.as_ref().unwrap().checks;
    checks.iter().find(|found| found.id == check).unwrap().status.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_applied_when_its_mandatory_checks_have_passed_without_a_person() {
    let site = Site::new().await;
    let service = Service::trusting(&site).await;
    let mut advisory = service.check("fails");
    advisory["mandatory"] = false.into();
    guard(&site, 0, &[service.check("passes"), service.check("down"), advisory]).await;
    let id = deploy(&site).await;
    let ended = site.end(&id).await;
    assert_succeeded(&ended);
    assert_eq!(ended.attempts.len(), 2, "one job has planned, and another one has applied");
    for (check, status) in [("passes", "passed"), ("down", "passed")] {
        assert_eq!(status_of(&ended, check), status, "{ended:#?}");
    }
    let shown = site.server.canyon(&["get", "deployment", &id, "--out", "json"]).done().to_owned();
    assert!(shown.contains("https://checks.example.com/runs/7"), "{shown}");
    let request = requested(&service, "passes").await;
    let digest = ended.plan.unwrap().digest;
    assert_eq!(
        (&request["type"], &request["plan_digest"], &request["summary"]["add"]),
        (&json!("plan.check"), &json!(digest), &json!(1))
    );
    assert_eq!(
        (&request["project"], &request["environment"], &request["check"]),
        (&json!(PROJECT), &json!(ENV), &json!("passes"))
    );
    let audit = site.server.canyon(&["list", "audit", "--out", "json"]).done().to_owned();
    assert!(audit.contains("deployment.check") && audit.contains("check passes"), "{audit}");
    // The same module again changes nothing, so nothing is checked.
    let before = service.received().len();
    let again = request_again();
    assert_succeeded(&site.run(&again).await);
    assert_eq!(service.received().len(), before);
}

fn request_again() -> canyon_api::deployment::DeploymentCreateBody {
    request(ENV, Some(inline(ONE.to_owned())))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mandatory_check_that_fails_ends_the_deployment_and_nothing_is_changed() {
    let site = Site::new().await;
    let service = Service::trusting(&site).await;
    guard(&site, 1, &[service.check("fails")]).await;
    let ended = site.end(&deploy(&site).await).await;
    assert_eq!(
        (ended.status.as_str(), ended.status_message.as_str()),
        ("cancelled", "the check `fails` of its plan has failed: a bucket is public")
    );
    assert_eq!((status_of(&ended, "fails"), ended.attempts.len()), ("failed".to_owned(), 1));
    assert!(site.state(ENV).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mandatory_check_without_an_answer_ends_the_deployment_after_its_time() {
    let site = Site::new().await;
    let service = Service::trusting(&site).await;
    let mut silent = service.check("silent");
    silent["timeout_seconds"] = 30.into();
    guard(&site, 1, &[silent]).await;
    let ended = site.end(&deploy(&site).await).await;
    assert_eq!(
        (ended.status.as_str(), ended.status_message.as_str()),
        (
            "cancelled",
            "the check `silent` of its plan has failed: its service has not answered within 30 s"
        )
    );
    let request = requested(&service, "silent").await;
    let late = answer_to(&request, &json!({ "status": "passed" })).await;
    assert_eq!(late, 409, "an answer after the end");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_after_a_restart_of_canyon_counts_together_with_the_approval_before_it() {
    let mut site = Site::new().await;
    let service = Service::trusting(&site).await;
    guard(&site, 1, &[service.check("later")]).await;
    let id = deploy(&site).await;
    let request = requested(&service, "later").await;
    let running = json!({ "status": "running", "message": "in the queue" });
    assert_eq!(answer_to(&request, &running).await, 200);
    let made = json!({ "role": "deployer", "description": "bob" });
    let bob = site.make(&["tokens"], &made).await["secret"].as_str().unwrap().to_owned();
    let listed = site.server.canyon(&["list", "approvals"]).done().to_owned();
    assert!(listed.contains("later: running"), "{listed}");
    let digest = request["plan_digest"].as_str().unwrap();
    let approve = ["approve", &id, "--plan-digest", digest];
    site.server.canyon_with(&approve, "", &[("CANYON_TOKEN", &bob)]).done();
    site.server.kill();
    site.server.restart().await;
    let waits = site.client.deployment(&id).await.unwrap();
    assert_eq!(waits.waiting.as_ref().unwrap().code, "approval", "{waits:#?}");
    assert_eq!(answer_to(&request, &json!({ "status": "passed" })).await, 200);
    assert_succeeded(&site.end(&id).await);
}
