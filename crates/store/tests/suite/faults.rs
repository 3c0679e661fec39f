//! Faults that neither DynamoDB Local nor the embedded table has: conflicts, throttles, lost
//! answers (Developer Guide, "DynamoDB local usage notes"). Here the answers are scripted.

use aws_sdk_dynamodb::config::{BehaviorVersion, Region, retry::RetryConfig};
use aws_sdk_dynamodb::{Client, Config};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use canyon_domain::ids::{OrgUuid, PrincipalId};
use canyon_domain::principal::CallerId;
use canyon_store::embedded::Embedded;
use canyon_store::nonces::Nonce;
use canyon_store::{StoreError, Table};
use jiff::Timestamp;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uuid::Uuid;

use crate::items::{create, item};

/// Returns its answers in order, then always the last one, and records the requests.
#[derive(Clone, Debug)]
struct Scripted {
    answers: Arc<Vec<(u16, String)>>,
    requests: Arc<Mutex<Vec<serde_json::Value>>>,
}

/// Instead of a status: the answer is lost.
const LOST: u16 = 0;

impl HttpConnector for Scripted {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let mut requests = self.requests.lock().unwrap();
        let (status, body) = &self.answers[requests.len().min(self.answers.len() - 1)];
        requests.push(serde_json::from_slice(request.body().bytes().unwrap()).unwrap());
        HttpConnectorFuture::ready(match *status {
            LOST => Err(ConnectorError::io("connection reset".into())),
            status => {
                Ok(HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body.as_str())))
            }
        })
    }
}

impl HttpClient for Scripted {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

fn answering(answers: &[(u16, String)]) -> (Scripted, Table) {
    let scripted = Scripted { answers: Arc::new(answers.to_vec()), requests: Arc::default() };
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .endpoint_url("http://scripted.invalid")
        .allow_no_auth()
        .retry_config(RetryConfig::disabled())
        .http_client(scripted.clone())
        .build();
    (scripted, Table::new(Client::from_conf(config), "canyon"))
}

fn refusal(code: &str) -> (u16, String) {
    (400, format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"no"}}"#))
}

fn cancelled(codes: &[&str]) -> (u16, String) {
    let reasons: Vec<_> = codes.iter().map(|code| format!(r#"{{"Code":"{code}"}}"#)).collect();
    let kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
    let reasons = reasons.join(",");
    (400, format!(r#"{{"__type":"{kind}","Message":"no","CancellationReasons":[{reasons}]}}"#))
}

#[tokio::test]
async fn conflicts_throttles_and_lost_answers_cause_a_retry_of_the_same_request() {
    let answers = [
        cancelled(&["None", "TransactionConflict"]),
        (LOST, String::new()),
        refusal("TransactionInProgressException"),
        cancelled(&["ThrottlingError", "None"]),
        (500, r#"{"__type":"InternalServerError"}"#.into()),
        (200, "{}".into()),
    ];
    let (scripted, table) = answering(&answers);
    let items = vec![create(&table, item("a/1", &[])), create(&table, item("a/2", &[]))];
    table.transact("accept", "a", items).await.unwrap().unwrap();
    let requests = scripted.requests.lock().unwrap();
    assert_eq!(requests.len(), answers.len());
    assert!(requests[0]["ClientRequestToken"].is_string());
    assert!(requests.iter().all(|request| *request == requests[0]), "{requests:#?}");
}

#[tokio::test]
async fn a_failed_condition_ends_the_retries_even_beside_a_conflict() {
    let (scripted, table) =
        answering(&[cancelled(&["TransactionConflict", "ConditionalCheckFailed"])]);
    let by = table.transact("accept", "a", vec![create(&table, item("a/1", &[]))]).await;
    assert_eq!(by.unwrap().unwrap_err().first(), 1);
    assert_eq!(scripted.requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn retries_end_and_the_error_states_whether_it_is_retryable() {
    for (answer, sends, retryable, message) in [
        (
            refusal("ThrottlingException"),
            8,
            true,
            "could not accept `a`: the store is busy; try again in a moment",
        ),
        (
            (LOST, String::new()),
            8,
            true,
            "could not accept `a`: the store did not answer; try again",
        ),
        (
            refusal("ValidationException"),
            1,
            false,
            "could not accept `a`: the store refused the request",
        ),
        (
            cancelled(&["ValidationError"]),
            1,
            false,
            "could not accept `a`: the store refused the request",
        ),
    ] {
        let (scripted, table) = answering(&[answer]);
        let items = vec![create(&table, item("a/1", &[]))];
        let error: StoreError = table.transact("accept", "a", items).await.unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.is_retryable(), retryable, "{message}");
        assert_eq!(scripted.requests.lock().unwrap().len(), sends, "{message}");
    }
}

/// A table whose first answer is lost after the request was carried out.
#[derive(Clone, Debug)]
struct LosingOne<T> {
    inner: T,
    has_lost: Arc<AtomicBool>,
}

impl HttpClient for LosingOne<SharedHttpClient> {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(LosingOne { inner, has_lost: Arc::clone(&self.has_lost) })
    }
}

impl HttpConnector for LosingOne<SharedHttpConnector> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let answer = self.inner.call(request);
        let is_lost = !self.has_lost.swap(true, Ordering::SeqCst);
        HttpConnectorFuture::new(async move {
            let answer = answer.await?;
            if is_lost { Err(ConnectorError::io("connection reset".into())) } else { Ok(answer) }
        })
    }
}

#[tokio::test]
async fn a_nonce_is_new_although_the_answer_to_its_write_was_lost_and_the_sdk_wrote_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(&folder.path().join("table"), Arc::new(|| {})).unwrap();
    let client = embedded.client();
    Table::new(client.clone(), "canyon").ensure().await.unwrap();
    let has_lost = Arc::new(AtomicBool::new(false));
    let inner = client.config().http_client().unwrap();
    let losing = LosingOne { inner, has_lost: Arc::clone(&has_lost) };
    let config = client
        .config()
        .to_builder()
        .retry_config(RetryConfig::standard().with_initial_backoff(Duration::from_millis(1)))
        .http_client(losing)
        .build();
    let table = Table::new(Client::from_conf(config), "canyon");
    let (org, caller) = (OrgUuid(Uuid::now_v7()), CallerId::from(PrincipalId(Uuid::now_v7())));
    let used = async || table.use_nonce(org, &caller, "n", Timestamp::UNIX_EPOCH).await.unwrap();
    assert_eq!(used().await, Nonce::New);
    assert!(has_lost.load(Ordering::SeqCst));
    assert_eq!(used().await, Nonce::Used, "a request with the same nonce");
}
