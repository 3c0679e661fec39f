//! `canyon-runner metadata-services` with services that answer like those of clouds.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

/// The status line of a service's answer to a request; `None` for no answer.
type Answer = fn(&str) -> Option<&'static str>;

/// A service on this machine that answers each request as `answer` says; without an answer it stays silent.
fn service(answer: Answer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut read = [0; 1024];
            let count = stream.read(&mut read).unwrap();
            let request = String::from_utf8_lossy(&read[..count]).into_owned();
            match answer(&request) {
                Some(status) => {
                    let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                    stream.write_all(text.as_bytes()).unwrap();
                }
                None => silent.push(stream),
            }
        }
    });
    address
}

/// The exit code and the output of the program.
fn run(addresses: &[&str]) -> (Option<i32>, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_canyon-runner"));
    let output = program.env_clear().arg("metadata-services").args(addresses).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn of_token(request: &str) -> bool {
    request.starts_with("PUT /latest/api/token")
}

#[test]
fn a_service_is_reachable_if_it_answers_more_than_that_a_token_is_required() {
    let cases: [(&str, Answer, bool); 5] = [
        ("EC2 without tokens", |_| Some("200 OK"), true),
        ("Azure, which wants another path", |_| Some("404 Not Found"), true),
        (
            "EC2 with tokens, and a hop limit that lets containers get them",
            |request| Some(if of_token(request) { "200 OK" } else { "401 Unauthorized" }),
            true,
        ),
        (
            "EC2 with tokens, and a hop limit of 1: the answer with the token is lost",
            |request| (!of_token(request)).then_some("401 Unauthorized"),
            false,
        ),
        ("a server that accepts connections and never answers", |_| None, false),
    ];
    for (what, answer, is_reachable) in cases {
        let address = service(answer);
        let (code, output) = run(&[&address]);
        assert_eq!(code, Some(if is_reachable { 10 } else { 0 }), "{what}: {output}");
        assert_eq!(output.contains(&address), is_reachable, "{what}: {output}");
    }
}

#[test]
fn only_the_service_that_answers_is_named() {
    let open = service(|_| Some("200 OK"));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let nothing = closed.local_addr().unwrap().to_string();
    drop(closed);
    let (code, output) = run(&[&nothing, &open]);
    assert_eq!((code, output), (Some(10), format!("{open}\n")));
    assert_eq!(run(&[&nothing]), (Some(0), String::new()));
}
