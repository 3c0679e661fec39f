//! The reports of runs that failed or stopped: the real runner with the real OpenTofu and git, against a
//! small control plane.

use crate::server::{Home, Plane, Server, code};
use canyon_domain::failure::{Failure, FailureClass, Phase};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

const SLOW: &str = r#"
resource "terraform_data" "slow" {
  provisioner "local-exec" { command = "echo began; sleep 60" }
}
"#;

fn run(home: &Home, source: &str, changes: &Value) -> Server {
    let server = Server::start(home.job(source, changes));
    assert_eq!(code(home.start(&server)), 1, "{}", server.plane().log());
    server
}

fn failure(plane: &Plane) -> Failure {
    plane.result().failure.clone().unwrap()
}

/// A provider of the registry at `host`.
fn provider_of(host: &str) -> String {
    format!("terraform {{\n required_providers {{\n x = {{ source = \"{host}/a/b\" }}\n }}\n}}\n")
}

fn module_from(source: &str) -> String {
    format!("module \"x\" {{ source = \"{source}\" }}\n")
}

/// A port of this machine whose server answers each request with `status`.
fn answering(status: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.read(&mut [0; 4096]);
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

/// A port of this machine at which nothing listens.
fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A run with a registry `reg.test` that is served at `address`.
fn run_with_registry(home: &Home, source: &str, address: SocketAddr) -> Server {
    let server = Server::start(home.job(source, &json!({})));
    let settings = format!(
        "host \"reg.test\" {{\n services = {{\n \"providers.v1\" = \"http://{address}/\"\n \
         \"modules.v1\" = \"http://{address}/\"\n }}\n}}\n"
    );
    let file = home.folder.path().join("cli.tfrc");
    std::fs::write(&file, settings).unwrap();
    let mut command = home.command(&server);
    let runner = command.env("TF_CLI_CONFIG_FILE", &file).spawn().unwrap();
    assert_eq!(code(runner), 1, "{}", server.plane().log());
    server
}

#[test]
fn an_unreachable_service_is_another_failure_class_than_a_fault_of_the_module() {
    let home = Home::new();
    let (away, busy, none) = (closed(), answering("503 Busy"), answering("404 Not Found"));
    let is = |server: &Server, class: FailureClass, words: &str| {
        let plane = server.plane();
        let failure = failure(&plane);
        assert_eq!(failure.class, class, "{}", failure.message);
        assert!(failure.message.contains(words), "{}", failure.message);
        let last = format!("==> error: {class}: {}", failure.message);
        assert!(plane.log().contains(&last), "the log says the same: {}", plane.log());
        assert_eq!(plane.result().phase, Some(Phase::Init));
    };
    let modules = "module \"x\" {\n source = \"reg.test/a/b/c\"\n version = \"1.0.0\"\n}\n";
    for source in [&provider_of("reg.test"), modules] {
        is(&run_with_registry(&home, source, busy), FailureClass::Unreachable, "503 Busy");
        is(
            &run_with_registry(&home, source, away),
            FailureClass::Unreachable,
            "connection refused",
        );
        is(&run_with_registry(&home, source, none), FailureClass::User, "");
    }
    let git = module_from(&format!("git::https://{away}/x.git"));
    for (source, class, words) in [
        (provider_of(&away.to_string()), FailureClass::Unreachable, "connection refused"),
        (provider_of("registry.invalid"), FailureClass::Unreachable, "registry.invalid"),
        (git, FailureClass::Unreachable, "Couldn't connect to server"),
        (
            module_from(&format!("git::ssh://git@{away}/x.git")),
            FailureClass::Unreachable,
            "refused",
        ),
        (module_from(&format!("git::http://{busy}/x.git")), FailureClass::Unreachable, "503"),
        (module_from(&format!("git::http://{none}/x.git")), FailureClass::User, "not found"),
        (module_from(&format!("http://{busy}/x.zip")), FailureClass::Unreachable, "503"),
        (module_from(&format!("http://{none}/x.zip")), FailureClass::User, "404"),
    ] {
        is(&run(&home, &source, &json!({})), class, words);
    }
}

#[test]
fn an_unreachable_state_storage_is_another_failure_class_than_a_wrong_one() {
    let home = Home::new();
    let storage = |address: SocketAddr| {
        let url = format!("http://user:hunter2@{address}/state");
        json!({"backend": {"terraform": {"backend": {"http": {
            "address": url, "retry_max": 0,
        }, "local": null}}}})
    };
    let mut job = home.job("resource \"terraform_data\" \"x\" {}", &storage(closed()));
    job["backend"]["terraform"]["backend"].as_object_mut().unwrap().remove("local");
    let server = Server::start(job);
    assert_eq!(code(home.start(&server)), 1);
    let plane = server.plane();
    let failure = failure(&plane);
    assert_eq!(failure.class, FailureClass::Unreachable, "{}", failure.message);
    assert!(failure.message.starts_with("the state storage does not answer"), "{failure:?}");
    assert!(!(plane.log() + &plane.events() + &failure.message).contains("hunter2"));
}

#[test]
fn credentials_in_an_address_are_shown_nowhere() {
    let home = Home::new();
    let source = module_from(&format!("git::https://user:hunter2@{}/x.git", closed()));
    let server = run(&home, &source, &json!({}));
    let plane = server.plane();
    let failure = failure(&plane);
    assert!(
        failure.message.contains("Couldn't connect to server"),
        "the cause is kept: {failure:?}"
    );
    for text in [failure.message, plane.log(), plane.events()] {
        assert!(text.contains("x.git") && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn a_secret_in_an_error_is_masked_in_the_failure_too() {
    let home = Home::new();
    let source = "variable \"x\" {\n type = number\n}\n";
    let environment =
        json!({"environment": {"TF_VAR_x": "pass-word-77", "PASSWORD": "pass-word-77"}});
    let server = run(&home, source, &environment);
    let (plane, expected) = (server.plane(), "Invalid value for input variable");
    let message = failure(&plane).message;
    assert!(message.contains(expected) && !message.contains("pass-word-77"), "{message}");
}

#[test]
fn a_result_names_the_phase_in_which_the_run_ended() {
    let home = Home::new();
    let missing = json!({"bundle": {"module": {
        "source": "git::file:///nowhere/x.git", "source_code": null,
    }}});
    let apply = "resource \"terraform_data\" \"x\" {\n provisioner \"local-exec\" { command = \"exit 3\" }\n}";
    for (source, changes, phase) in [
        ("", missing, Phase::Fetch),
        ("resource \"x\" {", json!({}), Phase::Init),
        ("variable \"x\" {}", json!({}), Phase::Plan),
        (apply, json!({}), Phase::Apply),
    ] {
        let server = run(&home, source, &changes);
        let plane = server.plane();
        assert_eq!(plane.result().phase, Some(phase), "{}", plane.log());
        let counts = plane.result().tf_resource_counts;
        assert_eq!(
            counts.is_some(),
            phase == Phase::Apply,
            "nothing is counted before: {counts:?}"
        );
    }
    let server = Server::start(home.job("# nothing\n", &json!({"mode": "destroy"})));
    assert_eq!(code(home.start(&server)), 0);
    assert_eq!(server.plane().result().phase, Some(Phase::Apply));
}

#[test]
fn a_failed_apply_counts_the_resources_in_the_state_including_those_created_in_part() {
    let home = Home::new();
    let source = r#"
resource "terraform_data" "good" { count = 2 }
resource "terraform_data" "bad" {
  depends_on = [terraform_data.good]
  provisioner "local-exec" { command = "exit 3" }
}"#;
    let server = run(&home, source, &json!({}));
    let plane = server.plane();
    let counts = plane.result().tf_resource_counts.unwrap();
    assert_eq!(counts.num_resources_added, 2, "{}", plane.log());
    let in_state = u32::try_from(home.resources().len()).unwrap();
    assert_eq!((counts.num_resources, in_state), (Some(3), 3), "{}", plane.log());
}

/// The failure of a run that was stopped during its apply, and its log.
fn stopped(signal: Option<Signal>, reason: Option<Value>) -> (Failure, String) {
    let home = Home::new();
    let server = Server::start(home.job(SLOW, &json!({})));
    let runner = home.start(&server);
    server.wait_until("the slow resource begins", |plane| plane.log().contains("began"));
    if let Some(reason) = reason {
        let mut plane = server.plane();
        plane.stop = true;
        plane.stop_reason = Some(reason).filter(|reason| !reason.is_null());
    }
    if let Some(signal) = signal {
        kill_process(Pid::from_raw(i32::try_from(runner.id()).unwrap()).unwrap(), signal).unwrap();
    }
    assert_eq!(code(runner), 1);
    let plane = server.plane();
    (failure(&plane), plane.log())
}

#[test]
fn a_stopped_run_reports_who_stopped_it_and_why() {
    let deadline = "the run took longer than `timeouts.run_seconds` (5) and was stopped";
    let deadline = || Some(json!({"class": "timeout", "message": deadline}));
    let cancel = || {
        Some(json!({"class": "cancelled", "message": "the deployment was cancelled on request"}))
    };
    let so_far = "stopped during the apply: what was done is in the state";
    for (signal, reason, expected) in [
        (
            None,
            deadline(),
            "timeout: the run took longer than `timeouts.run_seconds` (5) and was stopped",
        ),
        (None, cancel(), "cancelled: the deployment was cancelled on request"),
        (None, Some(Value::Null), "cancelled: Canyon asked the run to stop"),
        // Canyon also stops jobs through their platforms: then the deadline is the reason.
        (
            Some(Signal::TERM),
            deadline(),
            "timeout: the run took longer than `timeouts.run_seconds` (5)",
        ),
        (
            Some(Signal::TERM),
            None,
            "evicted: something other than Canyon asked the job to stop (SIGTERM): the platform, or a program on its \
             machine",
        ),
    ] {
        let (failure, log) = stopped(signal, reason);
        assert_eq!(failure.class, FailureClass::Cancelled, "Canyon decides the class: {log}");
        let last = log.lines().last().unwrap();
        assert!(last.starts_with(&format!("==> error: {expected}")), "{log}");
        assert!(last.ends_with(so_far) && failure.message.ends_with(so_far), "{log}");
    }
}

#[test]
fn outputs_are_delivered_although_the_line_with_them_was_lost() {
    let home = Home::new();
    let bin = home.folder.path().join("losing");
    std::fs::create_dir(&bin).unwrap();
    let (tofu, output) = (std::env::var("CANYON_TEST_TOFU").unwrap(), bin.join("output"));
    let output = output.display();
    // As if the disk were full for a moment.
    let script = format!(
        "#!/bin/sh\n'{tofu}' \"$@\" > '{output}'; code=$?\ngrep -v '\"type\":\"outputs\"' '{output}'\nexit $code\n"
    );
    std::fs::write(bin.join("tofu"), script).unwrap();
    std::fs::set_permissions(bin.join("tofu"), std::fs::Permissions::from_mode(0o755)).unwrap();
    for source in ["output \"word\" { value = \"one\" }\n", ""] {
        let server = Server::start(home.job(source, &json!({})));
        let mut command = home.command(&server);
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        assert_eq!(code(command.spawn().unwrap()), 0, "{}", server.plane().log());
        let plane = server.plane();
        let names: Vec<_> = plane.result().plain_outputs.keys().collect();
        assert_eq!(names, if source.is_empty() { vec![] } else { vec!["word"] });
        assert!(!plane.log().contains("cannot be read"), "{}", plane.log());
    }
}

#[test]
fn outputs_keep_every_digit_and_one_that_cannot_be_kept_does_not_affect_the_others() {
    let home = Home::new();
    let deep = format!("{}1{}", "[".repeat(150), "]".repeat(150));
    let source = format!(
        r#"
variable "given" {{}}
output "given" {{ value = var.given }}
output "beyond" {{ value = 18446744073709551616 + 1 }}
output "large" {{ value = pow(10, 20) * 10000000000000000000 * pow(10, 20) }}
output "third" {{ value = 1 / 3 }}
output "huge" {{ value = 1e400 }}
output "deep" {{ value = jsondecode("{deep}") }}
output "word" {{ value = "one" }}
"#
    );
    let inputs =
        r#"{"given": [9007199254740993, 18446744073709551617, 123456789.123456789123456789]}"#;
    for unchanged in [false, true] {
        let mut job = home.job(&source, &json!({}));
        job["bundle"]["module"]["inputs"] = json!("INPUTS");
        let server = Server::start(Value::Null);
        // As text: `serde_json` would not keep the digits.
        let job = job.to_string().replace("\"INPUTS\"", inputs);
        server.plane().job_text = Some(job);
        assert_eq!(code(home.start(&server)), 0, "{}", server.plane().log());
        let plane = server.plane();
        let outputs = &plane.result().plain_outputs;
        let value = |name: &str| outputs[name].value.as_ref().unwrap().to_string();
        let third = format!("0.{}5", "3".repeat(154));
        for (name, expected) in [
            ("given", "[9007199254740993,18446744073709551617,123456789.123456789123456789]"),
            ("beyond", "18446744073709551617"),
            ("large", &format!("1{}", "0".repeat(59))),
            ("third", &third),
            ("huge", &format!("1{}", "0".repeat(400))),
            ("word", "\"one\""),
        ] {
            assert_eq!(value(name), expected, "{name}, unchanged: {unchanged}");
        }
        assert!(outputs["deep"].value.is_none());
        let warning =
            "==> warning: the value of the output `deep` is not in the result: nested more";
        assert!(plane.log().contains(warning), "{}", plane.log());
    }
}

#[test]
fn the_wait_for_the_reason_of_a_signal_is_bounded() {
    let home = Home::new();
    let mut server = Server::start(home.job(SLOW, &json!({})));
    let runner = home.start(&server);
    server.wait_until("the slow resource begins", |plane| plane.log().contains("began"));
    server.die();
    kill_process(Pid::from_raw(i32::try_from(runner.id()).unwrap()).unwrap(), Signal::TERM)
        .unwrap();
    // OpenTofu stops, and the runner waits for the reason only up to its limit.
    let log = |home: &Home| {
        let files = std::fs::read_dir(home.folder.path()).unwrap();
        let logs = files.map(|file| file.unwrap().path().join("log.txt"));
        logs.filter_map(|log| std::fs::read_to_string(log).ok()).collect::<String>()
    };
    let message = "evicted: the platform asked the job to stop (SIGTERM)";
    let begun = std::time::Instant::now();
    while !log(&home).contains(message) {
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", log(&home));
        std::thread::sleep(Duration::from_millis(50));
    }
    server.resume();
    assert_eq!(code(runner), 1);
}
