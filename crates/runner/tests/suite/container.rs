//! The runner in a container that is killed: only its standard output remains.

use crate::server::{Home, Server};
use canyon_domain::container_log::{Stream, Tail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Prints lines that look like those of the container log's format, and a secret, and then hangs.
const HOSTILE: &str = r#"
resource "terraform_data" "done" {}
resource "terraform_data" "begun" {
  depends_on = [terraform_data.done]
  provisioner "local-exec" {
    command = "printf '~canyon at 3\n\n~canyon event {\"type\":\"apply_start\"}\n'; echo $DB_PASSWORD; for i in $(seq 400); do echo \"line $i\"; done; echo began; sleep 20"
  }
}
"#;

/// A runner whose standard output and standard error go to one pipe, as in a container.
struct Container {
    runner: Child,
    output: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Container {
    fn start(home: &Home, server: &Server) -> Self {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut command = home.command(server);
        command.env("CANYON_LOG_TO_STDOUT", "1").stdout(writer.try_clone().unwrap()).stderr(writer);
        let runner = command.process_group(0).spawn().unwrap();
        let output = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&output);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                shared.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Self { runner, output, reader: Some(reader) }
    }

    fn read(&self, stream: Stream) -> String {
        String::from_utf8(Tail::read(&self.output.lock().unwrap(), stream, 0)).unwrap()
    }

    /// Kills the whole container with SIGKILL, and reads the rest of its output.
    fn kill(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.runner.id()).unwrap()).unwrap();
        kill_process_group(group, Signal::KILL).unwrap();
        self.runner.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
    }

    fn wait_until(&self, what: &str, test: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while !test(&self.read(Stream::Log)) {
            assert!(begun.elapsed() < Duration::from_secs(20), "never: {what}");
            sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn the_output_of_a_killed_runner_has_its_log_and_names_the_creations_that_began() {
    let home = Home::new();
    let environment = json!({"environment": {"DB_PASSWORD": "pass-word-77"}});
    let mut server = Server::start(home.job(HOSTILE, &environment));
    let mut container = Container::start(&home, &server);
    server.wait_until("the apply begins", |plane| plane.log().contains("tofu apply"));
    // From here on, only the output can have the log.
    server.die();
    container.wait_until("the last line", |log| log.contains("(local-exec): began\n"));
    container.kill();

    let log = container.read(Stream::Log);
    assert!(log.starts_with("==> attempt 1 fetches inline\n"), "{log}");
    assert!(log.starts_with(&server.plane().log()), "the output has what was shipped, and more");
    for number in 1..=400 {
        assert_eq!(log.matches(&format!("(local-exec): line {number}\n")).count(), 1, "{log}");
    }
    assert!(log.contains("~canyon event {\"type\":\"apply_start\"}"), "part of the log: {log}");
    let events = container.read(Stream::Events);
    let events: Vec<Value> =
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let has = |kind: &str, name: &str| {
        let address = format!("terraform_data.{name}");
        events.iter().any(|e| e["type"] == kind && e["hook"]["resource"]["addr"] == *address)
    };
    assert!(has("apply_complete", "done") && has("apply_start", "begun"), "{events:?}");
    assert!(!has("apply_complete", "begun"), "{events:?}");
    let whole = String::from_utf8(container.output.lock().unwrap().clone()).unwrap();
    assert!(!whole.contains("pass-word-77") && whole.contains("************"), "{whole}");
}

#[test]
fn the_output_of_a_run_is_its_log_and_a_full_pipe_does_not_stop_the_run() {
    let home = Home::new();
    let server = Server::start(home.job("resource \"terraform_data\" \"a\" {}", &json!({})));
    let mut container = Container::start(&home, &server);
    assert_eq!(container.runner.wait().unwrap().code(), Some(0));
    container.wait_until("the last line", |log| log.ends_with("==> done\n"));
    assert_eq!(container.read(Stream::Log), server.plane().log());
    let output = String::from_utf8(container.output.lock().unwrap().clone()).unwrap();
    assert!(output.starts_with("~canyon note canyon-runner: deployment 0192aaaa-"), "{output}");

    // A full pipe without a reader.
    let server = Server::start(home.job("resource \"terraform_data\" \"a\" {}", &json!({})));
    let (_reader, mut writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[0; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    let mut command = home.command(&server);
    let begun = Instant::now();
    let mut runner = command
        .env("CANYON_LOG_TO_STDOUT", "1")
        .stdout(writer)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(runner.wait().unwrap().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(15) && server.plane().results.len() == 1);
}

#[test]
fn an_encrypted_run_writes_nothing_in_clear_to_its_output_either() {
    let home = Home::new();
    let recipient = age::x25519::Identity::generate().to_public().to_string();
    let bundle = json!({"bundle": {"encrypted_logs_recipient": recipient}});
    let server = Server::start(home.job(HOSTILE, &bundle));
    let mut container = Container::start(&home, &server);
    server.wait_until("the begin", |plane| plane.events().contains("terraform_data.begun"));
    let begun = Instant::now();
    while !container.read(Stream::Events).contains("terraform_data.begun") {
        assert!(begun.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(10));
    }
    container.kill();
    let output = container.output.lock().unwrap().clone();
    let log = Tail::read(&output, Stream::Log, 0);
    // Either may be ahead of the other by a moment.
    let shipped = server.plane().streams["log"].clone();
    assert!(!log.is_empty() && (log.starts_with(&shipped) || shipped.starts_with(&log)));
    let output = String::from_utf8(output).unwrap();
    assert!(!output.contains("fetches") && !output.contains("local-exec"), "{output}");
}
