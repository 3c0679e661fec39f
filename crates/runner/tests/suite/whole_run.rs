//! The real runner with the real OpenTofu, against a small control plane.

use crate::server::{CODE, Home, Plane, Server, TOKEN, code};
use base64::{Engine, engine::general_purpose::STANDARD};
use canyon_api::attempt::{FetchedModuleBody, ResultStatus};
use canyon_api::sealed_log::decode_frames;
use canyon_domain::failure::{FailureClass, Phase};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::time::{Duration, Instant};

const THREE: &str = r#"
variable "word" { default = "default" }
resource "terraform_data" "a" {
  count = 3
  input = var.word
}
output "word" { value = var.word }
output "secret" {
  value     = "hush-hush"
  sensitive = true
}
"#;

/// Prints a line at its end, which a stop prevents.
const SLOW: &str = r#"
terraform {
  backend "s3" { bucket = "not-ours" }
}
resource "terraform_data" "first" {}
resource "terraform_data" "slow" {
  depends_on = [terraform_data.first]
  provisioner "local-exec" { command = "echo began; sleep 4; echo ended" }
}
"#;

fn run(home: &Home, source: &str, changes: &Value) -> (i32, Server) {
    let server = Server::start(home.job(source, changes));
    let exit = code(home.start(&server));
    (exit, server)
}

fn counts(plane: &Plane) -> (u32, u32, u32, u32) {
    let counts = plane.result().tf_resource_counts.unwrap();
    let removed = counts.num_resources_removed;
    (
        counts.num_resources.unwrap(),
        counts.num_resources_added,
        counts.num_resources_changed,
        removed,
    )
}

fn signal(runner: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(runner.id()).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn an_environment_is_deployed_found_unchanged_planned_changed_and_destroyed() {
    let home = Home::new();
    let (exit, server) =
        run(&home, THREE, &json!({"bundle": {"module": {"inputs": {"word": "one"}}}}));
    let plane = server.plane();
    assert_eq!((exit, counts(&plane)), (0, (3, 3, 0, 0)), "{}", plane.log());
    let result = plane.result();
    assert_eq!(result.status, ResultStatus::Success);
    assert_eq!(result.plain_outputs["word"].value, Some("one".into()));
    assert_eq!(result.plain_outputs["secret"].value, None);
    assert!(result.outputs.is_none() && result.plain_outputs["secret"].sensitive);
    assert!(
        !serde_json::to_string(result).unwrap().contains("hush") && !plane.log().contains("hush")
    );
    assert_eq!(plane.phases.iter().max(), Some(&Phase::Apply));
    assert!(plane.log().starts_with("==> attempt 1 fetches inline\n"), "{}", plane.log());
    assert!(plane.log().ends_with("==> done\n"), "{}", plane.log());
    assert!(plane.events().lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));

    let (exit, server) =
        run(&home, THREE, &json!({"bundle": {"module": {"inputs": {"word": "one"}}}}));
    let plane = server.plane();
    assert_eq!((exit, counts(&plane)), (0, (3, 0, 0, 0)), "{}", plane.log());
    assert_eq!(plane.result().plain_outputs["word"].value, Some("one".into()));
    assert!(plane.log().contains("==> no changes\n") && !plane.phases.contains(&Phase::Apply));

    let (exit, server) = run(&home, THREE, &json!({"plan_only": true}));
    let plane = server.plane();
    assert_eq!((exit, plane.phases.contains(&Phase::Apply)), (0, false), "{}", plane.log());
    assert!(plane.log().contains("Plan: 0 to add, 3 to change, 0 to destroy."), "{}", plane.log());

    let (exit, server) = run(&home, THREE, &json!({}));
    assert_eq!((exit, counts(&server.plane())), (0, (3, 0, 3, 0)), "{}", server.plane().log());

    let (exit, server) = run(&home, THREE, &json!({"mode": "destroy"}));
    assert_eq!((exit, counts(&server.plane())), (0, (0, 0, 0, 3)), "{}", server.plane().log());
    assert_eq!(home.resources(), Vec::<String>::new());
}

