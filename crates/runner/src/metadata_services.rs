//! Whether the metadata services of clouds answer where this process is: `canyon-runner metadata-services`.
//!
//! `canyon-agent check` runs it in a container like that of a job, because only there it shows what a job reaches. A
//! service that answers gives the machine's own credentials to every module.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The argument that asks for it.
pub const ARGUMENT: &str = "metadata-services";
/// The exit code if one answers; 0 if none does.
pub const REACHABLE: u8 = 10;

/// EC2, Google, Azure and most others; EC2 by IPv6; Google by IPv6.
const SERVICES: [&str; 3] = ["169.254.169.254:80", "[fd00:ec2::254]:80", "[fd20:ce::254]:80"];
/// For a connection, and for an answer. The services are a hop away.
const PATIENCE: Duration = Duration::from_secs(2);

/// What Google and Azure ask for, so that no page of a browser's reaches them. EC2 ignores it.
const LOOK: &str = "GET / HTTP/1.1\r\nMetadata-Flavor: Google\r\nMetadata: true\r\n";
/// EC2 where a token is needed (`HttpTokens=required`). With a hop limit of 1 its answer does not reach a container on a
/// bridge (EC2 User Guide, "Configure the Instance Metadata Service options"). The token ends after a second.
const ASK_FOR_TOKEN: &str = "PUT /latest/api/token HTTP/1.1\r\nX-aws-ec2-metadata-token-ttl-seconds: 1\r\nContent-Length: 0\r\n";
const UNAUTHORIZED: u16 = 401;

/// Those of `given`, or of the known services if none is given, that answer.
pub fn reachable(given: impl Iterator<Item = String>) -> Vec<SocketAddr> {
    let given: Vec<_> = given.collect();
    let known = SERVICES.map(str::to_owned);
    let all = if given.is_empty() { known.to_vec() } else { given };
    let addresses: Vec<SocketAddr> = all.iter().filter_map(|text| text.parse().ok()).collect();
    // Beside each other: an address without a route may take all of its time.
    let tried: Vec<_> = addresses
        .into_iter()
        .map(|address| std::thread::spawn(move || answers(address).then_some(address)))
        .collect();
    tried.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
}

fn answers(address: SocketAddr) -> bool {
    match status(address, LOOK) {
        Some(UNAUTHORIZED) => status(address, ASK_FOR_TOKEN).is_some(),
        Some(_) => true,
        None => false,
    }
}

/// The status code of the answer to these lines; none without an answer in time.
fn status(address: SocketAddr, lines: &str) -> Option<u16> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let request = format!("{lines}Host: {}\r\nConnection: close\r\n\r\n", address.ip());
    stream.write_all(request.as_bytes()).ok()?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    let head = std::str::from_utf8(&head).ok()?;
    head.strip_prefix("HTTP/1.")?.get(2..)?.parse().ok()
}
