//! `canyon local` at an address that pods reach, as the issuer that the cluster trusts.

use super::bed::bed;
use super::{processes, programs};
use canyon_api::client::Client;
use secrecy::{ExposeSecret as _, SecretString};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const START: Duration = Duration::from_mins(2);

/// A setting: the file that replaces `/etc/hosts` for the server.
pub(crate) const HOSTS_FILE: &str = "HOSTS_FILE";
/// Replaces that file for one process and what it starts.
const WITH_HOSTS: &str =
    r#"[ -z "$HOSTS_FILE" ] || mount --bind "$HOSTS_FILE" /etc/hosts; exec "$0" "$@""#;

/// Further settings of the server.
pub(crate) type Variables = BTreeMap<String, String>;

/// A running server. Dropping it ends the server.
pub(crate) struct Server {
    folder: TempDir,
    variables: Variables,
    child: Child,
    address: String,
    token: SecretString,
    org: String,
}

impl Server {
    pub(crate) async fn start_with(variables: Variables) -> Self {
        Self::start_at(bed().get("NODE_ADDRESS"), variables).await
    }

    /// Starts the server at an address of this machine.
    pub(crate) async fn start_at(ip: &str, variables: Variables) -> Self {
        let folder = tempfile::Builder::new().prefix("canyon-clusters-").tempdir().unwrap();
        let keys = folder.path().join("data/keys");
        fs::create_dir_all(&keys).unwrap();
        // The copy gets the mode of the original, and no other user may read it.
        fs::copy(bed().get("ISSUER_KEY"), keys.join("issuer.pk8")).unwrap();
        let address = format!("{ip}:0");
        let child = spawn(&folder, &variables, &address);
        let (token, org) = (String::new().into(), String::new());
        let mut server = Self { folder, variables, child, address, token, org };
        server.read_environment().await;
        server.answers().await;
        // The API server asks the Canyon that started last: they all sign with one key.
        let target = PathBuf::from(bed().get("ISSUER_TARGET_FILE"));
        let new = target.with_extension(&server.address);
        fs::write(&new, &server.address).unwrap();
        fs::rename(&new, &target).unwrap();
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

    async fn answers(&mut self) {
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

    /// Starts the server again on the same port and folder.
    pub(crate) async fn restart(&mut self) {
        self.child = spawn(&self.folder, &self.variables, &self.address);
        self.answers().await;
    }

    /// A client with the rights of an administrator.
    pub(crate) fn client(&self) -> Client {
        self.client_of(self.token())
    }

    /// A client with this token or code.
    pub(crate) fn client_of(&self, token: &str) -> Client {
        Client::new(&self.url(), &self.org, token.into()).unwrap()
    }

    /// The token of its administrator, which no object in the cluster may show.
    pub(crate) fn token(&self) -> &str {
        self.token.expose_secret()
    }

    /// Its organization.
    pub(crate) fn org(&self) -> &str {
        &self.org
    }

    /// The address for pods and the command line.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn data(&self) -> PathBuf {
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
            println!("{}", self.log());
        }
    }
}

fn spawn(folder: &TempDir, variables: &Variables, listen: &str) -> Child {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.path().join("server.log"))
        .unwrap();
    // The process ends with the thread of its test, even if the whole test run is killed.
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "unshare", "--mount", "sh", "-ec", WITH_HOSTS])
        .arg(programs::built().join("canyon"))
        .args(["local", "--listen", listen, "--issuer-url", bed().get("ISSUER_URL")])
        .args(["--runner-image", bed().get("RUNNER_IMAGE"), "--data-dir"])
        .arg(folder.path().join("data"))
        .env_clear()
        .env("PATH", programs::search_path(None))
        .env("HOME", folder.path())
        .env("CANYON_LOG", "info,canyon_functions::http::access=warn")
        .envs(variables)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start `canyon`: {error}"))
}
