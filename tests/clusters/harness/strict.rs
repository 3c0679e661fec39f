//! The strict servers that play clouds, as a process: it prints their addresses and accepts their configuration.

use super::bed::bed;
use super::programs;
use super::server::Variables;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Running servers. Dropping this ends them.
#[derive(Debug)]
pub(crate) struct Strict {
    process: Child,
    addresses: BTreeMap<String, String>,
}

impl Strict {
    /// Starts the servers of a module of `tests`, with the initial state from a file if there is one.
    pub(crate) fn start(module: &str, config: Option<&Path>) -> Self {
        let mut command = Command::new(programs::given("CANYON_TEST_AWS_PYTHON"));
        command.args(["-B", "-m", module]);
        if let Some(path) = config {
            command.arg("--config").arg(path);
        }
        let mut process = command
            .env("PYTHONPATH", env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut addresses = BTreeMap::new();
        for line in BufReader::new(process.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some((name, address)) = line.split_once('=') else { break };
            addresses.insert(name.to_owned(), address.to_owned());
        }
        assert!(addresses.contains_key("admin"), "{module} does not start");
        Self { process, addresses }
    }

    /// The address of the server with this name.
    #[track_caller]
    pub(crate) fn address(&self, name: &str) -> &str {
        self.addresses.get(name).unwrap_or_else(|| panic!("no server `{name}`"))
    }

    /// Canyon's settings, each with the name of the server whose address is its value.
    pub(crate) fn variables(&self, names: &[(&str, &str)]) -> Variables {
        names
            .iter()
            .map(|(variable, name)| ((*variable).to_owned(), self.address(name).to_owned()))
            .collect()
    }

    /// Configures them with `state`, and with the issuer that they all trust.
    pub(crate) async fn configure(&self, mut state: Value) {
        state["issuers"] =
            json!([{ "url": bed().get("ISSUER_URL"), "ca_file": bed().get("ISSUER_CA_FILE") }]);
        let address = format!("{}/state", self.address("admin"));
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let answer = http.put(address).body(state.to_string()).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    /// Every secret that they have issued.
    pub(crate) async fn secrets(&self) -> Vec<String> {
        let secrets = self.ask("admin", "secrets").await;
        secrets.iter().map(|secret| secret.as_str().unwrap().to_owned()).collect()
    }

    /// A list that one of the servers keeps for tests.
    pub(crate) async fn ask(&self, server: &str, what: &str) -> Vec<Value> {
        let address = format!("{}/{what}", self.address(server));
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let text = http.get(address).send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

impl Drop for Strict {
    fn drop(&mut self) {
        // When their input closes, they remove what they made and end.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
