//! Most of AWS's control plane: `CloudFormation`, KMS, `EventBridge`, IAM, Lambda's configuration.

use super::{Part, free_port};
use http::StatusCode;

/// An account without resources.
#[derive(Debug)]
pub struct Moto {
    part: Part,
    url: String,
}

impl Moto {
    /// Starts the program that `CANYON_TEST_MOTO` names.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start() -> Self {
        let number = free_port().to_string();
        let arguments = ["-H", "127.0.0.1", "-p", &number].map(str::to_owned).to_vec();
        // Whatever it signs, it must not use real credentials of this machine.
        let variables = [("AWS_ACCESS_KEY_ID", "moto"), ("AWS_SECRET_ACCESS_KEY", "moto")];
        let mut part = Part::start("moto", "CANYON_TEST_MOTO", |_| arguments, &variables).await;
        let url = format!("http://127.0.0.1:{number}");
        part.until_answers(&format!("{url}/moto-api/data.json"), StatusCode::OK).await;
        Self { part, url }
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        self.part.log()
    }
}
