//! S3, with real checks of signatures.

use super::{Part, free_port};
use http::StatusCode;
use std::path::Path;
use uuid::Uuid;

/// An S3 without buckets.
#[derive(Debug)]
pub struct Minio {
    part: Part,
    url: String,
    user: String,
    password: String,
}

impl Minio {
    /// Starts the program that `CANYON_TEST_MINIO` names, with a new administrator.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same, with further settings.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_with(settings: &[(&str, &str)]) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let user = format!("admin{}", &Uuid::new_v4().simple().to_string()[..8]);
        let password = Uuid::new_v4().simple().to_string();
        let mut variables = vec![
            ("MINIO_ROOT_USER", user.as_str()),
            ("MINIO_ROOT_PASSWORD", &password),
            ("MINIO_REGION", "us-east-1"),
            // Nothing leaves this machine: no console, no update check, no telemetry.
            ("MINIO_BROWSER", "off"),
            ("MINIO_UPDATE", "off"),
            ("MINIO_CALLHOME_ENABLE", "off"),
        ];
        variables.extend_from_slice(settings);
        let arguments = |folder: &Path| {
            let data = folder.join("data").display().to_string();
            vec!["server".to_owned(), data, "--address".to_owned(), address.clone()]
        };
        let mut part = Part::start("MinIO", "CANYON_TEST_MINIO", arguments, &variables).await;
        let url = format!("http://{address}");
        // It reports ready before it has loaded its users. Once it has, it refuses unsigned
        // requests.
        part.until_answers(&url, StatusCode::FORBIDDEN).await;
        Self { part, url, user, password }
    }

    /// Its URL. Buckets are the first part of the path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Creates a bucket: for `MinIO` on one disk that is a folder.
    ///
    /// # Panics
    /// If the bucket exists.
    pub fn create_bucket(&self, name: &str) {
        let made = std::fs::create_dir(self.part.folder.path().join("data").join(name));
        made.unwrap_or_else(|error| panic!("cannot create the bucket {name}: {error}"));
    }

    /// The administrator's access key.
    pub fn access_key_id(&self) -> &str {
        &self.user
    }

    /// The administrator's secret key.
    pub fn secret_access_key(&self) -> &str {
        &self.password
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        self.part.log()
    }
}