#[test]
fn the_report_of_an_apply_and_the_result_name_the_inputs_that_are_secret() {
    const MODULE: &str = "variable \"open\" {}\nvariable \"closed\" {\n  sensitive = true\n}\nresource \"terraform_data\" \"a\" {}";
    let home = Home::new();
    let inputs = json!({ "open": 1, "closed": 2, "unknown": 3 });
    let changes = json!({ "bundle": { "module": { "inputs": inputs } } });
    let (exit, server) = run(&home, MODULE, &changes);
    assert_eq!(exit, 0, "{}", server.plane().log());
    let secret = vec!["closed".to_owned(), "unknown".to_owned()];
    let expected = FetchedModuleBody { commit: None, secret_inputs: Some(secret) };
    let plane = server.plane();
    assert_eq!(plane.fetched_before_apply.as_ref(), Some(&expected));
    assert_eq!(plane.result().fetched.as_ref(), Some(&expected));
}

#[test]
fn a_failure_names_its_class_and_its_position() {
    let home = Home::new();
    let broken_storage =
        json!({"backend": {"terraform": {"backend": {"local": {"path": "/proc/x/y"}}}}});
    for (source, changes, class, words) in [
        ("resource \"x\" {", json!({}), FailureClass::User, "main.tf:1"),
        (
            "output \"x\" { value = var.nope }",
            json!({}),
            FailureClass::User,
            "Reference to undeclared",
        ),
        ("variable \"x\" {}", json!({}), FailureClass::User, "No value for required variable"),
        (
            "resource \"terraform_data\" \"x\" {\n provisioner \"local-exec\" { command = \"exit 3\" }\n}",
            json!({}),
            FailureClass::User,
            "terraform_data.x, main.tf:2",
        ),
        (THREE, broken_storage, FailureClass::Config, "state storage"),
    ] {
        let (exit, server) = run(&home, source, &changes);
        let plane = server.plane();
        let failure = plane.result().failure.clone().unwrap();
        assert_eq!((exit, failure.class), (1, class), "{source}: {}", failure.message);
        assert!(failure.message.contains(words), "{}", failure.message);
        assert!(plane.log().contains("==> error: "), "{}", plane.log());
    }
}

/// Who stops a run, and how.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// The control plane, in an answer.
    Asked,
    /// The platform, by these signals to the runner alone.
    Signals(&'static [Signal]),
    /// A terminal or a supervisor, by a signal to all of the runner's process group.
    Group(Signal),
}

/// A stop by the control plane and by the platform: OpenTofu gets one signal, saves the state and frees the lock.
#[test]
fn a_stop_during_the_apply_saves_the_state_and_is_reported() {
    let stops = [
        Stop::Asked,
        Stop::Signals(&[Signal::TERM]),
        Stop::Signals(&[Signal::INT]),
        Stop::Signals(&[Signal::TERM, Signal::INT]),
        Stop::Group(Signal::TERM),
        Stop::Group(Signal::INT),
    ];
    for stop in stops {
        let home = Home::new();
        let server = Server::start(home.job(SLOW, &json!({})));
        let runner = home.command(&server).process_group(0).spawn().unwrap();
        server.wait_until("the slow resource begins", |plane| plane.log().contains("began"));
        let begun = Instant::now();
        match stop {
            Stop::Asked => server.plane().stop = true,
            Stop::Signals(signals) => signals.iter().for_each(|which| signal(&runner, *which)),
            Stop::Group(which) => {
                let group = Pid::from_raw(i32::try_from(runner.id()).unwrap()).unwrap();
                kill_process_group(group, which).unwrap();
            }
        }
        assert_eq!(code(runner), 1);
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        let plane = server.plane();
        let failure = plane.result().failure.clone().unwrap();
        assert_eq!(failure.class, FailureClass::Cancelled, "{stop:?}: {}", plane.log());
        // A signal to the group has reached OpenTofu already: after a second signal it would not save its state.
        let asked = usize::from(!matches!(stop, Stop::Group(_)));
        assert_eq!(plane.log().matches("asking tofu to stop").count(), asked, "{}", plane.log());
        assert_eq!(plane.events().matches("Interrupt received").count(), 1);
        assert!(!plane.events().contains("Two interrupts received"));
        assert!(plane.result().orphans.is_empty());
        assert!(home.resources().contains(&"first".to_owned()), "{stop:?}: {}", plane.log());
        drop(plane);
        let (exit, server) = run(&home, "# nothing\n", &json!({"mode": "destroy"}));
        assert_eq!(exit, 0, "the lock is free: {}", server.plane().log());
    }
}

