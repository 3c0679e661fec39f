//! Uploaded modules, identified by their SHA-256.

use crate::harness::{Answer, Api, faults};
use crate::job::{Job, furnished, order, raw, request};
use reqwest::Method;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const ARCHIVE: &[u8] = b"any bytes: a runner unpacks them, not Canyon";

async fn put(api: &Api, token: &str, digest: &str, bytes: &[u8]) -> Answer {
    let path = format!("/orgs/{}/archives/{digest}", api.ours.id);
    api.send(Method::PUT, &path, Some(token), Some(bytes.to_vec())).await
}

#[tokio::test]
async fn an_archive_is_stored_once_under_its_digest_and_reaches_the_run() {
    let api = furnished().await;
    let digest = hex::encode(Sha256::digest(ARCHIVE));
    let path = format!("/archives/{digest}");
    let head = async || raw(request(&api, &api.ours.viewer, Method::HEAD, &path)).await.status;
    let mut body = order();
    body["module"] = json!({ "source": format!("sha256:{digest}//net") });
    assert_eq!((api.get(&path).await.0, head().await), (404, 404));
    let refused = api.post("/deployments", body.clone()).await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["module.source"]));

    assert_eq!(put(&api, &api.ours.viewer, &digest, ARCHIVE).await.0, 403);
    for _ in 0..2 {
        assert_eq!(put(&api, &api.ours.deployer, &digest, ARCHIVE).await.0, 204);
    }
    assert_eq!((api.get(&path).await.0, head().await), (204, 204));

    let made = api.make("/deployments", body).await;
    let job = Job::of(&api, made["id"].as_str().unwrap().to_owned()).await;
    let bundle = format!("/deployments/{}/bundle", job.id);
    let bundle = raw(request(&api, &job.token, Method::GET, &bundle)).await;
    assert_eq!((bundle.status, bundle.body.as_slice()), (200, ARCHIVE));
}

#[tokio::test]
async fn bytes_under_a_name_that_is_not_theirs_are_refused_and_not_stored() {
    let api = Api::start().await;
    let other = "ab".repeat(32);
    let refused = put(&api, &api.ours.deployer, &other, ARCHIVE).await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["digest"]));
    assert_eq!(api.get(&format!("/archives/{other}")).await.0, 404);
    for name in ["ab", &"AB".repeat(32), &"g".repeat(64), "..%2Fx"] {
        assert_eq!(put(&api, &api.ours.deployer, name, ARCHIVE).await.0, 404, "{name}");
    }
}

#[tokio::test]
async fn another_organization_neither_sees_nor_deploys_an_archive() {
    let api = Api::start().await;
    let digest = hex::encode(Sha256::digest(ARCHIVE));
    assert_eq!(put(&api, &api.ours.admin, &digest, ARCHIVE).await.0, 204);
    let theirs = async |path: &str| {
        let path = format!("/orgs/their-org/archives/{path}");
        api.send(Method::GET, &path, Some(&api.theirs.admin), None).await
    };
    let (there, absent) = (theirs(&digest).await, theirs(&"ab".repeat(32)).await);
    assert_eq!(there.1.to_string(), absent.1.to_string().replace(&"ab".repeat(32), &digest));
    assert_eq!((there.0, absent.0), (404, 404));
}

#[tokio::test]
async fn an_archive_that_announces_more_than_64_mib_is_refused_before_it_is_sent() {
    let api = Api::start().await;
    let address = api.url.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "PUT /orgs/our-org/archives/{} HTTP/1.1\r\nhost: canyon\r\nauthorization: Bearer {}\r\n\
         content-length: {}\r\n\r\n",
        "ab".repeat(32),
        api.ours.deployer,
        64 * 1024 * 1024 + 1
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    let read = stream.read_exact(&mut answer);
    tokio::time::timeout(std::time::Duration::from_secs(5), read).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn an_archive_that_grew_beyond_the_bound_past_canyon_is_not_deployed() {
    let api = furnished().await;
    // A signed URL accepts any number of bytes with the digest.
    let digest: canyon_domain::module_source::Digest = "ab".repeat(32).parse().unwrap();
    let key = canyon_store::blob_keys::BlobKey::archive(api.ours.uuid, &digest);
    let size = canyon_api::archive::MAX_ARCHIVE_BYTES + 1;
    api.app.blobs.put_if_absent(&key, vec![0; size].into()).await.unwrap();
    let mut body = order();
    body["module"] = json!({ "source": format!("sha256:{digest}") });
    let refused = api.post("/deployments", body).await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["module.source"]));
}
