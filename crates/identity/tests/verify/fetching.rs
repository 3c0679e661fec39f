//! Addresses that Canyon connects to for an issuer's keys, and answers that it accepts. The hosts
//! that it must not reach are traps on this machine, which count connections.

use crate::issuer::Issuer;
use async_trait::async_trait;
use canyon_domain::trust_policy::IssuerUrl;
use canyon_identity::verify::{Fetch as _, FetchError, Fetcher, KeySet, PrivateIssuers, Resolve};
use std::io;
use std::io::{BufRead as _, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// Answers each lookup with the next of its lists, then always with the last one.
struct Names {
    answers: Mutex<Vec<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Names {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parsed = answers.iter().map(|list| list.iter().map(|it| it.parse().unwrap()).collect());
        Arc::new(Self { answers: Mutex::new(parsed.collect()), asked: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
    }
}

/// Counts connections to a port of this machine, on every address that it has.
async fn trap() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("[::]:0").await.unwrap();
    let (port, caught) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counter = caught.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, caught)
}

async fn fetch(fetcher: &Fetcher, url: &str) -> Result<KeySet, FetchError> {
    let started = Instant::now();
    let got = fetcher.fetch(&IssuerUrl::new(url).unwrap()).await;
    assert!(started.elapsed() < Duration::from_secs(15), "{url} took {:?}", started.elapsed());
    got
}

#[tokio::test]
async fn canyon_connects_to_no_address_of_a_private_network() {
    let (port, caught) = trap().await;
    // Checks that the trap works.
    assert!(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok());
    while caught.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let named: [&[&str]; 12] = [
        &["127.0.0.1"],
        &["169.254.169.254"],
        &["10.0.0.1"],
        &["0.0.0.0"],
        &["::1"],
        &["::"],
        &["::ffff:127.0.0.1"],
        &["::ffff:169.254.169.254"],
        &["64:ff9b::7f00:1"],
        &["fd00:ec2::254"],
        // One public address does not make the others acceptable.
        &["8.8.8.8", "127.0.0.1"],
        &["127.0.0.1", "2600::1"],
    ];
    for addresses in named {
        let fetcher = Fetcher::new(PrivateIssuers::default(), Names::new(&[addresses]));
        let got = fetch(&fetcher, &format!("https://issuer.example.com:{port}")).await;
        assert!(matches!(got, Err(FetchError::NotPublic)), "{addresses:?}: {got:?}");
    }
    let fetcher = Fetcher::new(PrivateIssuers::default(), Names::new(&[&["8.8.8.8"]]));
    for host in ["127.0.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "[fe80::1]"] {
        let got = fetch(&fetcher, &format!("https://{host}:{port}")).await;
        assert!(matches!(got, Err(FetchError::NotPublic)), "{host}: {got:?}");
    }
    assert_eq!(caught.load(Ordering::SeqCst), 1, "only the test itself connected");
}

#[tokio::test]
async fn a_name_is_resolved_once_and_a_later_change_of_its_address_has_no_effect() {
    let (port, caught) = trap().await;
    let names = Names::new(&[&["240.0.0.1"], &["127.0.0.1"]]);
    let fetcher = Fetcher::new(PrivateIssuers::default(), names.clone());
    let got = fetch(&fetcher, &format!("https://issuer.example.com:{port}")).await;
    assert!(matches!(got, Err(FetchError::NotPublic)));
    let names = Names::new(&[&["8.8.8.8"], &["127.0.0.1"]]);
    let fetcher = Fetcher::new(PrivateIssuers::default(), names.clone());
    assert!(fetch(&fetcher, &format!("https://issuer.example.com:{port}")).await.is_err());
    assert_eq!(names.asked.load(Ordering::SeqCst), 1, "the connection goes to the checked address");
    assert_eq!(caught.load(Ordering::SeqCst), 0);
}

/// A server on this machine with a path for each attack; `hostile_issuer.py` lists them.
struct Hostile {
    child: Child,
    port: u16,
    authority: PathBuf,
    folder: TempDir,
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Hostile {
    fn start(jwks: &str, trap: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let python = std::env::var("CANYON_TEST_AWS_PYTHON")
            .expect("set CANYON_TEST_AWS_PYTHON; scripts/test does, scripts/setup installs it");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verify/hostile_issuer.py");
        let mut child = Command::new(python)
            .args(["-B", script])
            .arg(folder.path())
            .args([jwks, &trap.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let authority = folder.path().join("hostile-ca.pem");
        Self { child, port: port.trim().parse().unwrap(), authority, folder }
    }

    fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}/{path}", self.port)
    }

    fn fetcher(&self, issuers: &[&str], authority: Option<PathBuf>) -> Fetcher {
        let issuers: Vec<_> = issuers.iter().map(|path| self.url(path)).collect();
        let private = PrivateIssuers::new(&issuers, authority).unwrap();
        Fetcher::new(private, Names::new(&[&["127.0.0.1"]]))
    }

    /// The number of bytes that it sent.
    fn sent(&self, what: &str) -> u64 {
        let path = self.folder.path().join(what);
        std::fs::read_to_string(path).map_or(0, |text| text.trim().parse().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_a_hostile_issuer_cost_little_and_cause_no_other_connection() {
    let (port, caught) = trap().await;
    let jwks = Issuer::new().jwks();
    let hostile = Hostile::start(&jwks.to_string(), port);
    let (elsewhere, document) =
        ("not an https address of the same host", "of another issuer, or is not valid");
    let (too_much, compressed) = ("it sent more than 64 KiB", "it sent compressed data");
    // The time limit for one document, or that for both.
    let too_late = "timed out|took too long";
    let harm = [
        ("redirect", "it answered 302"),
        ("redirected-keys", "it answered 302"),
        ("elsewhere", elsewhere),
        ("plain-keys", elsewhere),
        ("user-keys", elsewhere),
        ("other-host", elsewhere),
        ("other-port", elsewhere),
        ("file", elsewhere),
        ("other-issuer", document),
        ("no-json", document),
        ("twice", document),
        ("endless", too_much),
        ("endless-chunks", too_much),
        ("endless-keys", too_much),
        ("slow", too_late),
        ("slow-keys", too_late),
        ("silent", too_late),
        ("gzip", compressed),
        ("bomb", compressed),
        ("status", "it answered 203"),
        ("many-keys", "its key set has more than 64 keys"),
        ("no-keys", "its key set has no key for"),
        ("private-keys", "its key set holds a private or symmetric key"),
    ];
    let paths: Vec<_> = ["good"].into_iter().chain(harm.map(|(path, _)| path)).collect();
    let fetcher = hostile.fetcher(&paths, Some(hostile.authority.clone()));
    let good = fetch(&fetcher, &hostile.url("good")).await.unwrap();
    assert_eq!(good, KeySet::from_value(&jwks).unwrap());
    for (path, expected) in harm {
        let message = fetch(&fetcher, &hostile.url(path)).await.unwrap_err().to_string();
        assert!(expected.split('|').any(|text| message.contains(text)), "{path}: {message}");
    }
    assert_eq!(caught.load(Ordering::SeqCst), 0, "no redirect was followed");
    // It tries to send 10 GiB; what it sent and Canyon did not read is in buffers of the system.
    for mode in ["endless", "endless-chunks", "endless-keys"] {
        let sent = hostile.sent(mode);
        assert!((1..64 << 20).contains(&sent), "{mode}: {sent}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_issuers_that_the_operator_lists_may_be_on_a_private_network_and_use_its_authority() {
    let hostile = Hostile::start(&Issuer::new().jwks().to_string(), 1);
    let good = hostile.url("good");
    let authority = || Some(hostile.authority.clone());
    assert!(fetch(&hostile.fetcher(&["good"], authority()), &good).await.is_ok());
    let unnamed = fetch(&hostile.fetcher(&["other"], authority()), &good).await;
    assert!(matches!(unnamed, Err(FetchError::NotPublic)), "{unnamed:?}");
    let untrusted = fetch(&hostile.fetcher(&["good"], None), &good).await;
    assert!(matches!(untrusted, Err(FetchError::Failed(_))), "{untrusted:?}");
    assert!(PrivateIssuers::new(&["http://a.com".to_owned()], None).is_err());
    let missing = PrivateIssuers::new(&[], Some(Path::new("no-such-file").to_owned()));
    assert!(missing.unwrap_err().to_string().contains("no-such-file"));
}