#[test]
fn a_killed_apply_names_the_resources_that_the_state_does_not_list() {
    let home = Home::new();
    let server = Server::start(home.job(SLOW, &json!({})));
    let runner = home.start(&server);
    server.wait_until("the slow resource begins", |plane| plane.log().contains("began"));
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", runner.id())).unwrap();
    let tofu: i32 = children.trim().parse().unwrap();
    kill_process(Pid::from_raw(tofu).unwrap(), Signal::KILL).unwrap();
    assert_eq!(code(runner), 1);
    let plane = server.plane();
    assert_eq!(
        plane.result().failure.clone().unwrap().class,
        FailureClass::Lost,
        "{}",
        plane.log()
    );
    let known = home.resources();
    for name in ["first", "slow"] {
        let address = format!("terraform_data.{name}");
        let is_orphan = plane.result().orphans.iter().any(|orphan| orphan.address == address);
        assert_ne!(is_orphan, known.contains(&name.to_owned()), "{name}: {known:?}");
    }
}

#[test]
fn an_outage_of_the_control_plane_loses_nothing() {
    let home = Home::new();
    let source = SLOW.replace("sleep 4", "for i in $(seq 2000); do echo line $i; done; sleep 1");
    let mut server = Server::start(home.job(&source, &json!({})));
    server.plane().failures = 2;
    let runner = home.start(&server);
    server.wait_until("the slow resource begins", |plane| plane.log().contains("began"));
    server.die();
    std::thread::sleep(Duration::from_secs(2));
    server.plane().failures = 1;
    server.resume();
    assert_eq!(code(runner), 0, "{}", server.plane().log());
    let plane = server.plane();
    assert_eq!((counts(&plane), plane.wrong_offsets), ((2, 2, 0, 0), 0));
    // On a busy machine OpenTofu breaks a line where its program pauses for 100 ms within it, so only the whole is compared.
    let log = plane.log();
    let printed: String =
        log.lines().filter_map(|line| line.split("(local-exec): ").nth(1)).collect();
    let lines: Vec<_> = (1..=2000).map(|number| format!("line {number}")).collect();
    assert_eq!(printed.matches(&lines.concat()).count(), 1, "{log}");
    assert_eq!(printed.matches("line ").count(), 2000 + printed.matches("echo line ").count());
}

#[test]
fn a_runner_whose_attempt_is_over_stops_and_delivers_nothing() {
    let home = Home::new();
    let server = Server::start(home.job(SLOW, &json!({})));
    let runner = home.start(&server);
    server.wait_until("the slow resource begins", |plane| plane.log().contains("began"));
    server.plane().over = true;
    assert_eq!(code(runner), 75);
    assert!(server.plane().results.is_empty());
    assert!(home.resources().contains(&"first".to_owned()), "the state was saved");
}

#[test]
fn of_many_runners_of_one_attempt_one_runs_it_and_the_others_change_nothing() {
    let home = Home::new();
    let server = Server::start(home.job(THREE, &json!({})));
    let runners: Vec<_> = (0..8).map(|_| home.start(&server)).collect();
    let mut codes: Vec<_> = runners.into_iter().map(code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 75, 75, 75, 75, 75, 75, 75]);
    let made = std::fs::read_dir(home.folder.path()).unwrap();
    let with_module =
        made.filter(|entry| entry.as_ref().unwrap().path().join("module").exists()).count();
    assert_eq!(with_module, 1);
}

