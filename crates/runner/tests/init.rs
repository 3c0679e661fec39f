//! The runner as PID 1 of a real container of its image, against a small control plane.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may panic when its own setup fails"
)]

#[allow(dead_code, reason = "this program uses a part of it")]
#[path = "suite/server/mod.rs"]
mod server;

use canyon_api::attempt::ResultStatus;
use serde_json::{Value, json};
use server::container::IMAGE;
use server::{CODE, DEPLOYMENT, Home, Server};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A grandchild outlives its parents, prints the pid of its new parent, and ends.
const ORPHANS: &str = r#"
resource "terraform_data" "leaves_orphans" {
  provisioner "local-exec" {
    command = "for i in 1 2 3 4 5; do (sh -c 'sleep 2; cut -d\" \" -f4 /proc/$$/stat >> /work/parents' >/dev/null 2>&1 &); done"
  }
}
resource "terraform_data" "counts" {
  depends_on = [terraform_data.leaves_orphans]
  provisioner "local-exec" {
    command = "until [ \"$(wc -l < /work/parents)\" = 5 ]; do sleep 0.1; done; for i in $(seq 100); do grep -qE '^State:.Z' /proc/[0-9]*/status || break; sleep 0.1; done; echo parents $(sort -u /work/parents), zombies $(grep -lE '^State:.Z' /proc/[0-9]*/status | wc -l)"
  }
}
"#;

/// Would take a minute.
const SLOW: &str = r#"
resource "terraform_data" "first" {}
resource "terraform_data" "slow" {
  depends_on = [terraform_data.first]
  provisioner "local-exec" { command = "echo began; sleep 60" }
}
"#;

/// The settings that `scripts/cluster` wrote.
fn cluster() -> BTreeMap<String, String> {
    let folder = std::env::var_os("CANYON_TEST_CLUSTER").map(PathBuf::from);
    let path = folder.expect("set CANYON_TEST_CLUSTER; scripts/test does").join("env");
    let text = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run scripts/cluster up", path.display()));
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn docker(arguments: &[&str]) -> Output {
    let output = Command::new("timeout")
        .args(["60", "docker"])
        .args(arguments)
        .env("DOCKER_HOST", &cluster()["DOCKER_HOST"])
        .output()
        .unwrap();
    assert!(output.status.success(), "docker {arguments:?}: {output:?}");
    output
}

/// One container, as restricted as a platform can make it. It is removed when this value is dropped.
struct Container(String);

impl Container {
    fn start(home: &Home, server: &Server) -> Self {
        Self::start_with(home, server, &[])
    }

    /// With `further` variables.
    fn start_with(home: &Home, server: &Server, further: &[&str]) -> Self {
        // The image's user has no account on this machine, so the state's folder must be open to every user.
        let folder = home.folder.path();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        let mount = format!("{0}:{0}", folder.display());
        let variables = [
            format!("CANYON_API_URL={}", server.url()),
            "CANYON_ORG=local".to_owned(),
            format!("CANYON_DEPLOYMENT_ID={DEPLOYMENT}"),
            "CANYON_ATTEMPT=1".to_owned(),
            format!("CANYON_CLAIM_CODE={CODE}"),
        ];
        let cluster = cluster();
        let mut arguments = vec!["run", "--detach", "--network", "host", "--read-only"];
        arguments.extend(["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
        arguments.extend(["--tmpfs", "/work:mode=1777", "--volume", &mount]);
        arguments.extend(variables.iter().flat_map(|variable| ["--env", variable]));
        arguments.extend(further.iter().flat_map(|variable| ["--env", variable]));
        arguments.push(&cluster["RUNNER_IMAGE"]);
        let started = docker(&arguments);
        Self(String::from_utf8(started.stdout).unwrap().trim().to_owned())
    }

    /// The container's exit code, once it has ended.
    fn wait(&self) -> i32 {
        let code = docker(&["wait", &self.0]).stdout;
        String::from_utf8(code).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        docker(&["rm", "--force", &self.0]);
    }
}

fn run(source: &str, changes: &Value) -> (i32, Server) {
    let home = Home::new();
    let server = Server::start(home.job(source, changes));
    let container = Container::start(&home, &server);
    let exit = container.wait();
    (exit, server)
}

#[test]
fn processes_that_modules_leave_behind_are_reaped() {
    let (exit, server) = run(ORPHANS, &json!({}));
    let log = server.plane().log();
    assert_eq!(exit, 0, "{log}");
    assert!(log.contains("parents 1, zombies 0"), "the runner adopted and reaped them: {log}");
}

#[test]
fn a_stop_of_the_container_reaches_opentofu_and_waits_for_it() {
    let home = Home::new();
    let server = Server::start(home.job(SLOW, &json!({})));
    let container = Container::start(&home, &server);
    server.wait_until("the apply runs", |plane| plane.log().contains("began"));
    let asked = Instant::now();
    docker(&["stop", "--time", "40", &container.0]);
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(30), "it was not killed in the end: {took:?}");
    assert_eq!(container.wait(), 1, "it ended by itself: {}", server.plane().log());
    let plane = server.plane();
    assert_eq!(plane.result().status, ResultStatus::Failure, "{}", plane.log());
    assert_eq!(home.resources(), ["first", "slow"], "OpenTofu saved the state: {}", plane.log());
    drop(plane);
}

#[test]
fn the_exit_code_of_the_container_is_the_runners() {
    let (exit, server) = run("resource \"terraform_data\" \"x\" {}", &json!({}));
    assert_eq!(exit, 0, "{}", server.plane().log());
    let (exit, server) = run("this is no module", &json!({}));
    assert_eq!(exit, 1, "{}", server.plane().log());
}

#[test]
fn the_error_of_git_in_the_container_is_in_the_result() {
    let module = json!({"source": "git::https://127.0.0.1:9/x.git", "source_code": null});
    let (exit, server) = run("", &json!({"bundle": {"module": module}}));
    let plane = server.plane();
    assert_eq!(exit, 1, "{}", plane.log());
    let failure = plane.result().failure.clone().unwrap();
    assert!(failure.message.contains("`git fetch` failed: fatal: unable to access"), "{failure:?}");
}

/// Ignores SIGTERM, as does its child, which has a session of its own and holds the output open.
const STUBBORN: &str = "trap '' TERM; setsid sh -c 'echo began; while true; do sleep 1; done' & while true; do sleep 1; done";

#[test]
fn a_stop_of_the_container_kills_the_program_of_a_container_job_with_all_that_it_has_started() {
    let home = Home::new();
    let changes = json!({"shared_directory": "/work/shared", "grace_seconds": 1});
    let server = Server::start(home.container_job(STUBBORN, &changes));
    let image = format!("CANYON_JOB_IMAGE={IMAGE}");
    let container = Container::start_with(&home, &server, &[&image]);
    server.wait_until("the program runs", |plane| plane.log().contains("began"));
    let asked = Instant::now();
    docker(&["stop", "--time", "40", &container.0]);
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(20), "nothing held the runner up: {took:?}");
    assert_eq!(container.wait(), 1, "it ended by itself: {}", server.plane().log());
    let failure = server.plane().result().failure.clone().unwrap();
    assert!(failure.message.contains("killed, because it did not end in time"), "{failure:?}");
}
