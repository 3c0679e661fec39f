//! On Lambda, large archives bypass the API: clients send them directly to the object store, at signed URLs. Here a
//! server on loopback acts as the store and enforces S3's rules; the tests of the store check the signatures of S3
//! itself.

use crate::harness::{Api, faults, message};
use crate::job::{Job, furnished, order, raw, request};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_api::archive::{MAX_ARCHIVE_BYTES, MAX_DIRECT_BYTES};
use canyon_api::client::{Client, ClientError};
use canyon_functions::http::HttpSettings;
use canyon_store::blob_keys::BlobKey;
use canyon_store::blobs::{Blobs, Put};
use canyon_store::url_signer::UrlSigner;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An object store that accepts no token, only URLs that were signed for exactly this request.
#[derive(Clone, Debug)]
struct Bucket {
    url: String,
    blobs: Blobs,
    org: canyon_domain::ids::OrgUuid,
    signed: Arc<Mutex<HashMap<String, (Method, HeaderMap)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

type Signed = Result<String, Box<dyn std::error::Error + Send + Sync>>;

impl UrlSigner for Bucket {
    fn sign<'a>(
        &'a self,
        method: Method,
        path: &'a object_store::path::Path,
        headers: HeaderMap,
        lifetime: Duration,
    ) -> std::pin::Pin<Box<dyn Future<Output = Signed> + Send + 'a>> {
        assert_eq!(lifetime, Duration::from_mins(5));
        let signature = uuid::Uuid::new_v4().to_string();
        self.signed.lock().unwrap().insert(signature.clone(), (method, headers));
        let address = format!("{}/{path}?signature={signature}", self.url);
        Box::pin(async move { Ok(address) })
    }
}

async fn serve(
    State(bucket): State<Bucket>,
    Path((_, _, digest)): Path<(String, String, String)>,
    Query(query): Query<HashMap<String, String>>,
    request: Request,
) -> (StatusCode, Bytes) {
    let refused = |why: &str| (StatusCode::FORBIDDEN, Bytes::from(why.to_owned()));
    bucket.asked.lock().unwrap().push(format!("{} {digest}", request.method()));
    // S3 refuses a request with two kinds of authorization. The token would also leak.
    if request.headers().contains_key("authorization") {
        return refused("a token came along");
    }
    let signed = bucket.signed.lock().unwrap().get(&query["signature"]).cloned();
    let Some((method, headers)) = signed else { return refused("no such signature") };
    if method != *request.method() {
        return refused("signed for another method");
    }
    if headers.iter().any(|(name, value)| request.headers().get(name) != Some(value)) {
        return refused("a signed header is not there");
    }
    let key = BlobKey::archive(bucket.org, &digest.parse().unwrap());
    if method == Method::GET {
        return (StatusCode::OK, bucket.blobs.get(&key).await.unwrap().unwrap());
    }
    let checksum = headers["x-amz-checksum-sha256"].clone();
    let bytes = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    if checksum != STANDARD.encode(Sha256::digest(&bytes)) {
        return (StatusCode::BAD_REQUEST, "BadDigest".into());
    }
    // As S3 with `if-none-match: *`.
    match bucket.blobs.put_if_absent(&key, bytes).await.unwrap() {
        Put::Stored => (StatusCode::OK, Bytes::new()),
        Put::AlreadyExists => (StatusCode::PRECONDITION_FAILED, "PreconditionFailed".into()),
    }
}

/// An API whose object store signs URLs, as on AWS.
async fn with_bucket() -> (Api, Bucket) {
    let mut api = furnished().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let bucket = Bucket {
        url: format!("http://{}", listener.local_addr().unwrap()),
        blobs: api.app.blobs.clone(),
        org: api.ours.uuid,
        signed: Arc::default(),
        asked: Arc::default(),
    };
    let router = Router::new().fallback_service(
        Router::new()
            .route("/{org}/{kind}/{digest}", axum::routing::any(serve))
            .layer(DefaultBodyLimit::disable())
            .with_state(bucket.clone()),
    );
    tokio::spawn(async move { axum::serve(listener, router).await });
    let signer = Arc::new(bucket.clone());
    let change = |mut app: canyon_functions::App| {
        app.blobs = app.blobs.with_signer(signer);
        app
    };
    api.serve_again(change, &HttpSettings::default()).await;
    (api, bucket)
}

fn client(api: &Api, token: &str) -> Client {
    Client::new(&api.url, &api.ours.id, token.to_owned().into()).unwrap()
}

