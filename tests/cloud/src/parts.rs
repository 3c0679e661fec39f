//! Real programs that stand in for services of AWS, and for the storage of others. Each listens on loopback only.
//! Dropping its value ends it.

pub mod azurite;
pub mod cloudformation;
pub mod dynamodb_local;
pub mod fake_gcs;
pub mod minio;
pub mod moto;
pub mod vault;

use crate::process::Process;
use http::StatusCode;
use std::fs;
use std::future::Future;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A debug machine that also compiles is slow; a program that does not start must not hang the tests.
const START: Duration = Duration::from_mins(3);
/// Below the ports that the system assigns to sockets without one (`ip_local_port_range`, from 32768 on), so that no
/// socket takes a port before a slow program binds it.
const PORTS: Range<u16> = 25_000..30_000;

/// A running program with a folder of its own, which is deleted after it ends.
#[derive(Debug)]
struct Part {
    name: &'static str,
    process: Process,
    folder: TempDir,
}

impl Part {
    /// Starts the program at the path in `variable`.
    async fn start(
        name: &'static str,
        variable: &str,
        arguments: impl FnOnce(&Path) -> Vec<String>,
        variables: &[(&str, &str)],
    ) -> Self {
        let program = program(variable);
        let folder = tempfile::Builder::new().prefix("canyon-cloud-").tempdir();
        let folder = folder.unwrap_or_else(|error| panic!("no folder for {name}: {error}"));
        let started = async {
            let mut command = Process::command(&program, &folder.path().join("log"))?;
            command
                .args(arguments(folder.path()))
                .current_dir(folder.path())
                .env("HOME", folder.path())
                // The wrappers of these programs call other programs, such as Java.
                .env("PATH", std::env::var_os("PATH").unwrap_or_default())
                .envs(variables.iter().copied());
            Process::start(command).await
        };
        let process = started.await;
        let process = process.unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        Self { name, process, folder }
    }

    /// Waits until `answer` returns a value.
    async fn until<T, F>(&mut self, mut answer: impl FnMut() -> F) -> T
    where
        F: Future<Output = Option<T>>,
    {
        let deadline = Instant::now() + START;
        loop {
            if let Some(found) = answer().await {
                return found;
            }
            let ended = self.process.ended();
            assert!(ended.is_none(), "{} ended ({ended:?})\n{}", self.name, self.log());
            let late = Instant::now() > deadline;
            assert!(!late, "{} does not answer within {START:?}\n{}", self.name, self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until `url` answers with `status`.
    async fn until_answers(&mut self, url: &str, status: StatusCode) {
        let client = reqwest::Client::new();
        self.until(|| async {
            let response = client.get(url).timeout(Duration::from_secs(5)).send().await.ok()?;
            (response.status() == status).then_some(())
        })
        .await;
    }

    /// Its output so far.
    fn log(&self) -> String {
        log(self.folder.path())
    }
}

fn log(folder: &Path) -> String {
    let bytes = fs::read(folder.join("log")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The path in `variable`, which `scripts/test` sets.
fn program(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable).map(PathBuf::from);
    let path = path.unwrap_or_else(|| {
        panic!("{variable} is not set; run ./scripts/test, which installs and names everything")
    });
    assert!(path.is_file(), "{variable} names `{}`, which does not exist", path.display());
    path
}

/// A free port that this process has not given out before; processes beside it begin at other ports.
fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    // Processes that start together have similar ids.
    let first = std::process::id().wrapping_mul(97);
    let mut ports = (0..PORTS.len()).map(|_| {
        let place = first.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) as usize;
        PORTS.start + u16::try_from(place % PORTS.len()).unwrap_or_default()
    });
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports.find(is_free).unwrap_or_else(|| panic!("no port of {PORTS:?} is free"))
}
