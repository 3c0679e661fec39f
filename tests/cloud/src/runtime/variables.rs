//! The variables that Lambda sets.
//! <https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html>

use super::config::{Credentials, FunctionConfig};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

/// "Reserved environment variables [...] The keys for these environment variables are reserved and
/// cannot be set in your function configuration."
const RESERVED: [&str; 20] = [
    "_HANDLER",
    "_X_AMZN_TRACE_ID",
    "AWS_DEFAULT_REGION",
    "AWS_REGION",
    "AWS_EXECUTION_ENV",
    "AWS_LAMBDA_FUNCTION_NAME",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
    "AWS_LAMBDA_FUNCTION_VERSION",
    "AWS_LAMBDA_INITIALIZATION_TYPE",
    "AWS_LAMBDA_LOG_GROUP_NAME",
    "AWS_LAMBDA_LOG_STREAM_NAME",
    "AWS_LAMBDA_MAX_CONCURRENCY",
    "AWS_LAMBDA_METADATA_API",
    "AWS_LAMBDA_METADATA_TOKEN",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_LAMBDA_RUNTIME_API",
    "LAMBDA_TASK_ROOT",
    "LAMBDA_RUNTIME_DIR",
];

/// Refuses a configuration that Lambda would refuse.
pub(super) fn check(environment: &BTreeMap<String, String>) {
    for name in environment.keys() {
        assert!(!RESERVED.contains(&name.as_str()), "Lambda reserves the variable {name}");
    }
    // "The total size of all environment variables doesn't exceed 4 KB."
    let size: usize = environment.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!(size <= 4096, "Lambda refuses {size} bytes of variables; 4,096 are allowed");
}

/// All variables of a process.
pub(super) fn all(
    config: &FunctionConfig,
    environment: &BTreeMap<String, String>,
    runtime_api: &str,
    log_stream: &str,
) -> BTreeMap<OsString, OsString> {
    let task_root = config.program.parent().unwrap_or(Path::new("/"));
    let Credentials { access_key_id, secret_access_key, session_token } = &config.credentials;
    let mut all: BTreeMap<OsString, OsString> = [
        ("_HANDLER", "bootstrap".into()),
        ("AWS_DEFAULT_REGION", config.region.clone()),
        ("AWS_REGION", config.region.clone()),
        ("AWS_LAMBDA_FUNCTION_NAME", config.name.clone()),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", config.memory_mb.to_string()),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".into()),
        ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand".into()),
        ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{}", config.name)),
        ("AWS_LAMBDA_LOG_STREAM_NAME", log_stream.to_owned()),
        ("AWS_ACCESS_KEY_ID", access_key_id.clone()),
        ("AWS_SECRET_ACCESS_KEY", secret_access_key.clone()),
        ("AWS_SESSION_TOKEN", session_token.clone()),
        ("AWS_LAMBDA_RUNTIME_API", runtime_api.to_owned()),
        ("LAMBDA_RUNTIME_DIR", "/var/runtime".into()),
        ("LANG", "en_US.UTF-8".into()),
        ("TZ", ":UTC".into()),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into();
    all.insert("LAMBDA_TASK_ROOT".into(), task_root.into());
    all.insert("PATH".into(), config.path.clone());
    // "Unreserved environment variables", such as PATH and LANG, may be set by the configuration.
    all.extend(environment.iter().map(|(name, value)| (name.into(), value.into())));
    all
}