fn archive(size: usize) -> (Bytes, String) {
    let bytes: Vec<u8> = (0..size).map(|n| n.to_le_bytes()[n % 3]).collect();
    let digest = hex::encode(Sha256::digest(&bytes));
    (bytes.into(), digest)
}

#[tokio::test]
async fn a_large_archive_reaches_the_run_past_the_api_and_no_token_leaves_it() {
    let (api, bucket) = with_bucket().await;
    let (bytes, digest) = archive(MAX_DIRECT_BYTES + 1);
    client(&api, &api.ours.deployer).put_archive(&digest, bytes.clone()).await.unwrap();
    assert_eq!(*bucket.asked.lock().unwrap(), [format!("PUT {digest}")]);

    let mut body = order();
    body["module"] = json!({ "source": format!("sha256:{digest}") });
    let made = api.make("/deployments", body).await;
    let job = Job::of(&api, made["id"].as_str().unwrap().to_owned()).await;
    let fetched = client(&api, &job.token).bundle(&job.id).await.unwrap();
    assert!(fetched == bytes);
    assert_eq!(bucket.asked.lock().unwrap()[1..], [format!("GET {digest}")]);
    // The answer contains the archive, so no cache may store it.
    let path = format!("/deployments/{}/bundle", job.id);
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let http = http.no_proxy().build().unwrap();
    let url = format!("{}/orgs/our-org{path}", api.url);
    let answer = raw(http.get(url).bearer_auth(&job.token)).await;
    assert_eq!((answer.status, answer.body.len()), (307, 0));
    assert_eq!(answer.headers["cache-control"], "no-store");
}

#[tokio::test]
async fn an_archive_that_the_object_store_has_already_counts_as_uploaded() {
    let (api, bucket) = with_bucket().await;
    let (bytes, digest) = archive(MAX_DIRECT_BYTES + 1);
    for _ in 0..2 {
        client(&api, &api.ours.deployer).put_archive(&digest, bytes.clone()).await.unwrap();
    }
    assert_eq!(*bucket.asked.lock().unwrap(), [format!("PUT {digest}"), format!("PUT {digest}")]);
    let signed = bucket.signed.lock().unwrap();
    assert!(signed.values().all(|(_, headers)| headers["if-none-match"] == "*"), "{signed:?}");
}

