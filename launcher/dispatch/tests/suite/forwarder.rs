//! Network parts between Canyon and a cluster: a forwarder that can lose answers, a proxy, an
//! issuer's server.

use crate::bed::{Facts, issuer_of_canyon};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::spawn;

/// Forwards connections to a server.
pub(crate) struct Forwarder {
    pub(crate) address: SocketAddr,
    cuts: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
}

impl Forwarder {
    /// Listens at a free port of `host` and forwards to `server`, an https URL.
    pub(crate) fn at(host: &str, server: &str) -> Self {
        let server = server.trim_start_matches("https://").to_owned();
        let server = if server.contains(':') { server } else { format!("{server}:443") };
        Self::new(host, move |_| Some(server.clone()))
    }

    /// An HTTP proxy (`CONNECT`).
    pub(crate) fn proxy(host: &str) -> Self {
        Self::new(host, |client| {
            let mut lines = BufReader::new(client.try_clone().ok()?).lines();
            let first = lines.next()?.ok()?;
            // Skip the headers.
            lines.map_while(Result::ok).find(String::is_empty)?;
            let mut answer = client.try_clone().ok()?;
            answer.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
            Some(first.split_whitespace().nth(1)?.to_owned())
        })
    }

    fn new(host: &str, to: impl Fn(&TcpStream) -> Option<String> + Send + 'static) -> Self {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (cuts, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (cut, counted) = (cuts.clone(), count.clone());
        spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = to(&client).and_then(|server| TcpStream::connect(server).ok());
                let Some(server) = server else { continue };
                counted.fetch_add(1, Ordering::SeqCst);
                let ends = (client.try_clone().unwrap(), server.try_clone().unwrap());
                spawn(move || carry(client, server, &AtomicBool::new(false)));
                let cut = cut.clone();
                spawn(move || carry(ends.1, ends.0, &cut));
            }
        });
        Self { address, cuts, count }
    }

    /// From now on, answers are lost and their connections closed.
    pub(crate) fn cut(&self, cuts: bool) {
        self.cuts.store(cuts, Ordering::SeqCst);
    }

    pub(crate) fn connections(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, cut: &AtomicBool) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if cut.load(Ordering::SeqCst) || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Serves the discovery document and keys of Canyon's issuer, as a running Canyon does.
pub(crate) async fn issuer(facts: &Facts) -> SocketAddr {
    let issuer = issuer_of_canyon();
    let (discovery, keys) =
        (issuer.discovery().to_string(), issuer.jwks().await.unwrap().to_string());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut lines =
                BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            lines.find(String::is_empty);
            let body = if first.contains("openid-configuration") { &discovery } else { &keys };
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            let _ = client.write_all(answer.as_bytes());
        }
    });
    // Atomically, because another test may write the file at the same time.
    let target = Path::new(facts.get("ISSUER_TARGET_FILE"));
    let new = target.with_extension(address.port().to_string());
    std::fs::write(&new, address.to_string()).unwrap();
    std::fs::rename(&new, target).unwrap();
    address
}
