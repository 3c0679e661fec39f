//! The strict servers as a process.

use canyon_identity::federation::Endpoints;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

const START: Duration = Duration::from_mins(1);

/// The servers. They end when this value is dropped or this process ends.
pub(crate) struct Strict {
    addresses: HashMap<String, String>,
    http: reqwest::Client,
    /// The servers end when it closes; the kernel closes it when this process ends.
    _input: ChildStdin,
    /// Reaped after this value is dropped.
    _child: Child,
}

/// The Python that has `PyJWT`, with the servers in its path.
pub(crate) fn python() -> Command {
    let variable = "CANYON_TEST_AWS_PYTHON";
    let program = std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run scripts/test, or see scripts/setup"));
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let mut command = Command::new(PathBuf::from(program));
    command.arg("-B").env("PYTHONPATH", tests).kill_on_drop(true);
    command
}

impl Strict {
    pub(crate) async fn start() -> Self {
        let mut command = python();
        command.args(["-m", "strict"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // They remove their files when they end by themselves.
        command.kill_on_drop(false);
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut addresses = HashMap::new();
        let read = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                let Some((name, address)) = line.split_once('=') else { return };
                addresses.insert(name.to_owned(), address.to_owned());
            }
            panic!("the strict servers ended instead of starting");
        };
        tokio::time::timeout(START, read).await.expect("the strict servers start");
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { addresses, http, _input: input, _child: child }
    }

    pub(crate) fn address(&self, name: &str) -> &str {
        &self.addresses[name]
    }

    /// Replaces the clouds' state.
    pub(crate) async fn set(&self, state: &Value) {
        let address = format!("{}/state", self.address("admin"));
        let answer = self.http.put(address).json(state).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    /// The calls of one service since the last [`Strict::forget_calls`].
    pub(crate) async fn calls(&self, service: &str) -> Vec<Value> {
        let address = format!("{}/calls", self.address("admin"));
        let calls: Vec<Value> = self.http.get(address).send().await.unwrap().json().await.unwrap();
        calls.into_iter().filter(|call| call["service"] == service).collect()
    }

    pub(crate) async fn forget_calls(&self) {
        let address = format!("{}/calls", self.address("admin"));
        self.http.delete(address).send().await.unwrap();
    }

    pub(crate) fn endpoints(&self) -> Endpoints {
        let given = |name: &str| {
            let service = match name {
                "CANYON_GCP_STS_URL" => "gcp_sts",
                "CANYON_GKE_URL" => "gke",
                "CANYON_AZURE_RESOURCE_MANAGER_URL" => "azure_resource_manager",
                "CANYON_GCP_IAM_CREDENTIALS_URL" => "gcp_iam_credentials",
                "AZURE_AUTHORITY_HOST" => "azure_authority",
                "AWS_ENDPOINT_URL_STS" => "aws_sts",
                _ => return None,
            };
            Some(self.address(service).to_owned())
        };
        Endpoints::from_variables(&given)
    }
}