#[tokio::test]
async fn a_small_archive_goes_through_the_api_without_a_connection_to_the_object_store() {
    let (api, bucket) = with_bucket().await;
    let (bytes, digest) = archive(MAX_DIRECT_BYTES);
    client(&api, &api.ours.deployer).put_archive(&digest, bytes.clone()).await.unwrap();
    let mut body = order();
    body["module"] = json!({ "source": format!("sha256:{digest}") });
    let made = api.make("/deployments", body).await;
    let job = Job::of(&api, made["id"].as_str().unwrap().to_owned()).await;
    assert!(client(&api, &job.token).bundle(&job.id).await.unwrap() == bytes);
    assert_eq!(bucket.asked.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn an_address_takes_only_the_bytes_that_it_was_signed_for() {
    let (api, bucket) = with_bucket().await;
    let (_, digest) = archive(MAX_DIRECT_BYTES + 1);
    let (other, _) = archive(MAX_DIRECT_BYTES + 2);
    let refused = client(&api, &api.ours.deployer).put_archive(&digest, other).await.unwrap_err();
    assert!(matches!(refused, ClientError::ObjectStore { status: 400, .. }), "{refused:?}");
    let path = format!("/archives/{digest}");
    assert_eq!(api.get(&path).await.0, 404);

    let ask = async |token: &str, size: u64| {
        let path = format!("{path}/actions/upload-url");
        api.call_as(token, Method::POST, &path, Some(&json!({ "size_bytes": size }))).await
    };
    let signed = bucket.signed.lock().unwrap().len();
    assert_eq!(ask(&api.ours.viewer, 5_000_000).await.0, 403);
    assert_eq!(ask(&api.theirs.admin, 5_000_000).await.0, 404);
    assert_eq!(ask(&api.ours.deployer, MAX_ARCHIVE_BYTES as u64 + 1).await.0, 413);
    let empty = ask(&api.ours.deployer, 0).await;
    assert_eq!((empty.0, faults(&empty)), (400, vec!["size_bytes"]));
    assert_eq!(bucket.signed.lock().unwrap().len(), signed, "something was signed");
    let (status, answer) = ask(&api.ours.deployer, MAX_ARCHIVE_BYTES as u64).await;
    assert_eq!(status, 200, "{answer}");
    let until: jiff::Timestamp = answer["expires_at"].as_str().unwrap().parse().unwrap();
    let now = canyon_domain::ports::Clock::now(api.clock.as_ref());
    assert!(until > now && until < now + Duration::from_mins(6), "{until}");
}

#[tokio::test]
async fn an_archive_too_large_for_lambda_is_refused_with_the_alternative_and_a_laptop_accepts_it() {
    let (api, bucket) = with_bucket().await;
    let (bytes, digest) = archive(MAX_DIRECT_BYTES + 1);
    let path = format!("/archives/{digest}");
    let put = async |api: &Api| {
        let request = request(api, &api.ours.deployer, Method::PUT, &path);
        let answer = raw(request.body(bytes.clone())).await;
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
    };
    let refused = put(&api).await;
    assert_eq!(refused.0, 413);
    assert!(message(&refused).contains("actions/upload-url"), "{refused:?}");
    assert_eq!(bucket.asked.lock().unwrap().len(), 0);

    let laptop = Api::start().await;
    let asked = json!({ "size_bytes": bytes.len() });
    let refused = laptop.post(&format!("{path}/actions/upload-url"), asked).await;
    assert_eq!(refused.0, 409);
    assert_eq!(put(&laptop).await.0, 204);
    let (again, digest) = archive(MAX_DIRECT_BYTES + 3);
    client(&laptop, &laptop.ours.deployer).put_archive(&digest, again).await.unwrap();
    assert_eq!(laptop.get(&format!("/archives/{digest}")).await.0, 204);
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_is_named_without_the_address() {
    let (api, bucket) = with_bucket().await;
    let (bytes, digest) = archive(MAX_DIRECT_BYTES + 1);
    let gone = Bucket { url: "http://127.0.0.1:1".to_owned(), ..bucket };
    let mut api = api;
    let change = |mut app: canyon_functions::App| {
        app.blobs = app.blobs.with_signer(Arc::new(gone));
        app
    };
    api.serve_again(change, &HttpSettings::default()).await;
    let error = client(&api, &api.ours.deployer).put_archive(&digest, bytes).await.unwrap_err();
    let said = format!("{error} {error:?}");
    assert!(said.contains("object store at 127.0.0.1"), "{said}");
    assert!(error.is_retryable() && !said.contains("signature="), "{said}");
}

#[tokio::test]
async fn a_caller_and_its_organization_upload_no_more_than_their_share_of_a_day() {
    let (api, _) = with_bucket().await;
    let ask = async |token: &str, number: u32| {
        let path = format!("/archives/{number:064x}/actions/upload-url");
        let body = json!({ "size_bytes": MAX_ARCHIVE_BYTES });
        api.call_as(token, Method::POST, &path, Some(&body)).await
    };
    for number in 0..128 {
        assert_eq!(ask(&api.ours.deployer, number).await.0, 200, "{number}");
    }
    let refused = ask(&api.ours.deployer, 128).await;
    assert!(refused.0 == 429 && message(&refused).contains("this caller"), "{refused:?}");
    for number in 128..256 {
        assert_eq!(ask(&api.ours.admin, number).await.0, 200, "{number}: the other has room");
    }
    let third = crate::scoped_roles::token(&api, json!({ "role": "deployer" })).await;
    let refused = ask(&third, 256).await;
    assert!(refused.0 == 429 && message(&refused).contains("16 GiB"), "{refused:?}");
    let (bytes, digest) = archive(10);
    let small = client(&api, &api.ours.deployer).put_archive(&digest, bytes).await.unwrap_err();
    assert_eq!(small.status(), Some(429), "{small:?}");
    api.clock.advance(Duration::from_secs(11));
    let (bytes, digest) = archive(10);
    client(&api, &api.ours.deployer).put_archive(&digest, bytes).await.unwrap();
    // The address of an archive that is there costs nothing: S3 does not store it again.
    let path = format!("/archives/{digest}/actions/upload-url");
    let body = json!({ "size_bytes": MAX_ARCHIVE_BYTES });
    assert_eq!(api.call_as(&api.ours.deployer, Method::POST, &path, Some(&body)).await.0, 200);
    assert_eq!(ask(&api.ours.deployer, 300).await.0, 429);
}
