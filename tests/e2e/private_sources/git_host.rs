//! A private git host on this machine: real git over HTTPS with tokens, and real sshd with a key.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_mins(1);

/// The host. Dropping it ends its servers.
pub(crate) struct GitHost {
    folder: tempfile::TempDir,
    ip: String,
    https: Child,
    sshd: Child,
    https_port: u16,
    ssh_port: u16,
}

impl GitHost {
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1")
    }

    /// The host at an address of this machine. Its sshd listens on the loopback address all the same.
    pub(crate) fn start_at(ip: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("canyon-git-").tempdir().unwrap();
        let at = folder.path();
        let new = ["req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "2"];
        let authority = ["-subj", "/CN=Authority", "-keyout", "ca-key.pem", "-out", "ca.pem"];
        run(at, "openssl", &[&new[..], &authority].concat());
        let name = format!("subjectAltName=IP:{ip}");
        let names = ["-subj", "/CN=git", "-addext", &name];
        let kind = [
            "-addext",
            "basicConstraints=critical,CA:false",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca-key.pem",
        ];
        let files = ["-keyout", "key.pem", "-out", "cert.pem"];
        run(at, "openssl", &[&new[..], &names, &kind, &files].concat());
        run(at, "openssl", &["genrsa", "-traditional", "-out", "app-key.pem", "2048"]);
        run(at, "openssl", &["rsa", "-in", "app-key.pem", "-pubout", "-out", "app.pem"]);
        for key in ["host_key", "id", "other_key"] {
            run(at, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", key]);
        }
        fs::copy(at.join("id.pub"), at.join("authorized_keys")).unwrap();
        fs::write(at.join("tokens.json"), "{}").unwrap();
        fs::DirBuilder::new().mode(0o755).create(at.join("repositories")).unwrap();
        let mut https = python(at, ip);
        let mut line = String::new();
        BufReader::new(https.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let https_port = line.trim().parse().unwrap();
        let (sshd, ssh_port) = sshd(at);
        let ip = ip.to_owned();
        Self { folder, ip, https, sshd, https_port, ssh_port }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `https://HOST:PORT/` and a path.
    pub(crate) fn https(&self, path: &str) -> String {
        format!("https://{}:{}/{path}", self.ip, self.https_port)
    }

    /// `ssh://USER@HOST:PORT/` and the path of a repository.
    pub(crate) fn ssh(&self, path: &str) -> String {
        let (user, root) = (user(), self.path("repositories"));
        format!("ssh://{user}@127.0.0.1:{}{}/{path}", self.ssh_port, root.display())
    }

    /// The lines of a `known_hosts` file for this host, with the key in `file`.
    pub(crate) fn known_hosts(&self, file: &str) -> String {
        let key = fs::read_to_string(self.path(file)).unwrap();
        let key = key.split(' ').take(2).collect::<Vec<_>>().join(" ");
        format!("[127.0.0.1]:{} {key}\n", self.ssh_port)
    }

    /// Decides which `user:token` may read the repositories below each path.
    pub(crate) fn accept_tokens(&self, tokens: &[(&str, &str)]) {
        let tokens: std::collections::BTreeMap<_, _> = tokens.iter().copied().collect();
        fs::write(self.path("tokens.json"), serde_json::to_vec(&tokens).unwrap()).unwrap();
    }

    /// Lets `aws` and `azure` in place of a token stand for what the clouds at `url` have given.
    pub(crate) fn trust_clouds(&self, url: &str) {
        fs::write(self.path("clouds"), url).unwrap();
    }

    /// Adds a bare repository with one commit of `main.tf`.
    pub(crate) fn add(&self, name: &str, code: &str) {
        let tree = self.path("tree");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("main.tf"), code).unwrap();
        let author = ["-c", "user.name=T", "-c", "user.email=t@localhost"];
        run(&tree, "git", &["init", "-q", "-b", "main"]);
        run(&tree, "git", &["add", "main.tf"]);
        run(&tree, "git", &[&author[..], &["commit", "-q", "-m", name]].concat());
        let bare = self.path("repositories").join(name);
        run(&tree, "git", &["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
        fs::remove_dir_all(&tree).unwrap();
    }

    /// Adds a submodule at `folder` of a repository. Its address is relative to that of the repository.
    pub(crate) fn add_submodule(&self, name: &str, folder: &str, address: &str) {
        let (tree, bare) = (self.path("tree"), self.path("repositories").join(name));
        run(self.folder.path(), "git", &["clone", "-q", bare.to_str().unwrap(), "tree"]);
        let by = [
            "-c",
            "user.name=T",
            "-c",
            "user.email=t@localhost",
            "-c",
            "protocol.file.allow=always",
        ];
        let add = ["submodule", "--quiet", "add", address, folder];
        run(&tree, "git", &[&by[..], &add].concat());
        run(&tree, "git", &[&by[..], &["commit", "-q", "-m", "submodule"]].concat());
        run(&tree, "git", &["push", "-q", "origin", "HEAD"]);
        fs::remove_dir_all(&tree).unwrap();
    }
}

impl Drop for GitHost {
    fn drop(&mut self) {
        for child in [&mut self.https, &mut self.sshd] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn python(folder: &Path, ip: &str) -> Child {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/private_sources/git_host.py");
    let mut python = Command::new("python3");
    python.arg("-B").arg(program).arg(folder).arg(ip);
    python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// sshd with its own keys and settings, and without those of the machine.
fn sshd(folder: &Path) -> (Child, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = folder.display();
    let settings = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey {at}/host_key\nAuthorizedKeysFile {at}/authorized_keys\nPidFile none\n\
         StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
    );
    fs::write(folder.join("sshd_config"), settings).unwrap();
    let log = fs::File::create(folder.join("sshd.log")).unwrap();
    let mut sshd = Command::new("/usr/sbin/sshd");
    sshd.args(["-D", "-e", "-f"]).arg(folder.join("sshd_config"));
    let mut child =
        sshd.stdin(Stdio::null()).stderr(log).spawn().expect("scripts/setup installs sshd");
    let begun = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        let log = || fs::read_to_string(folder.join("sshd.log")).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "sshd ended: {}", log());
        assert!(begun.elapsed() < LIMIT, "sshd does not listen: {}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
    (child, port)
}

fn user() -> String {
    let done = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

#[track_caller]
fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {arguments:?}: {text}");
}
