//! The cluster that `scripts/cluster up` made, and commands of its administrator.

use super::programs;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The addresses and files of the cluster.
#[derive(Debug)]
pub(crate) struct Bed {
    folder: PathBuf,
    variables: BTreeMap<String, String>,
}

/// The cluster of this machine.
pub(crate) fn bed() -> &'static Bed {
    static BED: OnceLock<Bed> = OnceLock::new();
    BED.get_or_init(|| {
        let folder = programs::given("CANYON_TEST_CLUSTER");
        let path = folder.join("env");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("no {}: {error}; run `scripts/cluster up`", path.display())
        });
        let pair = |line: &str| {
            line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        Bed { folder, variables: text.lines().filter_map(pair).collect() }
    })
}

impl Bed {
    /// The value that `scripts/cluster` wrote under this name.
    pub(crate) fn get(&self, name: &str) -> &str {
        let value = self.variables.get(name);
        value.unwrap_or_else(|| panic!("no {name} in {}/env", self.folder.display()))
    }

    /// The content of a file that is named there.
    pub(crate) fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.get(name)).unwrap_or_else(|error| panic!("{}: {error}", self.get(name)))
    }

    /// The path of a file beside that one.
    pub(crate) fn file_beside(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A name that no other test uses.
    pub(crate) fn unique(prefix: &str) -> String {
        format!("{prefix}-{}", &uuid::Uuid::new_v4().simple().to_string()[..12])
    }

    /// The output of `kubectl`, run as the administrator. It has a time limit, because it must not
    /// hang.
    pub(crate) fn try_kubectl(&self, arguments: &[&str], stdin: &str) -> Result<String, String> {
        let mut child = Command::new("timeout")
            .args(["60", self.get("KUBECTL"), "--kubeconfig"])
            .arg(self.folder.join("kubeconfig"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// The same, which must succeed.
    #[track_caller]
    pub(crate) fn kubectl(&self, arguments: &[&str], stdin: &str) -> String {
        let done = self.try_kubectl(arguments, stdin);
        done.unwrap_or_else(|error| panic!("kubectl {}: {error}\n{stdin}", arguments.join(" ")))
    }

    /// Creates or changes the objects of these documents.
    #[track_caller]
    pub(crate) fn apply(&self, documents: &str) {
        self.kubectl(&["apply", "-f", "-"], documents);
    }

    /// All objects of the kinds in a namespace, as the API server has them.
    #[track_caller]
    pub(crate) fn list(&self, namespace: &str, kinds: &str) -> Vec<Value> {
        let text = self.kubectl(&["-n", namespace, "get", kinds, "-o", "json"], "");
        let mut list: Value = serde_json::from_str(&text).unwrap();
        serde_json::from_value(list["items"].take()).unwrap()
    }

    /// Stops the node's kubelet, or starts it again.
    pub(crate) fn kubelet(what: &str) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/cluster");
        let done = Command::new("timeout").args(["60", script, "kubelet", what]).status().unwrap();
        assert!(done.success(), "{script} kubelet {what}");
    }
}

/// A namespace that is deleted with its test.
#[derive(Debug)]
pub(crate) struct Namespace(pub(crate) String);

impl Drop for Namespace {
    fn drop(&mut self) {
        let deleted = ["delete", "namespace", &self.0, "--wait=false", "--ignore-not-found"];
        let _ = bed().try_kubectl(&deleted, "");
    }
}