/// The variables of Canyon's that a module gets.
const FOR_MODULES: [&str; 6] = [
    "CANYON_ENDPOINT",
    "CANYON_GROUP_PATH",
    "CANYON_ORG",
    "CANYON_PROJECT",
    "CANYON_ENVIRONMENT",
    "CANYON_DEPLOYMENT",
];

#[test]
fn secrets_are_masked_and_the_modules_environment_has_none_of_canyons() {
    let home = Home::new();
    let source = r#"resource "terraform_data" "x" {
      provisioner "local-exec" { command = "echo $DB_PASSWORD; env | sort; cat /proc/$PPID/environ" }
    }"#;
    let environment = json!({"environment": {
        "DB_PASSWORD": "pass-word-77", "REGION": "eu-west-1", "TF_CLI_ARGS_apply": "-lock=false",
    }});
    let (exit, server) = run(&home, source, &environment);
    let plane = server.plane();
    let all = plane.log() + &plane.events();
    assert_eq!(exit, 0, "{all}");
    assert!(all.contains("DB_PASSWORD=************") && all.contains("REGION=eu-west-1"), "{all}");
    assert!(all.contains("`TF_CLI_ARGS_apply` of the job's environment does not reach"), "{all}");
    for hidden in ["pass-word-77", CODE, TOKEN, "-lock=false"] {
        assert!(!all.contains(hidden), "{hidden}");
    }
    for (at, _) in all.match_indices("CANYON_") {
        let name = all[at..].lines().next().unwrap_or_default();
        let is_meant = FOR_MODULES.iter().any(|meant| name.starts_with(&format!("{meant}=")));
        assert!(is_meant, "{name}");
    }
}

#[test]
fn an_encrypted_run_sends_nothing_in_clear() {
    let home = Home::new();
    let people = [(); 2].map(|()| age::x25519::Identity::generate());
    let recipients = people.each_ref().map(|identity| identity.to_public().to_string()).join(",");
    let bundle = json!({"bundle": {
        "encrypted_logs_recipient": recipients, "encrypted_outputs_recipient": recipients,
        "module": {"inputs": {"word": "visible-word"}},
    }});
    let (exit, server) = run(&home, THREE, &bundle);
    let plane = server.plane();
    assert_eq!(exit, 0);
    let (frames, rest) = decode_frames(&plane.streams["log"]).unwrap();
    assert!(rest.is_empty());
    let open = |bytes: &[u8]| {
        let [one, other] = people.each_ref().map(|identity| age::decrypt(identity, bytes).unwrap());
        assert_eq!(one, other, "each of the two reads it alone");
        String::from_utf8(one).unwrap()
    };
    let log: String = frames.iter().map(|frame| open(frame)).collect();
    assert!(log.starts_with("==> attempt 1") && log.ends_with("==> done\n"), "{log}");
    assert!(
        plane.events().contains("terraform_data.a[0]") && !plane.events().contains("visible-word")
    );
    let outputs = open(&STANDARD.decode(plane.result().outputs.as_ref().unwrap()).unwrap());
    let outputs: Value = serde_json::from_str(&outputs).unwrap();
    assert_eq!(outputs, json!({"word": "visible-word", "secret": "hush-hush"}));
}

#[test]
fn a_missing_setting_ends_the_runner_with_one_line() {
    let output =
        std::process::Command::new(env!("CARGO_BIN_EXE_canyon-runner")).env_clear().output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(64));
    let message = String::from_utf8(output.stderr).unwrap();
    let begins = message.starts_with("canyon-runner: CANYON_API_URL is not set");
    assert!(begins && message.lines().count() == 1, "{message}");
}
