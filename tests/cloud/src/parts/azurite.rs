//! Azure Blob Storage, with real checks of leases, metadata and signatures.
//!
//! Its clients reach it only as `https://<account>.blob.core.windows.net`. So Azurite has a
//! certificate for that name, and a proxy that accepts `CONNECT` forwards every name to it.

use super::{Part, free_port};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use jiff::Timestamp;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// The storage account.
pub const ACCOUNT: &str = "canyonstates";

/// A storage account without containers.
#[derive(Debug)]
pub struct Azurite {
    part: Part,
    address: String,
    key: Vec<u8>,
    proxy: String,
    proxying: JoinHandle<()>,
}

impl Azurite {
    /// Starts the program that `CANYON_TEST_AZURITE` names, and the proxy in front of it.
    ///
    /// # Panics
    /// If they do not start.
    pub async fn start() -> Self {
        let number = free_port().to_string();
        let address = format!("127.0.0.1:{number}");
        let key = [Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()].concat();
        let accounts = format!("{ACCOUNT}:{}", STANDARD.encode(&key));
        let command_line = |folder: &Path| {
            certify(folder);
            let words = [
                "--blobHost 127.0.0.1 --blobPort",
                &number,
                "--cert certificate.pem --key key.pem --location data --disableTelemetry",
                "--skipApiVersionCheck",
            ];
            words.iter().flat_map(|words| words.split(' ')).map(str::to_owned).collect()
        };
        let variables = [("AZURITE_ACCOUNTS", accounts.as_str())];
        let started = Part::start("Azurite", "CANYON_TEST_AZURITE", command_line, &variables);
        let mut part = started.await;
        part.until(|| async { TcpStream::connect(&address).await.ok() }).await;
        let (proxy, proxying) = lead_all_to(address.clone()).await;
        Self { part, address, key, proxy, proxying }
    }

    /// The proxy's URL, for `HTTPS_PROXY`.
    pub fn proxy(&self) -> &str {
        &self.proxy
    }

    /// The certificate to trust, for `SSL_CERT_FILE`.
    pub fn certificate(&self) -> PathBuf {
        self.part.folder.path().join("certificate.pem")
    }

    /// The account's key, for `ARM_ACCESS_KEY`.
    pub fn access_key(&self) -> String {
        STANDARD.encode(&self.key)
    }

    /// Creates a container.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn create_container(&self, name: &str) {
        let date = Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let version = "2021-12-02";
        // "Authorize with Shared Key", Azure Storage REST API: the verb, eleven headers that are
        // empty, the `x-ms-` headers, and the resource.
        let text = format!(
            "PUT{}x-ms-date:{date}\nx-ms-version:{version}\n/{ACCOUNT}/{name}\nrestype:container",
            "\n".repeat(12)
        );
        let signature = STANDARD.encode(self.sign(&text));
        let address = self.address.parse().unwrap_or_else(|error| panic!("{error}"));
        let pem = std::fs::read(self.certificate()).unwrap_or_else(|error| panic!("{error}"));
        let trusted = reqwest::Certificate::from_pem(&pem);
        let host = format!("{ACCOUNT}.blob.core.windows.net");
        let client = reqwest::Client::builder()
            .no_proxy()
            .resolve(&host, address)
            .add_root_certificate(trusted.unwrap_or_else(|error| panic!("{error}")))
            .build()
            .unwrap_or_else(|error| panic!("{error}"));
        let sent = client
            .put(format!("https://{host}:{}/{name}?restype=container", address.port()))
            .header("x-ms-date", date)
            .header("x-ms-version", version)
            .header("authorization", format!("SharedKey {ACCOUNT}:{signature}"))
            .header("content-length", "0")
            .send()
            .await;
        let status = sent.map(|response| response.status());
        let made = matches!(status, Ok(StatusCode::CREATED));
        assert!(made, "cannot create the container {name}: {status:?}\n{}", self.log());
    }

    /// HMAC with SHA-256.
    fn sign(&self, text: &str) -> Vec<u8> {
        let mut key = "hexkey:".to_owned();
        for byte in &self.key {
            // Writing to a String cannot fail.
            let _ = write!(key, "{byte:02x}");
        }
        let folder = self.part.folder.path();
        let arguments = ["dgst", "-sha256", "-mac", "HMAC", "-macopt", &key, "-binary"];
        openssl(folder, &arguments, text).stdout
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        self.part.log()
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        self.proxying.abort();
    }
}

/// A self-signed certificate for the account's name, which clients must trust directly.
fn certify(folder: &Path) {
    let name = format!("subjectAltName=DNS:{ACCOUNT}.blob.core.windows.net");
    let arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
                     -keyout key.pem -out certificate.pem -subj /CN=canyon-test \
                     -addext basicConstraints=critical,CA:FALSE -addext";
    let arguments: Vec<_> = arguments.split_whitespace().chain([name.as_str()]).collect();
    openssl(folder, &arguments, "");
}

fn openssl(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let run = || {
        let mut child = Command::new("openssl")
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        child.wait_with_output()
    };
    let output = run().unwrap_or_else(|error| panic!("cannot run openssl: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments:?}: {said}");
    output
}

/// A proxy that connects every tunnel to `address`.
async fn lead_all_to(address: String) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.unwrap_or_else(|error| panic!("no proxy: {error}"));
    let own = listener.local_addr().unwrap_or_else(|error| panic!("no proxy: {error}"));
    let proxying = tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(tunnel(client, address.clone()));
        }
    });
    (format!("http://{own}"), proxying)
}

async fn tunnel(mut client: TcpStream, address: String) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let mut server = TcpStream::connect(address).await?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
