//! Canyon's functions in the AWS of `tests/cloud`, with the interface of one server.

use super::{processes, programs};
use canyon_api::client::Client;
use canyon_cloud::cloud::{self, Cloud, CloudConfig};
use canyon_cloud::region::OPERATOR_TOKEN;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Debug builds on a busy machine start slowly; an installation that does not start must not hang the
/// test.
const START: Duration = Duration::from_mins(3);
/// Two seconds stand for a minute of AWS.
const SCALE: u32 = 30;

/// A running installation. Dropping it ends the installation and its jobs.
pub(crate) struct Server {
    folder: TempDir,
    cloud: Option<Arc<Cloud>>,
    /// The tests block their threads while they wait for the command line; this runtime serves
    /// meanwhile.
    runtime: Option<Runtime>,
    url: String,
    token: SecretString,
    org: String,
}

impl Server {
    /// Starts the programs that were built.
    pub(crate) async fn start() -> Self {
        Self::start_with(&programs::built(), programs::search_path(None)).await
    }

    /// Starts with the runner of another folder, and another `PATH`.
    pub(crate) async fn start_with(programs: &Path, search_path: OsString) -> Self {
        let folder = tempfile::Builder::new().prefix("canyon-serverless-").tempdir().unwrap();
        let functions = programs::built();
        cloud::check_programs(&functions);
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let config = CloudConfig {
            programs: functions,
            runner: programs.join("canyon-runner"),
            path: search_path,
            folder: data,
            scale: SCALE,
            seed: 1,
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.unwrap();
        let cloud = runtime.spawn(Cloud::start(config)).await.unwrap();
        let mut server = Self {
            folder,
            url: cloud.url(),
            cloud: Some(Arc::new(cloud)),
            runtime: Some(runtime),
            token: String::new().into(),
            org: String::new(),
        };
        server.make_organization().await;
        server
    }

    /// Creates the organization, as the platform team does after its first `sam deploy`.
    async fn make_organization(&mut self) {
        let made = self.new_organization().await;
        made["id"].as_str().unwrap().clone_into(&mut self.org);
        self.token = made["admin_token"].as_str().unwrap().into();
        self.cloud().jobs_belong_to(made["uuid"].as_str().unwrap().parse().unwrap());
    }

    /// Creates a further organization.
    pub(crate) async fn new_organization(&self) -> Value {
        let deadline = Instant::now() + START;
        loop {
            let request = reqwest::Client::new().post(format!("{}/orgs", self.url));
            let answer = request.bearer_auth(OPERATOR_TOKEN).send().await.unwrap();
            let status = answer.status();
            let said = answer.text().await.unwrap();
            if status.is_success() {
                return serde_json::from_str(&said).unwrap();
            }
            assert!(Instant::now() < deadline, "{status} {said}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until it answers.
    pub(crate) async fn answers(&mut self) {
        let deadline = Instant::now() + START;
        let client = self.client();
        while let Err(error) = client.list(&["env-types"], &[]).await {
            assert!(Instant::now() < deadline, "it does not answer: {error}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The installation, for tests of functions that `canyon local` does not have.
    pub(crate) fn cloud(&self) -> &Arc<Cloud> {
        self.cloud.as_ref().expect("it runs until it is dropped")
    }

    /// Kills every function as `kill -9` does. Jobs go on.
    pub(crate) fn kill(&mut self) {
        let cloud = self.cloud().clone();
        let down = self.runtime.as_ref().unwrap().spawn(async move { cloud.go_down().await });
        // The test's own runtime may run on this thread.
        let waiter = std::thread::spawn(move || futures::executor::block_on(down));
        waiter.join().unwrap().unwrap();
    }

    /// The same as [`Self::kill`]: functions get no notice of their end.
    pub(crate) fn stop(&mut self) {
        self.kill();
    }

    /// Starts the functions again.
    pub(crate) async fn restart(&mut self) {
        self.start_again();
        self.answers().await;
    }

    /// The same without waiting.
    pub(crate) fn start_again(&mut self) {
        self.cloud().come_up();
    }

    /// A client with the rights of an administrator.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url(), &self.org, self.token.clone()).unwrap()
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn token(&self) -> &str {
        self.token.expose_secret()
    }

    pub(crate) fn org(&self) -> &str {
        &self.org
    }

    /// The folder of jobs and logs.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A path for the test's own files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The functions' logs, for the message of a failing test.
    pub(crate) fn log(&self) -> String {
        self.cloud().log()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Printed for the reader of the failure: the folder is deleted next.
            println!("{}", self.log());
        }
        self.cloud = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        processes::kill_jobs(&self.data());
    }
}
