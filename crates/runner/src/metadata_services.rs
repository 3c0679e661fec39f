//! `canyon-runner metadata-services`: checks whether the clouds' metadata services answer this process.
//!
//! `canyon-agent check` runs it in a container like that of a job, because only there it shows what a job reaches. A
//! metadata service that answers gives the machine's own credentials to every module.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The command-line argument that starts the check.
pub const ARGUMENT: &str = "metadata-services";
/// The exit code if a service answers; 0 if none does.
pub const REACHABLE: u8 = 10;

/// Port 80 of the services: EC2, Google, Azure and most others; EC2 over IPv6; Google over IPv6.
const SERVICES: [&str; 3] = ["169.254.169.254:80", "[fd00:ec2::254]:80", "[fd20:ce::254]:80"];
/// The limit for a connection, and for an answer. The services are one hop away.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Google and Azure require these headers, so that no web page in a browser can call them. EC2 ignores them.
const PROBE: &str = "GET / HTTP/1.1\r\nMetadata-Flavor: Google\r\nMetadata: true\r\n";
/// For EC2 where a token is required (`HttpTokens=required`). With a hop limit of 1 the answer does not reach a container
/// on a bridge (EC2 User Guide, "Configure the Instance Metadata Service options"). The token expires after a second.
const TOKEN_REQUEST: &str = "PUT /latest/api/token HTTP/1.1\r\nX-aws-ec2-metadata-token-ttl-seconds: 1\r\nContent-Length: 0\r\n";
const UNAUTHORIZED: u16 = 401;

/// The addresses of `given` that answer; of the known services if `given` is empty.
pub fn reachable(given: impl Iterator<Item = String>) -> Vec<SocketAddr> {
    let given: Vec<_> = given.collect();
    let known = SERVICES.map(str::to_owned);
    let all = if given.is_empty() { known.to_vec() } else { given };
    let addresses: Vec<SocketAddr> = all.iter().filter_map(|text| text.parse().ok()).collect();
    // All at the same time: an address without a route may take the whole time limit.
    let tried: Vec<_> = addresses
        .into_iter()
        .map(|address| std::thread::spawn(move || answers(address).then_some(address)))
        .collect();
    tried.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
}

fn answers(address: SocketAddr) -> bool {
    match status(address, PROBE) {
        Some(UNAUTHORIZED) => status(address, TOKEN_REQUEST).is_some(),
        Some(_) => true,
        None => false,
    }
}

/// The status code of the answer to `lines`; `None` without an answer in time.
fn status(address: SocketAddr, lines: &str) -> Option<u16> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(TIMEOUT)).ok()?;
    let request = format!("{lines}Host: {}\r\nConnection: close\r\n\r\n", address.ip());
    stream.write_all(request.as_bytes()).ok()?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    let head = std::str::from_utf8(&head).ok()?;
    head.strip_prefix("HTTP/1.")?.get(2..)?.parse().ok()
}
