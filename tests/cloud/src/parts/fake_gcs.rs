//! Google Cloud Storage, with generations and preconditions.

use super::{Part, free_port};
use http::StatusCode;
use serde_json::json;

/// A Cloud Storage without buckets. It checks no credentials.
#[derive(Debug)]
pub struct FakeGcs {
    part: Part,
    url: String,
}

impl FakeGcs {
    /// Starts the program that `CANYON_TEST_FAKE_GCS` names.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start() -> Self {
        let number = free_port().to_string();
        let address = format!("127.0.0.1:{number}");
        let url = format!("http://{address}");
        let options = [
            ["-scheme", "http"],
            ["-host", "127.0.0.1"],
            ["-port", &number],
            ["-backend", "memory"],
            ["-external-url", &url],
            ["-public-host", &address],
        ];
        let options = options.concat().into_iter().map(str::to_owned).collect();
        let started = Part::start("fake-gcs-server", "CANYON_TEST_FAKE_GCS", |_| options, &[]);
        let mut part = started.await;
        part.until_answers(&format!("{url}/_internal/healthcheck"), StatusCode::OK).await;
        Self { part, url }
    }

    /// Its URL, for `STORAGE_EMULATOR_HOST`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Creates a bucket.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn create_bucket(&self, name: &str) {
        let url = format!("{}/storage/v1/b?project=test", self.url);
        let sent = reqwest::Client::new().post(url).json(&json!({ "name": name })).send().await;
        let status = sent.map(|response| response.status());
        let made = matches!(status, Ok(StatusCode::OK));
        assert!(made, "cannot create the bucket {name}: {status:?}\n{}", self.log());
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        self.part.log()
    }
}
