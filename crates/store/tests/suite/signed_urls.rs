//! Presigned URLs, with a real S3 (MinIO), which checks every signature.

use aws_credential_types::Credentials;
use bytes::Bytes;
use canyon_domain::ids::OrgUuid;
use canyon_domain::module_source::Digest;
use canyon_store::blob_keys::BlobKey;
use canyon_store::blobs::{Blobs, Put};
use canyon_store::s3_signer::S3Signer;
use object_store::aws::AmazonS3Builder;
use reqwest::{Client, Response};
use sha2::{Digest as _, Sha256};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use uuid::Uuid;

const SECRET: &str = "only-of-this-test";

/// A MinIO with one bucket, which ends with the test.
struct Minio {
    child: Child,
    blobs: Blobs,
    _folder: TempDir,
}

impl Drop for Minio {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Minio {
    async fn start(http: &Client) -> Self {
        let Ok(program) = std::env::var("CANYON_TEST_MINIO") else {
            panic!("CANYON_TEST_MINIO is not set; run ./scripts/setup minio");
        };
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let data = folder.path().join("data");
        std::fs::create_dir_all(data.join("canyon")).unwrap();
        let child = Command::new(program)
            .args(["server", "--address", &address])
            .arg(&data)
            .env("HOME", folder.path())
            .env("MINIO_ROOT_USER", "canyon")
            .env("MINIO_ROOT_PASSWORD", SECRET)
            .env("MINIO_BROWSER", "off")
            .env("MINIO_UPDATE", "off")
            .env("MINIO_CALLHOME_ENABLE", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let url = format!("http://{address}");
        let s3 = AmazonS3Builder::new()
            .with_bucket_name("canyon")
            .with_region("us-east-1")
            .with_endpoint(&url)
            .with_allow_http(true)
            .with_access_key_id("canyon")
            .with_secret_access_key(SECRET)
            .build()
            .unwrap();
        let credentials = Credentials::new("canyon", SECRET, None, None, "test");
        let signer = S3Signer::new(format!("{url}/canyon"), "us-east-1".to_owned(), credentials);
        let blobs = Blobs::new(Arc::new(s3)).with_signer(Arc::new(signer));
        let minio = Self { child, blobs, _folder: folder };
        let deadline = Instant::now() + Duration::from_mins(1);
        let ready = format!("{url}/minio/health/ready");
        while !http.get(&ready).send().await.is_ok_and(|answer| answer.status().is_success()) {
            assert!(Instant::now() < deadline, "MinIO did not answer within 60 s");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        minio
    }
}

fn http() -> Client {
    Client::builder().no_proxy().timeout(Duration::from_secs(20)).build().unwrap()
}

fn archive(bytes: &Bytes) -> (BlobKey, Digest) {
    let digest: Digest = hex::encode(Sha256::digest(bytes)).parse().unwrap();
    (BlobKey::archive(OrgUuid(Uuid::now_v7()), &digest), digest)
}

async fn status_and_text(answer: Response) -> (u16, String) {
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn an_upload_url_accepts_only_the_bytes_of_its_digest_and_a_download_url_returns_them() {
    let http = http();
    let minio = Minio::start(&http).await;
    let blobs = &minio.blobs;
    let bytes = Bytes::from((0..7_000_000_u32).map(|n| n.to_le_bytes()[1]).collect::<Vec<_>>());
    let (key, digest) = archive(&bytes);
    let upload = blobs.sign_upload(&key, &digest, 7_000_000).await.unwrap().unwrap();
    let put = async |url: &str, without: &str, bytes: &Bytes| {
        let mut request = http.put(url);
        for (name, value) in upload.headers.iter().filter(|(name, _)| name != without) {
            request = request.header(name, value);
        }
        status_and_text(request.body(bytes.clone()).send().await.unwrap()).await
    };
    // Other bytes; of another size than announced; without the checksum; not only if absent; at another key; with another
    // method.
    let mut other = bytes.to_vec();
    other[0] ^= 1;
    let refused = put(&upload.url, "", &other.into()).await;
    assert_eq!(refused.0, 400, "{}", refused.1);
    let smaller = blobs.sign_upload(&key, &digest, 1).await.unwrap().unwrap();
    let refused = put(&smaller.url, "", &bytes).await;
    assert!(refused.0 == 403 && refused.1.contains("SignatureDoesNotMatch"), "{refused:?}");
    for header in ["x-amz-checksum-sha256", "if-none-match"] {
        let refused = put(&upload.url, header, &bytes).await;
        assert!(refused.0 >= 400 && refused.1.contains("AccessDenied"), "{header}: {refused:?}");
    }
    let elsewhere = upload.url.replace("/archives/", "/deployments/");
    let refused = put(&elsewhere, "", &bytes).await;
    assert_eq!(refused.0, 403, "{}", refused.1);
    assert!(http.delete(&upload.url).send().await.unwrap().status().is_client_error());
    assert_eq!(blobs.size(&key).await.unwrap(), None);

    // A client retries after a lost answer. Nothing is stored a second time.
    for wanted in [200, 412, 412] {
        let (status, text) = put(&upload.url, "", &bytes).await;
        assert_eq!(status, wanted, "{text}");
    }
    assert_eq!(blobs.size(&key).await.unwrap(), Some(7_000_000));
    assert_eq!(blobs.put_if_absent(&key, bytes.clone()).await.unwrap(), Put::AlreadyExists);

    let download = blobs.sign_download(&key).await.unwrap().unwrap();
    let answer = http.get(&download).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.bytes().await.unwrap() == bytes);
    let (other, _) = archive(&"x".into());
    let elsewhere = download.replace(&key.to_string(), &other.to_string());
    assert_eq!(http.get(&elsewhere).send().await.unwrap().status(), 403);
    let longer = download.replace("Expires=300", "Expires=9000");
    assert_eq!(http.get(&longer).send().await.unwrap().status(), 403);
}

#[tokio::test]
async fn a_folder_presigns_no_urls() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::folder(folder.path()).unwrap();
    let (key, digest) = archive(&"x".into());
    assert!(!blobs.signs());
    assert!(blobs.sign_upload(&key, &digest, 1).await.unwrap().is_none());
    assert!(blobs.sign_download(&key).await.unwrap().is_none());
}
