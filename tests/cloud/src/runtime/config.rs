//! The configuration of a function.

use super::AsyncConfig;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A function's configuration, with Lambda's defaults where it has some.
#[derive(Clone, Debug)]
pub struct FunctionConfig {
    /// Its name.
    pub name: String,
    /// The program. Its folder is `LAMBDA_TASK_ROOT`.
    pub program: PathBuf,
    /// Its own variables. Names that Lambda reserves are refused.
    pub environment: BTreeMap<String, String>,
    /// The timeout of an invocation.
    pub timeout: Duration,
    /// Only a variable of the function; it is not enforced.
    pub memory_mb: u32,
    /// How many invocations may run at once (reserved concurrency).
    pub max_concurrency: usize,
    /// "The Init phase is limited to 10 seconds."
    pub init_timeout: Duration,
    /// Whether processes are stopped (SIGSTOP) between invocations, as Lambda freezes them. This
    /// reveals code that relies on background work.
    pub freeze: bool,
    /// `PATH`: the only variable from outside.
    pub path: OsString,
    /// The region in the function's variables.
    pub region: String,
    /// The account in its ARN.
    pub account_id: String,
    /// The credentials with which it signs its calls.
    pub credentials: Credentials,
    /// The folder of its output, in a file `<name>.log`.
    pub log_folder: PathBuf,
    /// How asynchronous invocations are retried.
    pub asynchronous: AsyncConfig,
}

impl FunctionConfig {
    /// `program` as the function `name`, which logs into `log_folder`.
    pub fn new(
        name: impl Into<String>,
        program: impl Into<PathBuf>,
        log_folder: impl Into<PathBuf>,
    ) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            environment: BTreeMap::new(),
            timeout: Duration::from_secs(3),
            memory_mb: 128,
            max_concurrency: 50,
            init_timeout: Duration::from_secs(10),
            freeze: true,
            path: "/usr/local/bin:/usr/bin:/bin".into(),
            region: "us-east-1".to_owned(),
            account_id: "123456789012".to_owned(),
            credentials: Credentials::default(),
            log_folder: log_folder.into(),
            asynchronous: AsyncConfig::default(),
        }
    }

    /// Adds one of the function's own variables.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// The function's ARN.
    pub fn arn(&self) -> String {
        format!("arn:aws:lambda:{}:{}:function:{}", self.region, self.account_id, self.name)
    }

    /// The file with the output of all its processes.
    pub fn log_path(&self) -> PathBuf {
        self.log_folder.join(format!("{}.log", self.name))
    }
}

/// The credentials of an execution role's session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// `AWS_ACCESS_KEY_ID`
    pub access_key_id: String,
    /// `AWS_SECRET_ACCESS_KEY`
    pub secret_access_key: String,
    /// `AWS_SESSION_TOKEN`
    pub session_token: String,
}

impl Default for Credentials {
    /// The same for every function: DynamoDB Local keeps a database for each access key.
    fn default() -> Self {
        Self {
            access_key_id: "ASIACANYONTESTS00000".to_owned(),
            secret_access_key: "not-a-secret".to_owned(),
            session_token: "not-a-token".to_owned(),
        }
    }
}
