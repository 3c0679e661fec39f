//! The real runner with the program of a container job: when it starts, how it is stopped, and what it leaves behind.

use crate::server::container::{run_job, run_script};
use crate::server::{Home, Server, code};
use canyon_domain::failure::{Failure, FailureClass, Phase};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Ignores SIGTERM, as does its child, which has a session of its own. Both write their pids.
const STUBBORN: &str = "trap '' TERM; setsid sh -c 'echo $$ > child; while true; do sleep 1; done' & echo $$ > pid; until [ -s child ]; do sleep 0.05; done; echo began; while true; do sleep 1; done";

fn failure(server: &Server) -> Failure {
    server.plane().result().failure.clone().unwrap()
}

/// Whether the process whose pid is in the file `name` of the shared directory lives.
fn lives(home: &Home, name: &str) -> bool {
    let pid = fs::read_to_string(home.shared().join(name)).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
    status.contains("\nState:") && !status.contains("\nState:\tZ")
}

#[test]
fn the_program_starts_only_after_canyon_has_stored_that() {
    let home = Home::new();
    let server = Server::start(home.container_job("touch started", &json!({})));
    server.plane().stale = usize::MAX;
    let runner = home.container(&server).spawn().unwrap();
    server.wait_until("reports of the program", |plane| plane.stale <= usize::MAX - 2);
    sleep(Duration::from_millis(300));
    assert!(!home.shared().join("started").exists() && home.shared().exists());
    server.plane().stale = 0;
    assert_eq!(code(runner), 0, "{}", server.plane().log());
    assert!(home.shared().join("started").exists());
}

#[test]
fn a_stop_before_the_program_starts_nothing() {
    let home = Home::new();
    let server = Server::start(home.container_job("touch started", &json!({})));
    server.plane().stale = usize::MAX;
    let runner = home.container(&server).spawn().unwrap();
    server.wait_until("reports of the program", |plane| plane.stale <= usize::MAX - 2);
    kill_process(Pid::from_raw(i32::try_from(runner.id()).unwrap()).unwrap(), Signal::TERM)
        .unwrap();
    assert_eq!(code(runner), 1);
    let plane = server.plane();
    let result = plane.result();
    assert_eq!(result.failure.as_ref().unwrap().class, FailureClass::Cancelled);
    assert!(result.untouched && !home.shared().join("started").exists(), "{result:?}");
}

#[test]
fn a_program_that_ends_at_sigterm_is_cancelled_whatever_its_exit_code() {
    let home = Home::new();
    let script = "trap 'echo cleaned; exit 0' TERM; echo began; while true; do sleep 0.1; done";
    let server = Server::start(home.container_job(script, &json!({})));
    let runner = home.container(&server).spawn().unwrap();
    server.wait_until("the program runs", |plane| plane.log().contains("began"));
    server.plane().stop = true;
    server.plane().stop_reason = Some(json!({"class": "cancelled", "message": "cancelled by mo"}));
    let begun = Instant::now();
    assert_eq!(code(runner), 1);
    assert!(begun.elapsed() < Duration::from_secs(10));
    let log = server.plane().log();
    let (_, after) = log.split_once("==> asking the program to stop\n").unwrap();
    assert!(after.contains("cleaned\n"), "{log}");
    let expected = "cancelled by mo; the program was stopped in create";
    assert_eq!(failure(&server), Failure::new(FailureClass::Cancelled, expected));
}

#[test]
fn a_program_that_ignores_sigterm_is_killed_with_all_that_it_has_started() {
    let home = Home::new();
    let server = Server::start(home.container_job(STUBBORN, &json!({"grace_seconds": 1})));
    let runner = home.container(&server).spawn().unwrap();
    server.wait_until("the program runs", |plane| plane.log().contains("began"));
    assert!(lives(&home, "pid") && lives(&home, "child"));
    server.plane().stop = true;
    let begun = Instant::now();
    assert_eq!(code(runner), 1);
    assert!(begun.elapsed() >= Duration::from_secs(1), "it had its time: {:?}", begun.elapsed());
    assert!(!lives(&home, "pid") && !lives(&home, "child"));
    let failure = failure(&server);
    assert_eq!(failure.class, FailureClass::Cancelled);
    let how = "the program was stopped in create and killed, because it did not end in time";
    assert!(failure.message.ends_with(how), "{failure:?}");
}

