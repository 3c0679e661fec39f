//! A private OCI registry on this machine: the real `registry`, with a user and a password.

use super::git_host::GitHost;
use crate::harness::programs;
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_mins(1);
/// `right-password`, by `crypt` with 2^4 rounds.
const USER: &str = "robot:$2b$04$RvnWZBRbJnxJ7FNpQVC0Pu/HCiT4t5NiAAsYc/gjWDnK5v2Sf.ZdW\n";

/// The registry. Dropping it ends it.
pub(crate) struct OciRegistry {
    program: Child,
    address: String,
    authority: PathBuf,
}

impl OciRegistry {
    /// It has the certificate of `host`.
    pub(crate) fn start(host: &GitHost) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let path = |name: &str| host.path(name).display().to_string();
        let settings = format!(
            "version: 0.1\nlog: {{level: warn}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp:\n  addr: {address}\n  \
             tls: {{certificate: {}, key: {}}}\nauth: {{htpasswd: {{realm: acme, path: {}}}}}\n",
            path("registry"),
            path("cert.pem"),
            path("key.pem"),
            path("htpasswd")
        );
        fs::write(host.path("htpasswd"), USER).unwrap();
        fs::write(host.path("registry.yml"), settings).unwrap();
        let log = fs::File::create(host.path("registry.log")).unwrap();
        let registry = programs::find("registry")
            .expect("`scripts/setup all` installs `registry` beside `tofu`");
        let mut program = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(registry)
            .args(["serve", &path("registry.yml")])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while TcpStream::connect(&address).is_err() {
            let log = || fs::read_to_string(host.path("registry.log")).unwrap();
            assert!(program.try_wait().unwrap().is_none(), "the registry ended: {}", log());
            assert!(begun.elapsed() < LIMIT, "the registry does not listen: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { program, address, authority: host.path("ca.pem") }
    }

    /// `HOST:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Pushes a package of these files. Returns the SHA-256 of its manifest, in hexadecimal.
    #[track_caller]
    pub(crate) fn push(&self, repository: &str, tag: &str, files: &Value) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/private_sources/oci_push.py");
        let mut push = Command::new("python3");
        push.arg("-B").arg(script).arg(&self.address).arg(&self.authority).args([repository, tag]);
        let mut child = push.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(files.to_string().as_bytes()).unwrap();
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{repository}:{tag} was not pushed");
        let digest = String::from_utf8(done.stdout).unwrap();
        digest.trim().strip_prefix("sha256:").unwrap().to_owned()
    }
}

impl Drop for OciRegistry {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
