//! A proxy or gateway that answers in the control plane's place.

use crate::server::{Home, Server, code, plane::Foreign};
use axum::http::StatusCode;
use canyon_api::attempt::ResultStatus;
use canyon_domain::failure::Phase;
use flate2::{Compression, write::GzEncoder};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const HTML: &str = "<html><h1>Blocked by your network</h1></html>";

/// Applies for so long that the runner sends reports in the meantime.
const MODULE: &str = r#"
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "for i in $(seq 30); do echo line $i of the log; sleep 0.05; done"
  }
}
output "word" { value = "whole" }
"#;

/// A gzipped tar of [`MODULE`], and its digest.
fn archive() -> (Vec<u8>, String) {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_size(MODULE.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, "main.tf", MODULE.as_bytes()).unwrap();
    let bytes = tar.into_inner().unwrap().finish().unwrap();
    let digest = hex::encode(Sha256::digest(&bytes));
    (bytes, digest)
}

/// An object store behind TLS, with a certificate that it signed itself.
struct Store {
    folder: TempDir,
    process: Child,
    url: String,
}

impl Store {
    fn start(archive: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("archive"), archive).unwrap();
        // OpenSSL's own configuration makes an authority's certificate, which no server may have.
        let extensions = "[req]\ndistinguished_name = name\nx509_extensions = server\n[name]\n[server]\n\
                          subjectAltName = DNS:localhost\n";
        std::fs::write(folder.path().join("configuration"), extensions).unwrap();
        let made = openssl(&folder)
            .args(["req", "-x509", "-nodes", "-days", "2", "-newkey", "rsa:2048"])
            .args(["-keyout", "key", "-out", "certificate", "-subj", "/CN=store"])
            .args(["-config", "configuration"])
            .stderr(Stdio::null())
            .status();
        assert!(made.unwrap().success());
        let mut process = openssl(&folder)
            .args(["s_server", "-accept", "127.0.0.1:0", "-WWW"])
            .args(["-cert", "certificate", "-key", "key"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            Some(line.unwrap().strip_prefix("ACCEPT ")?.rsplit_once(':')?.1.to_owned())
        });
        // It goes on writing.
        std::thread::spawn(move || lines.for_each(drop));
        Self { folder, process, url: format!("https://localhost:{}/archive", port.unwrap()) }
    }

    fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificate")
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn openssl(folder: &TempDir) -> Command {
    let mut command = Command::new("openssl");
    command.current_dir(folder.path()).stdin(Stdio::null());
    command
}

/// The answer `status` with `body`, in place of a request that does not reach the control plane, and of one that does.
fn foreign(step: &'static str, status: u16, body: &'static str) -> [Foreign; 2] {
    [false, true].map(|arrived| Foreign { step, arrived, status, body })
}

/// Runs the module through a proxy that gives this answer to each kind of request, twice; and to the reports of the
/// running apply too.
fn completes_the_run(status: u16, body: &'static str) {
    let home = Home::new();
    let (bytes, digest) = archive();
    let module = json!({"source": format!("sha256:{digest}"), "source_code": null});
    let server = Server::start(home.job("", &json!({"bundle": {"module": module}})));
    {
        let mut plane = server.plane();
        plane.archive = bytes;
        for step in ["/claim", "/bundle", "/report", "/results"] {
            plane.foreign.extend(foreign(step, status, body));
        }
    }
    let runner = home.start(&server);
    server.wait_until("the apply runs", |plane| plane.log().contains("line 1 of the log"));
    server.plane().foreign.extend(foreign("/report", status, body));
    let exit = code(runner);
    let plane = server.plane();
    assert_eq!(exit, 0, "{status}: {}", plane.log());
    assert!(plane.foreign.is_empty(), "{status}: unused: {:?}", plane.foreign);
    let result = plane.result();
    assert_eq!(result.status, ResultStatus::Success, "{status}: {}", plane.log());
    assert_eq!(result.tf_resource_counts.unwrap().num_resources_added, 1, "{status}");
    assert_eq!(result.plain_outputs["word"].value, Some("whole".into()), "{status}");
    assert!(plane.phases.contains(&Phase::Apply), "{status}");
    assert_eq!(home.resources(), ["slow"], "{status}");
    for number in 1..=30 {
        let line = format!("line {number} of the log");
        assert_eq!(plane.log().matches(&line).count(), 1, "{status}: {line}: {}", plane.log());
    }
    assert!(plane.log().ends_with("==> done\n"), "{status}: {}", plane.log());
    let has_reason = plane.log().contains("cannot fetch the module: ");
    assert!(has_reason || status == 307, "{status}: the log has no reason: {}", plane.log());
}

