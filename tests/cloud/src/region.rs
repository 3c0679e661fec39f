//! The real services that all clouds of a test program share, and the stack in them.
//!
//! Creating the stack takes seconds, so it is created once. Each cloud has a table and a bucket of
//! its own, and shares the stack's keys, roles and bus.

use crate::cloud::FUNCTIONS;
use crate::parts::dynamodb_local::DynamoDbLocal;
use crate::parts::minio::Minio;
use crate::parts::moto::Moto;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::mpsc;

/// The prefix of every name of the stack.
const PREFIX: &str = "canyon-tests";

/// The stack's account.
pub const ACCOUNT: &str = "123456789012";
/// The stack's region.
pub const REGION: &str = "us-east-1";

/// The services, and the stack's description.
#[derive(Debug)]
pub struct Region {
    /// The table's DynamoDB.
    pub dynamodb: DynamoDbLocal,
    /// The bucket's S3.
    pub minio: Minio,
    /// Everything else.
    pub moto: Moto,
    /// The output of `stack.py`.
    stack: String,
}

/// The operator's token of each cloud. It has no use outside of a test.
pub const OPERATOR_TOKEN: &str = "cya_dGhpcy1pcy10aGUtb3BlcmF0b3Itb2YtdGVzdHMtMDE";
/// Its hash, as `canyon token new` prints it.
const OPERATOR_HASH: &str = "ZQM9aRkfk5A8vw94a3aMsVANNJfzjhnTSPMxJDH-0KE";

impl Region {
    /// The region of this test program, which the first caller starts.
    ///
    /// # Panics
    /// If a service does not start, or the stack cannot be created.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Region> = OnceLock::new();
        SHARED.get_or_init(|| {
            // A service ends with the thread that started it, and a test's thread ends with its
            // test.
            let (sender, started) = mpsc::channel();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
                let region = runtime.block_on(Self::start());
                if sender.send(region).is_ok() {
                    runtime.block_on(std::future::pending::<()>());
                }
            });
            started.recv().unwrap_or_else(|_| panic!("the region did not start; see above"))
        })
    }

    async fn start() -> Self {
        let (dynamodb, minio, moto) =
            tokio::join!(DynamoDbLocal::start(), Minio::start(), Moto::start());
        let stack = deploy(moto.url());
        Self { dynamodb, minio, moto, stack }
    }

    /// The stack's description, with a table and a bucket named `own`.
    ///
    /// # Panics
    /// If it is not the output of `stack.py`.
    pub fn stack(&self, own: &str) -> Value {
        let bucket = format!("{PREFIX}-{ACCOUNT}-{REGION}");
        let text = self
            .stack
            .replace(&bucket, &format!("{PREFIX}-{own}"))
            .replace(&format!(":table/{PREFIX}"), &format!(":table/{PREFIX}-{own}"));
        let mut stack: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("the stack: {error}"));
        let table = Value::from(format!("{PREFIX}-{own}"));
        stack["table"]["create"]["TableName"] = table.clone();
        for function in FUNCTIONS {
            // `issuer` has no such variable.
            if let Some(variable) =
                stack["functions"][function]["environment"].get_mut("CANYON_TABLE")
            {
                *variable = table.clone();
            }
        }
        stack
    }
}

/// The folder of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Creates the stack of the template in moto.
fn deploy(moto: &str) -> String {
    let variable = "CANYON_TEST_AWS_PYTHON";
    let python = std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set; run ./scripts/test, which sets it"));
    let output = Command::new(python)
        .current_dir(workspace())
        .args(["tests/cloud/stack.py", "--endpoint", moto, "--stack", PREFIX])
        .args(["--region", REGION, "--account", ACCOUNT])
        .args(["--parameter", &format!("Prefix={PREFIX}")])
        .args(["--parameter", &format!("OperatorTokenHash={OPERATOR_HASH}")])
        // Every cloud has an address of its own, which it sets for its functions.
        .args(["--parameter", "ApiUrl=http://127.0.0.1:1"])
        .output()
        .unwrap_or_else(|error| panic!("cannot run stack.py: {error}"));
    assert!(
        output.status.success(),
        "the stack cannot be created: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
