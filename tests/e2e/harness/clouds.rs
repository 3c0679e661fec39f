//! Clouds at which a job signs in, with their secret managers.

use super::programs;
use super::server::Server;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// Secret managers of the clouds, and the endpoints at which a job signs in.
pub(crate) struct Clouds {
    program: Child,
    url: String,
}

impl Drop for Clouds {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

impl Clouds {
    /// They trust the jobs of `server`.
    pub(crate) fn trusting(server: &Server) -> Self {
        let script = format!("{}/e2e/harness/clouds.py", env!("CARGO_MANIFEST_DIR"));
        let python = programs::given("CANYON_TEST_AWS_PYTHON");
        let log = fs::File::create(server.path("clouds.log")).unwrap();
        let mut program = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(python)
            .args(["-B", &script, &format!("{}/jobs", server.url())])
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { program, url: format!("http://127.0.0.1:{}", port.trim()) }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A job with an identity at each of them.
    pub(crate) fn job(&self) -> Value {
        let provider = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/canyon";
        json!({
            "identity": {
                "aws": {
                    "role_arn": "arn:aws:iam::123456789012:role/shop-apply",
                    "plan_role_arn": "arn:aws:iam::123456789012:role/shop-plan",
                    "region": "eu-central-1",
                },
                "gcp": {
                    "audience": provider,
                    "service_account": "shop-apply@acme-secrets.iam.gserviceaccount.com",
                    "plan_service_account": "shop-plan@acme-secrets.iam.gserviceaccount.com",
                },
                "azure": {
                    "tenant_id": "11111111-2222-3333-4444-555555555555",
                    "client_id": "66666666-7777-8888-9999-000000000000",
                },
            },
            "environment": {
                "AWS_ENDPOINT_URL_STS": self.url, "CLOUDSDK_API_ENDPOINT_OVERRIDES_STS": self.url,
                "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS": self.url, "AZURE_AUTHORITY_HOST": self.url,
            },
        })
    }

    /// What they have given: `sessions` of AWS by key, and the scopes of `azure`'s tokens.
    pub(crate) async fn granted(&self) -> Value {
        let answer = reqwest::get(format!("{}/granted", self.url)).await.unwrap();
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    }
}
