//! `canyon local`, in a process of its own.

use super::{processes, programs};
use canyon_api::client::Client;
use secrecy::{ExposeSecret as _, SecretString};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A debug build on a busy machine starts slowly; a server that does not start must not hang the test.
const START: Duration = Duration::from_mins(2);

/// A running server. Dropping it ends the server and its jobs.
pub(crate) struct Server {
    folder: TempDir,
    program: PathBuf,
    search_path: OsString,
    variables: Vec<(&'static str, String)>,
    child: Child,
    address: String,
    token: SecretString,
    org: String,
}

impl Server {
    /// Starts the programs that were built.
    pub(crate) async fn start() -> Self {
        Self::start_with(&programs::built(), programs::search_path(None)).await
    }

    /// Starts the programs of another folder, with another `PATH`.
    pub(crate) async fn start_with(programs: &Path, search_path: OsString) -> Self {
        Self::start_in(programs, search_path, Vec::new()).await
    }

    /// Starts the programs that were built, with further settings.
    pub(crate) async fn start_with_settings(variables: Vec<(&'static str, String)>) -> Self {
        Self::start_in(&programs::built(), programs::search_path(None), variables).await
    }

    async fn start_in(
        programs: &Path,
        search_path: OsString,
        variables: Vec<(&'static str, String)>,
    ) -> Self {
        let folder = tempfile::Builder::new().prefix("canyon-e2e-").tempdir().unwrap();
        let program = programs.join("canyon");
        let child = spawn(&program, &search_path, &variables, folder.path(), "127.0.0.1:0");
        let mut server = Self {
            folder,
            program,
            search_path,
            variables,
            child,
            address: String::new(),
            token: String::new().into(),
            org: String::new(),
        };
        server.read_environment().await;
        server.answers().await;
        server
    }

    async fn read_environment(&mut self) {
        let deadline = Instant::now() + START;
        let path = self.data().join("env");
        let text = loop {
            match fs::read_to_string(&path) {
                Ok(text) => break text,
                Err(_) if Instant::now() < deadline => self.pause("write its `env` file").await,
                Err(error) => panic!("no {}: {error}\n{}", path.display(), self.log()),
            }
        };
        let value = |name: &str| {
            let start = format!("export {name}=");
            let found = text.lines().find_map(|line| line.strip_prefix(&start));
            found.unwrap_or_else(|| panic!("no {name} in {}", path.display())).to_owned()
        };
        value("CANYON_API_URL").trim_start_matches("http://").clone_into(&mut self.address);
        self.org = value("CANYON_ORG");
        self.token = value("CANYON_TOKEN").into();
    }

    /// Waits until it answers.
    pub(crate) async fn answers(&mut self) {
        let deadline = Instant::now() + START;
        let client = self.client();
        while let Err(error) = client.list(&["env-types"], &[]).await {
            assert!(Instant::now() < deadline, "it does not answer: {error}\n{}", self.log());
            self.pause("answer").await;
        }
    }

    async fn pause(&mut self, for_what: &str) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("`canyon local` ended ({status}) before it could {for_what}\n{}", self.log());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    /// Kills the server as `kill -9` does. Its jobs go on.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks the server to end, and waits.
    pub(crate) fn stop(&mut self) {
        processes::signal(self.child.id().cast_signed(), rustix::process::Signal::TERM);
        self.child.wait().unwrap();
    }

    /// Starts the server again on the same port and folder.
    pub(crate) async fn restart(&mut self) {
        self.start_again();
        self.answers().await;
    }

    /// Starts the server again without waiting for it.
    pub(crate) fn start_again(&mut self) {
        let (program, path) = (&self.program, &self.search_path);
        self.child = spawn(program, path, &self.variables, self.folder.path(), &self.address);
    }

    /// A client with the rights of an administrator.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url(), &self.org, self.token.clone()).unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn token(&self) -> &str {
        self.token.expose_secret()
    }

    pub(crate) fn org(&self) -> &str {
        &self.org
    }

    /// The server's data folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A path for the test's own files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The server's log, for the message of a failing test.
    pub(crate) fn log(&self) -> String {
        let text = fs::read_to_string(self.path("server.log")).unwrap_or_default();
        let start = text.char_indices().rev().nth(6_000).map_or(0, |(at, _)| at);
        format!("--- the server's log\n{}", &text[start..])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        processes::kill_jobs(&self.data());
        if std::thread::panicking() {
            // Printed for the reader of the failure: the folder is deleted next.
            println!("{}", self.log());
            return;
        }
        // Without exception: `canyon local` names the file that holds its token, and never prints the
        // token.
        let said = fs::read(self.path("server.log")).unwrap();
        programs::assert_no_secret("the server's log", &String::from_utf8_lossy(&said));
    }
}

fn spawn(
    program: &Path,
    search_path: &OsString,
    variables: &[(&'static str, String)],
    folder: &Path,
    listen: &str,
) -> Child {
    let log = OpenOptions::new().create(true).append(true).open(folder.join("server.log")).unwrap();
    // The process ends with the thread of its test, even if the whole test run is killed.
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .args(programs::of_a_user())
        .arg("--")
        .args(programs::WITH_A_DESCRIPTOR)
        .arg(program)
        .args(["local", "--listen", listen, "--data-dir"])
        .arg(folder.join("data"))
        .env_clear()
        .env("PATH", search_path)
        .env("HOME", folder)
        .env("CANYON_LOG", "info")
        .envs(variables.iter().cloned())
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()))
}
