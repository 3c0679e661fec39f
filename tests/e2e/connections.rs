//! Idle connections do not make `canyon local` unavailable for other callers.

use crate::harness::deployments::request;
use crate::harness::module::ledger;
use crate::harness::programs;
use crate::harness::server::Server;
use crate::harness::site::{ENV, Site};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The limit of open descriptors, as on a Mac or in a container with that limit.
const DESCRIPTORS: usize = 256;

/// `canyon local` with few descriptors.
async fn limited(folder: &std::path::Path) -> Server {
    let real = programs::built().join("canyon");
    let text = format!("ulimit -n {DESCRIPTORS}\nexec '{}' \"$@\"\n", real.display());
    programs::script(&folder.join("canyon"), &text);
    Server::start_with(folder, programs::search_path(None)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_half_sent_requests_without_a_token_exclude_no_caller_and_are_logged() {
    let folder = tempfile::tempdir().unwrap();
    let server = limited(folder.path()).await;
    let address = server.url().trim_start_matches("http://").to_owned();
    let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
    let http = http.timeout(Duration::from_secs(20)).build().unwrap();
    let healthy = async || {
        let answer = http.get(format!("{}/health", server.url())).send().await;
        answer.unwrap().status().as_u16()
    };
    let mut crowd = Vec::new();
    for number in 0..300 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        if number % 2 == 0 {
            stream
                .write_all(b"POST /orgs/x/projects HTTP/1.1\r\nhost: x\r\nx-half: ")
                .await
                .unwrap();
        }
        crowd.push(stream);
        if number % 50 == 49 {
            assert_eq!(healthy().await, 200, "after {number}\n{}", server.log());
            server.client().list(&["projects"], &[]).await.unwrap();
        }
    }
    assert_eq!(healthy().await, 200);
    let said = "at the limit of connections";
    assert!(server.log().contains(said), "{}", server.log());
    // The server has closed the oldest connections without an answer.
    let mut first = crowd.remove(0);
    let read = tokio::time::timeout(Duration::from_secs(20), first.read(&mut [0; 1])).await;
    assert!(!matches!(read.expect("it is open still"), Ok(1..)));
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_long_polls_of_one_caller_exclude_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::on(limited(folder.path()).await, &json!({})).await;
    let id = site.accept(&request(ENV, Some(ledger(&folder.path().join("l"), 1, "60", 1)))).await;
    let server = &site.server;
    let address = server.url().trim_start_matches("http://").to_owned();
    let poll = format!(
        "GET /orgs/{}/deployments/{id}/actions/wait-for-complete HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n",
        server.org(),
        server.token()
    );
    let mut polls = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        // A connection for which there is no room gets an answer that says so.
        let _ = stream.write_all(poll.as_bytes()).await;
        polls.push(stream);
    }
    // The answer comes before any of the long polls, which wait for their full 25 s, is answered.
    let deadline = Instant::now() + Duration::from_secs(15);
    let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
    let http = http.timeout(Duration::from_secs(5)).build().unwrap();
    loop {
        let answer = http.get(format!("{}/health", server.url())).send().await;
        if answer.is_ok_and(|answer| answer.status() == 200) {
            break;
        }
        assert!(Instant::now() < deadline, "{}", server.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_a_body_without_a_valid_token_is_not_waited_for() {
    let server = Server::start().await;
    let address = server.url().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let head = format!(
        "POST /orgs/{}/projects HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{{",
        server.org()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_string(&mut answer));
    // The server closed the connection with unread bytes in it, so this read may fail.
    let _ = read.await.expect("it is open still");
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}
