//! The real `helm`, and the chart of the agent.

use super::bed::bed;
use super::programs;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The output of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandResult {
    /// Its standard output; it must have succeeded.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert!(self.success, "{}\n{}", self.stdout, self.stderr);
        self.stdout
    }

    /// Its error output; it must have failed.
    #[track_caller]
    pub(crate) fn refused(self) -> String {
        assert!(!self.success, "it was taken: {}", self.stdout);
        self.stderr
    }
}

/// The checkout, in which the commands of the documentation run.
pub(crate) fn checkout() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).canonicalize().unwrap()
}

/// Runs a command to its end, which must come within two minutes.
pub(crate) fn run(command: &[&str], variables: &[(&str, &str)]) -> CommandResult {
    let done = Command::new("timeout")
        .arg("120")
        .args(command)
        .current_dir(checkout())
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    CommandResult {
        success: done.status.success(),
        stdout: text(&done.stdout),
        stderr: text(&done.stderr),
    }
}

/// `helm`, in a home of its own.
pub(crate) fn helm(arguments: &[&str]) -> CommandResult {
    let home = tempfile::tempdir().unwrap();
    let program = programs::given("CANYON_TEST_HELM");
    let kubeconfig = bed().file_beside("kubeconfig");
    let command = [&[program.to_str().unwrap()], arguments].concat();
    let home = home.path().to_str().unwrap();
    run(&command, &[("HOME", home), ("KUBECONFIG", kubeconfig.to_str().unwrap())])
}

/// The chart's path in the checkout.
pub(crate) const CHART: &str = "infra/charts/canyon-agent";

/// `helm template` with the required values and these.
pub(crate) fn template(namespace: &str, values: &[&str]) -> CommandResult {
    let (repository, tag) = bed().get("AGENT_IMAGE").rsplit_once(':').unwrap();
    let image = format!("image={{\"repository\":\"{repository}\",\"tag\":\"{tag}\"}}");
    let canyon = r#"canyon={"apiUrl":"http://192.0.2.1:7000","orgId":"acme","runnerId":"private"}"#;
    let mut arguments = vec!["template", "canyon-agent", CHART, "--namespace", namespace];
    // helm was built from its module, so it does not know its Kubernetes version.
    arguments.extend(["--kube-version", "1.34"]);
    let all = [canyon, &image].into_iter().chain(values.iter().copied());
    arguments.extend(all.flat_map(|value| ["--set-json", value]));
    helm(&arguments)
}

/// The objects that the API server would store for these documents. It may not even warn.
#[track_caller]
pub(crate) fn judged(documents: &str) -> Vec<Value> {
    let apply = ["apply", "--dry-run=server", "--warnings-as-errors", "-o", "json", "-f", "-"];
    let list: Value = serde_json::from_str(&bed().kubectl(&apply, documents)).unwrap();
    list["items"].as_array().cloned().unwrap_or_else(|| vec![list])
}