fn each_completes_the_run(statuses: &[u16], body: &'static str) {
    std::thread::scope(|scope| {
        let runs: Vec<_> = statuses
            .iter()
            .map(|status| scope.spawn(|| completes_the_run(*status, body)))
            .collect();
        for run in runs {
            run.join().unwrap();
        }
    });
}

#[test]
fn a_gateways_refusal_in_the_control_planes_place_ends_no_run_and_loses_no_result() {
    each_completes_the_run(&[401, 403, 404, 409], HTML);
}

#[test]
fn a_gateways_success_or_redirect_is_no_acknowledgement() {
    each_completes_the_run(&[200, 204, 302, 307], HTML);
}

#[test]
fn a_request_that_a_gateway_failed_is_retried() {
    each_completes_the_run(&[408, 413, 500, 503], HTML);
}

#[test]
fn a_gateways_own_json_is_not_taken_for_an_answer_of_the_control_plane() {
    each_completes_the_run(&[401, 404, 413], r#"{"message": "Not Found"}"#);
    each_completes_the_run(&[409], r#"{"error": "Conflict", "message": "no"}"#);
}

#[test]
fn a_request_that_reached_canyon_damaged_is_sent_again() {
    let code = |status: u16, code: &str| {
        let body = json!({
            "error": format!("API-{status}"), "message": "no", "details": { "code": code },
        });
        &*String::leak(body.to_string())
    };
    // A body that was cut, one that came too slowly, and a header that was removed.
    each_completes_the_run(&[400], code(400, "incomplete"));
    each_completes_the_run(&[408], code(408, "incomplete"));
    each_completes_the_run(&[401], code(401, "no_token"));
    // Canyon's refusal of another run's request, which a proxy returns to this one; and of a request whose path or
    // content type a proxy has changed.
    each_completes_the_run(&[409], r#"{"error": "API-409", "message": "the attempt is over"}"#);
    each_completes_the_run(&[404], r#"{"error": "API-404", "message": "there is no such path"}"#);
    each_completes_the_run(&[415], r#"{"error": "API-415", "message": "send JSON"}"#);
}

/// Canyon over http needs no certificates, so the runner has read none when it is sent to the store.
#[test]
fn a_canyon_without_a_certificate_sends_the_runner_to_a_store_that_has_one() {
    let home = Home::new();
    let (bytes, digest) = archive();
    let store = Store::start(&bytes);
    let module = json!({"source": format!("sha256:{digest}"), "source_code": null});
    let server = Server::start(home.job("", &json!({"bundle": {"module": module}})));
    server.plane().archive_url = Some(store.url.clone());
    let runner = home.command(&server).env("SSL_CERT_FILE", store.certificate()).spawn().unwrap();
    // Without the certificate the runner would try again for minutes.
    server.wait_until("its result", |plane| !plane.results.is_empty());
    assert_eq!(code(runner), 0, "{}", server.plane().log());
    assert_eq!(server.plane().result().status, ResultStatus::Success);
}

#[test]
fn a_result_that_canyon_finds_invalid_is_sent_again_and_finally_without_its_outputs() {
    let home = Home::new();
    let module = "resource \"terraform_data\" \"a\" {}\noutput \"word\" { value = \"whole\" }\n";
    let server = Server::start(home.job(module, &json!({})));
    server.plane().takes_no_outputs = true;
    assert_eq!(code(home.start(&server)), 0, "{}", server.plane().log());
    let plane = server.plane();
    assert_eq!(plane.result().status, ResultStatus::Success);
    assert!(plane.result().plain_outputs.is_empty() && plane.result().state.is_some());
}

#[test]
fn a_result_keeps_its_outputs_whatever_canyon_answers_to_another_request() {
    let home = Home::new();
    let module = "resource \"terraform_data\" \"a\" {}\noutput \"word\" { value = \"whole\" }\n";
    let server = Server::start(home.job(module, &json!({})));
    let foreign = |status, body| Foreign { step: "/results", arrived: false, status, body };
    let faulty = foreign(400, r#"{"error": "API-400", "message": "`module` is no good"}"#);
    let large = foreign(413, r#"{"error": "API-413", "message": "the body is too large"}"#);
    server.plane().foreign.extend([large, faulty.clone(), faulty.clone(), faulty]);
    assert_eq!(code(home.start(&server)), 0, "{}", server.plane().log());
    assert_eq!(server.plane().result().plain_outputs.len(), 1);
}

#[test]
fn a_silent_run_sends_no_bytes_twice_and_loses_no_end_of_its_log() {
    let home = Home::new();
    let module = r#"
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "for i in $(seq 30); do echo line $i of the log; done; sleep 3; echo the last line"
  }
}
"#;
    let server = Server::start(home.job(module, &json!({})));
    assert_eq!(code(home.start(&server)), 0, "{}", server.plane().log());
    let plane = server.plane();
    assert!(plane.log().contains("the last line") && plane.log().ends_with("==> done\n"));
    assert_eq!((plane.repeated, plane.wrong_offsets), (0, 0), "repeated bytes");
}

#[test]
fn nothing_is_applied_before_canyon_has_recorded_the_apply() {
    let (home, folder) = (Home::new(), tempfile::tempdir().unwrap());
    let applied = folder.path().join("applied");
    let module = format!(
        "resource \"terraform_data\" \"a\" {{\n  provisioner \"local-exec\" {{\n    command = \"touch {}\"\n  }}\n}}\n",
        applied.display()
    );
    let server = Server::start(home.job(&module, &json!({})));
    server.plane().stale = 3;
    let runner = home.start(&server);
    server.wait_until("a late answer", |plane| plane.stale < 3);
    std::thread::sleep(Duration::from_millis(300));
    assert!(server.plane().stale > 0 && !applied.exists(), "the apply has begun");
    assert_eq!(code(runner), 0, "{}", server.plane().log());
    let plane = server.plane();
    assert_eq!(plane.result().status, ResultStatus::Success);
    assert!(applied.exists() && plane.phases.contains(&Phase::Apply), "{:?}", plane.phases);
}

#[test]
fn a_report_that_only_lost_a_race_does_not_stop_the_run() {
    let contended =
        r#"{"error": "API-409", "message": "try again", "details": {"code": "contended"}}"#;
    let home = Home::new();
    let server = Server::start(home.job(MODULE, &json!({})));
    let runner = home.start(&server);
    server.wait_until("the apply runs", |plane| plane.log().contains("line 1 of the log"));
    for step in ["/report", "/results"] {
        server.plane().foreign.extend(foreign(step, 409, contended));
    }
    assert_eq!(code(runner), 0, "{}", server.plane().log());
    assert_eq!(server.plane().result().status, ResultStatus::Success);
}

#[test]
fn a_result_that_is_too_large_for_a_proxy_is_delivered_without_its_outputs() {
    let home = Home::new();
    let module = "resource \"terraform_data\" \"a\" {}\noutput \"word\" { value = \"whole\" }\n";
    let server = Server::start(home.job(module, &json!({})));
    let answer =
        Foreign { step: "/results", arrived: false, status: 413, body: "<html>413</html>" };
    server.plane().foreign.extend(std::iter::repeat_n(answer, 3));
    assert_eq!(code(home.start(&server)), 0, "{}", server.plane().log());
    let plane = server.plane();
    let result = plane.result();
    assert_eq!(result.status, ResultStatus::Success);
    assert_eq!(result.tf_resource_counts.unwrap().num_resources_added, 1);
    assert!(result.plain_outputs.is_empty() && result.state.is_some(), "{result:?}");
}

#[test]
fn reports_that_are_too_large_for_a_proxy_become_smaller_and_lose_nothing() {
    let home = Home::new();
    let module = "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"for i in $(seq 3000); \
                  do echo line $i of the log, which is longer than most lines are and says no more than others do; done\"\n  \
                  }\n}\n";
    let server = Server::start(home.job(module, &json!({})));
    server.plane().largest_report = Some((60_000, StatusCode::PAYLOAD_TOO_LARGE));
    assert_eq!(code(home.start(&server)), 0, "{}", server.plane().log());
    let plane = server.plane();
    assert_eq!(plane.result().status, ResultStatus::Success);
    let log = plane.log();
    let lines = log.lines().filter(|line| line.contains(" of the log, which")).count();
    assert!(lines >= 3000 && log.contains("line 3000 of"), "{lines}");
}

#[test]
fn a_log_that_a_gateway_refuses_for_its_size_with_403_arrives_in_smaller_requests() {
    let home = Home::new();
    let module = "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"for i in $(seq 300); \
                  do echo line $i of the log, which is longer than most lines are and says no more; done; sleep 2\"\n  }\n}\n\
                  output \"word\" { value = \"whole\" }\n";
    let server = Server::start(home.job(module, &json!({})));
    server.plane().largest_request = Some(8 * 1024);
    assert_eq!(code(home.start(&server)), 0, "{}", server.plane().log());
    let plane = server.plane();
    let result = plane.result();
    assert_eq!(result.status, ResultStatus::Success);
    assert_eq!(result.tf_resource_counts.unwrap().num_resources_added, 1);
    assert!(result.plain_outputs.len() == 1 && result.state.is_some(), "{result:?}");
    assert!(plane.log().contains("line 300 of the log"), "{}", plane.log());
    assert_eq!(plane.wrong_offsets, 0);
}

#[test]
fn a_run_lives_and_applies_although_no_piece_of_its_log_ever_arrives() {
    let home = Home::new();
    let module = "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"for i in $(seq 50); \
                  do echo line $i; sleep 0.1; done\"\n  }\n}\n";
    let server = Server::start(home.job(module, &json!({})));
    server.plane().largest_report = Some((0, StatusCode::FORBIDDEN));
    let runner = home.start(&server);
    server.wait_until("it applies", |plane| plane.phases.contains(&Phase::Apply));
    let before = server.plane().phases.len();
    server.wait_until("it lives", |plane| plane.phases.len() >= before + 3);
    assert_eq!(server.plane().results.len(), 0, "it applies still");
    assert_eq!(code(runner), 0);
    assert_eq!(server.plane().result().status, ResultStatus::Success);
    assert_eq!(home.resources(), ["a"]);
}

#[test]
fn an_answer_that_is_longer_than_any_of_canyons_is_not_read_to_its_end() {
    let home = Home::new();
    let server = Server::start(home.job(MODULE, &json!({})));
    let runner = home.start(&server);
    server.wait_until("the apply runs", |plane| plane.log().contains("line 1 of the log"));
    // Canyon's format, except for the length. If the runner stopped, it would have accepted the answer.
    let stop = String::leak(format!(
        r#"{{"stop": true, "offsets": {{"log": 0, "events": 0}}{}}}"#,
        " ".repeat(17 << 20)
    ));
    let answer = Foreign { step: "/report", arrived: false, status: 200, body: stop };
    server.plane().foreign.push(answer);
    assert_eq!(code(runner), 0, "{}", server.plane().log());
    let plane = server.plane();
    assert!(plane.foreign.is_empty(), "unused");
    assert_eq!(plane.result().status, ResultStatus::Success, "{}", plane.log());
}
