//! Creates the process of a job.

use super::{LocalSettings, folder::Folder};
use crate::Launch;
use rustix::fd::OwnedFd;
use secrecy::ExposeSecret;
use std::{
    collections::BTreeMap, ffi::OsString, fs::OpenOptions, io, os::unix::fs::OpenOptionsExt,
};
use tokio::process::{Child, Command};

/// The variables of Canyon's own environment that a job gets if they are set: for access to the
/// network, and for OpenTofu's providers.
const PASSED_ON: [&str; 12] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "TF_CLI_CONFIG_FILE",
    "TF_PLUGIN_CACHE_DIR",
];

/// The part of Canyon's own environment that jobs get.
pub fn inherited_environment() -> BTreeMap<OsString, OsString> {
    let value = |name: &&str| Some((OsString::from(name), std::env::var_os(name)?));
    PASSED_ON.iter().filter_map(value).collect()
}

/// Starts the runner. Its standard input is the lock, which it thereby holds as long as it lives.
pub(super) fn spawn(
    settings: &LocalSettings,
    folder: &Folder,
    launch: &Launch,
    lock: OwnedFd,
) -> io::Result<Child> {
    let output =
        OpenOptions::new().create(true).append(true).mode(0o600).open(folder.file("runner.log"))?;
    let mut command = Command::new(&settings.runner);
    // Other processes see only the runner's command line: by this argument they find it again; see
    // `super::tree`.
    command.arg(folder.path());
    command
        .current_dir(folder.file("work"))
        .env_clear()
        .envs(&settings.inherited)
        .env("PATH", &settings.path)
        .env("HOME", folder.path())
        .env("TMPDIR", folder.file("tmp"))
        .env("LANG", "C.UTF-8")
        .envs(launch.environment.iter().map(|(name, value)| (name, value.expose_secret())))
        .process_group(0)
        .stdin(lock)
        .stdout(output.try_clone()?)
        .stderr(output);
    command.spawn()
    // The command is dropped here, and with it this process's copy of the lock.
}
