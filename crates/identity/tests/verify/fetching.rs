//! Where Canyon connects to for an issuer's keys, and what it takes from there. The hosts that it must
//! not reach are traps on this machine, which count who comes.

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

/// Answers each look-up with the next of its lists, and the last one for ever.
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
async fn no_address_of_an_inner_network_is_connected_to() {
    let (port, caught) = trap().await;
    // That the trap works.
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
        // One good address does not make the others good.
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
    assert_eq!(caught.load(Ordering::SeqCst), 1, "only the test itself came");
}

#[tokio::test]
async fn a_name_that_changes_its_address_after_the_look_is_not_followed() {
    let (port, caught) = trap().await;
    let names = Names::new(&[&["240.0.0.1"], &["127.0.0.1"]]);
    let fetcher = Fetcher::new(PrivateIssuers::default(), names.clone());
    let got = fetch(&fetcher, &format!("https://issuer.example.com:{port}")).await;
    assert!(matches!(got, Err(FetchError::NotPublic)));
    let names = Names::new(&[&["8.8.8.8"], &["127.0.0.1"]]);
    let fetcher = Fetcher::new(PrivateIssuers::default(), names.clone());
    assert!(fetch(&fetcher, &format!("https://issuer.example.com:{port}")).await.is_err());
    assert_eq!(names.asked.load(Ordering::SeqCst), 1, "the connection goes to what was looked at");
    assert_eq!(caught.load(Ordering::SeqCst), 0);
}

/// A server of this machine whose paths each do something else; `hostile_issuer.py` lists them.
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

    /// What it has counted.
    fn sent(&self, what: &str) -> u64 {
        let path = self.folder.path().join(what);
        std::fs::read_to_string(path).map_or(0, |text| text.trim().parse().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_hostile_issuer_answers_costs_little_and_leads_nowhere() {
    let (port, caught) = trap().await;
    let jwks = Issuer::new().jwks();
    let hostile = Hostile::start(&jwks.to_string(), port);
    let (elsewhere, document) = ("no https address of the same host", "of another issuer, or none");
    let (too_much, compressed) = ("it sent more than 64 KiB", "it sent something compressed");
    // The time for one document, or that for both.
    let too_late = "timed out|took too long";
    let harm = [
        ("redirect", "it answered 302"),
        ("redirected-keys", "it answered 302"),
        ("elsewhere", elsewhere),
        ("plain-keys", elsewhere),
        ("user-keys", elsewhere),
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
        let said = fetch(&fetcher, &hostile.url(path)).await.unwrap_err().to_string();
        assert!(expected.split('|').any(|words| said.contains(words)), "{path}: {said}");
    }
    assert_eq!(caught.load(Ordering::SeqCst), 0, "nobody was sent on");
    // It was willing to send 10 GiB; the rest of what was sent lies in buffers of the system.
    for mode in ["endless", "endless-chunks", "endless-keys"] {
        let sent = hostile.sent(mode);
        assert!((1..64 << 20).contains(&sent), "{mode}: {sent}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_issuers_that_the_operator_names_may_be_on_an_inner_network_and_with_his_authority()
 {
    let hostile = Hostile::start(&Issuer::new().jwks().to_string(), 1);
    let good = hostile.url("good");
    let authority = || Some(hostile.authority.clone());
    assert!(fetch(&hostile.fetcher(&["good"], authority()), &good).await.is_ok());
    let unnamed = fetch(&hostile.fetcher(&["other"], authority()), &good).await;
    assert!(matches!(unnamed, Err(FetchError::NotPublic)), "{unnamed:?}");
    let unproved = fetch(&hostile.fetcher(&["good"], None), &good).await;
    assert!(matches!(unproved, Err(FetchError::Failed(_))), "{unproved:?}");
    assert!(PrivateIssuers::new(&["http://a.com".to_owned()], None).is_err());
    let missing = PrivateIssuers::new(&[], Some(Path::new("no-such-file").to_owned()));
    assert!(missing.unwrap_err().to_string().contains("no-such-file"));
}
