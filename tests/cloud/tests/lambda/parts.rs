//! The services start, on loopback, and end with their values.

use canyon_cloud::parts::dynamodb_local::DynamoDbLocal;
use canyon_cloud::parts::minio::Minio;
use canyon_cloud::parts::moto::Moto;
use reqwest::{Client, StatusCode};

async fn goes(url: &str) {
    let address = url.trim_start_matches("http://").to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{url}");
    let is_gone = || std::net::TcpStream::connect(&address).is_err();
    crate::puppet::until("its end", is_gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dynamodb_local_answers() {
    let part = DynamoDbLocal::start().await;
    let url = part.url().to_owned();
    let request = Client::new()
        .post(&url)
        .header("x-amz-target", "DynamoDB_20120810.ListTables")
        .header("content-type", "application/x-amz-json-1.0")
        .header(
            "authorization",
            "AWS4-HMAC-SHA256 Credential=ASIA/20260101/us-east-1/dynamodb/aws4_request, \
             SignedHeaders=host, Signature=none",
        )
        .body("{}");
    let response = request.send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), r#"{"TableNames":[]}"#);
    drop(part);
    goes(&url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn minio_answers_and_checks_signatures() {
    let part = Minio::start().await;
    let url = part.url().to_owned();
    let response = Client::new().get(&url).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert!(!part.access_key_id().is_empty() && !part.secret_access_key().is_empty());
    drop(part);
    goes(&url).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moto_answers() {
    let part = Moto::start().await;
    let url = part.url().to_owned();
    let response = Client::new().get(format!("{url}/moto-api/data.json")).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    drop(part);
    goes(&url).await;
}