#[test]
fn a_program_that_takes_too_long_is_stopped() {
    let home = Home::new();
    let changes = json!({"grace_seconds": 1, "timeout_seconds": 2});
    let (exit, server) = run_script(&home, STUBBORN, &changes);
    let expected = Failure::new(FailureClass::Timeout, "TIMEOUT: after 2 s in create");
    assert_eq!((exit, failure(&server)), (1, expected), "{}", server.plane().log());
    assert!(!lives(&home, "pid") && !lives(&home, "child"));
    let script = "trap 'exit 0' TERM; while true; do sleep 0.1; done";
    let mut job = home.container_job(script, &json!({"timeout_seconds": 1}));
    job["mode"] = json!("destroy");
    let (_, server) = run_job(&home, job);
    let expected = Failure::new(FailureClass::Timeout, "TIMEOUT: after 1 s in destroy");
    assert_eq!(failure(&server), expected);
}

#[test]
fn what_a_program_leaves_behind_is_killed_and_delays_nothing() {
    let home = Home::new();
    let script = "setsid sh -c 'echo $$ > child; exec sleep 60' & until [ -s child ]; do sleep 0.05; done; sleep 60 & echo done it";
    let begun = Instant::now();
    let (exit, server) = run_script(&home, script, &json!({}));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(exit, 0, "{}", server.plane().log());
    assert!(server.plane().log().contains("\ndone it\n") && !lives(&home, "child"));
}

#[test]
fn a_program_whose_attempt_is_over_is_killed_and_nothing_is_delivered() {
    let home = Home::new();
    let server = Server::start(home.container_job(STUBBORN, &json!({"grace_seconds": 0})));
    let runner = home.container(&server).spawn().unwrap();
    server.wait_until("the program runs", |plane| plane.log().contains("began"));
    server.plane().over = true;
    assert_eq!(code(runner), 75);
    assert!(server.plane().results.is_empty() && !lives(&home, "pid") && !lives(&home, "child"));
}

#[test]
fn an_outage_of_the_control_plane_stops_no_program() {
    let home = Home::new();
    let script =
        "echo began; until [ -e go ]; do sleep 0.1; done; echo '{\"a\": 1}' > $OUTPUTS_FILE";
    let mut server = Server::start(home.container_job(script, &json!({})));
    let runner = home.container(&server).spawn().unwrap();
    server.wait_until("the program runs", |plane| plane.log().contains("began"));
    server.die();
    fs::write(home.shared().join("go"), "").unwrap();
    sleep(Duration::from_secs(1));
    server.resume();
    assert_eq!(code(runner), 0, "{}", server.plane().log());
    assert_eq!(server.plane().result().plain_outputs.len(), 1);
}

#[test]
fn the_program_has_the_jobs_identity_of_an_apply_outside_of_the_shared_directory() {
    let home = Home::new();
    let script = "cat $AWS_WEB_IDENTITY_TOKEN_FILE > token; echo \"$AWS_ROLE_ARN\" >> token; echo $AWS_WEB_IDENTITY_TOKEN_FILE >> token; echo \"key: $AWS_ACCESS_KEY_ID\" >> token";
    let mut job = home.container_job(script, &json!({}));
    job["identity"] = json!({"aws": {
        "role_arn": "arn:aws:iam::123456789012:role/apply",
        "plan_role_arn": "arn:aws:iam::123456789012:role/plan", "region": "eu-west-1",
    }});
    let server = Server::start(job);
    let mut command = home.container(&server);
    command.env("AWS_ACCESS_KEY_ID", "of the image");
    assert_eq!(command.status().unwrap().code(), Some(0), "{}", server.plane().log());
    let seen = fs::read_to_string(home.shared().join("token")).unwrap();
    assert!(seen.starts_with("header.apply-0.signature-"), "{seen}");
    assert!(seen.contains("role/apply\n") && seen.ends_with("\nkey: \n"), "{seen}");
    assert!(!seen.contains(home.shared().to_str().unwrap()), "{seen}");
    assert!(server.plane().phases.contains(&Phase::Apply));
}
