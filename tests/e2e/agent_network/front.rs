//! Canyon's address as a company serves it: over TLS, with a certificate of the company's own
//! authority.

use crate::harness::programs;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

/// The name in the certificate. It resolves nowhere (RFC 6761, section 6.4).
pub(super) const NAME: &str = "canyon.invalid";
const START: Duration = Duration::from_mins(2);
const NEW_KEY: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];

/// A running TLS server in front of Canyon. Dropping it ends the process.
pub(super) struct Front {
    child: Child,
    folder: TempDir,
    pub(super) address: SocketAddr,
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Front {
    /// Starts it in front of the server at this address.
    pub(super) fn of(url: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        make_certificates(folder.path());
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(programs::given("CANYON_TEST_AWS_PYTHON"))
            .args(["-B", concat!(env!("CARGO_MANIFEST_DIR"), "/serverless/tls_front.py")])
            .args(["127.0.0.1", "certificate", "key", url.trim_start_matches("http://")])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut front = Self { child, folder, address: ([127, 0, 0, 1], 0).into() };
        let port = front.first_line().trim().parse().unwrap();
        front.address.set_port(port);
        front
    }

    fn first_line(&mut self) -> String {
        let output = self.child.stdout.take().unwrap();
        let (sender, received) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(output).read_line(&mut line);
            let _ = sender.send(line);
        });
        received.recv_timeout(START).expect("it prints its port")
    }

    /// The file of the authority that signs its certificate.
    pub(super) fn authority(&self) -> PathBuf {
        self.folder.path().join("authority")
    }
}

fn make_certificates(folder: &Path) {
    let openssl = |command: &[&str], rest: &[&str]| {
        let arguments = command.iter().chain(rest);
        let made = Command::new("openssl").args(arguments).current_dir(folder).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    let authority = ["-subj", "/CN=company", "-keyout", "authority.key", "-out", "authority"];
    openssl(&["req", "-x509", "-days", "2", "-nodes"], &[&NEW_KEY[..], &authority].concat());
    let own = ["-subj", "/CN=canyon", "-keyout", "key", "-out", "request"];
    openssl(&["req", "-new", "-nodes"], &[&NEW_KEY[..], &own].concat());
    fs::write(folder.join("names"), format!("subjectAltName=DNS:{NAME}\n")).unwrap();
    openssl(
        &["x509", "-req", "-in", "request", "-CA", "authority", "-CAkey", "authority.key"],
        &["-set_serial", "0x1", "-days", "2", "-extfile", "names", "-out", "certificate"],
    );
}
