//! Plans that are judged by a policy, with the real OpenTofu.

use crate::server::{Home, Server, code};
use canyon_api::policy::PolicyReportBody;
use canyon_domain::failure::{Failure, FailureClass};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";
const DIGEST: &str = "abababababababababababababababababababababababababababababababab";

/// Denies the deletion of what is called `disk`, and warns of each creation.
const POLICY: &str = r#"package canyon

import rego.v1

deny contains msg if {
	some change in input.resource_changes
	"delete" in change.change.actions
	change.name == "disk"
	msg := sprintf("%s is not deleted in %s of %s", [change.address, data.canyon_context.environment, data.canyon_context.project])
}

warn contains {"msg": msg} if {
	some change in input.resource_changes
	"create" in change.change.actions
	msg := sprintf("%s is new (%s)", [change.address, data.canyon_context.mode])
}
"#;

const DISK: &str = "resource \"terraform_data\" \"disk\" { input = \"a\" }\n";

fn policy(text: &str, seconds: u32) -> Value {
    json!({ "policy": { "digest": DIGEST, "modules": { "a.rego": text }, "timeout_seconds": seconds } })
}

/// Runs a job with a policy and further changes.
fn run(home: &Home, source: &str, text: &str, changes: &Value) -> (i32, Server) {
    let mut job = home.job(source, &policy(text, 10));
    for (name, value) in changes.as_object().unwrap() {
        job[name] = value.clone();
    }
    let server = Server::start(job);
    let exit = code(home.start(&server));
    (exit, server)
}

fn failure(server: &Server) -> Failure {
    let plane = server.plane();
    plane.result().failure.clone().unwrap_or_else(|| panic!("{}", plane.log()))
}

fn report(server: &Server) -> PolicyReportBody {
    let plane = server.plane();
    plane.result().policy.clone().unwrap_or_else(|| panic!("{}", plane.log()))
}

#[test]
fn warnings_are_shown_and_the_deployment_goes_on() {
    let home = Home::new();
    let (exit, server) = run(&home, DISK, POLICY, &json!({}));
    assert_eq!(exit, 0, "{}", server.plane().log());
    assert_eq!(home.resources(), ["disk"]);
    let report = report(&server);
    assert_eq!(report.digest.as_str(), DIGEST);
    assert_eq!(report.warnings, ["terraform_data.disk is new (deploy)"]);
    assert_eq!((report.num_warnings, report.num_denied), (1, 0));
    let plane = server.plane();
    for text in [plane.log(), plane.events()] {
        assert!(text.contains("policy: terraform_data.disk is new (deploy)"), "{text}");
    }
}

#[test]
fn a_plan_that_is_denied_is_not_applied_whatever_made_it() {
    let home = Home::new();
    assert_eq!(run(&home, DISK, POLICY, &json!({})).0, 0);
    let denied = "POLICY_DENIED: terraform_data.disk is not deleted in development of shop. Nothing was changed";
    for (source, changes) in [
        ("# nothing\n", json!({})),
        (DISK, json!({ "mode": "destroy" })),
        ("# nothing\n", json!({ "mode": "rollback" })),
        ("# nothing\n", json!({ "plan": { "do": "review", "key": KEY, "required": "always" } })),
    ] {
        let (exit, server) = run(&home, source, POLICY, &changes);
        assert_eq!(exit, 1, "{changes}");
        let failure = failure(&server);
        assert_eq!((failure.class, failure.message.as_str()), (FailureClass::User, denied));
        assert_eq!(
            report(&server).denied,
            ["terraform_data.disk is not deleted in development of shop"]
        );
        assert_eq!(home.resources(), ["disk"], "{changes}");
        let plane = server.plane();
        assert!(plane.result().plan.is_none() && plane.pieces.is_empty(), "{changes}");
        assert!(plane.log().contains("error: policy: terraform_data.disk"), "{}", plane.log());
    }
}

#[test]
fn a_plan_alone_that_is_denied_fails_and_is_kept_for_people() {
    let home = Home::new();
    assert_eq!(run(&home, DISK, POLICY, &json!({})).0, 0);
    let keep = json!({ "plan_only": true, "plan": { "do": "keep", "key": KEY } });
    let (exit, server) = run(&home, "# nothing\n", POLICY, &keep);
    assert_eq!(exit, 1, "{}", server.plane().log());
    assert!(failure(&server).message.starts_with("POLICY_DENIED: "));
    assert_eq!(server.plane().result().plan.as_ref().unwrap().summary.remove, 1);
}

#[test]
fn the_apply_of_a_kept_plan_is_judged_by_the_policy_of_now() {
    let home = Home::new();
    assert_eq!(run(&home, DISK, POLICY, &json!({})).0, 0);
    let keep = json!({ "plan_only": true, "plan": { "do": "keep", "key": KEY } });
    let (exit, planned) = run(&home, "# nothing\n", "package canyon\nwarn := []", &keep);
    assert_eq!(exit, 0, "{}", planned.plane().log());
    let body = planned.plane().result().plan.clone().unwrap();
    let apply = json!({
        "do": "apply", "key": KEY, "attempt": 1, "digest": body.digest, "parts": body.parts, "summary": body.summary,
    });
    let mut job = home.job("# nothing\n", &policy(POLICY, 10));
    job["plan"] = apply;
    let server = Server::start(job);
    server.plane().pieces = planned.plane().pieces.clone();
    assert_eq!(code(home.start(&server)), 1, "{}", server.plane().log());
    assert!(failure(&server).message.starts_with("POLICY_DENIED: "));
    assert_eq!(home.resources(), ["disk"]);
}

/// Each of these policies would take hours, or more memory than there is, or end its process.
#[test]
fn a_policy_that_takes_too_much_ends_the_run_in_time_without_an_apply() {
    let home = Home::new();
    let slow = "package canyon\ndeny contains \"never\" if {\n\tsome a in numbers.range(1, 100000)\n\tsome b in numbers.range(1, 100000)\n\ta * b == -1\n}";
    let large = "package canyon\nt0 := sprintf(\"%s\", [concat(\"\", [\"x\" | some i in numbers.range(1, 100000)])])\n\
                 t1 := concat(\"\", [t0 | some i in numbers.range(1, 1000)])\nt2 := concat(\"\", [t1 | some i in numbers.range(1, 1000)])\n\
                 deny contains \"never\" if count(t2) == 1";
    let endless = "package canyon\nf(x) := f(x + 1)\ndeny contains \"never\" if f(1) == 0";
    for (text, seconds, expected) in [
        (slow, 1, "POLICY_TIMEOUT: the policy was not evaluated within 1 s"),
        (large, 60, "POLICY_FAILED: the policy needs more than 1024 MiB of memory"),
        (endless, 60, "POLICY_FAILED: the policy calls itself without end"),
    ] {
        let begun = Instant::now();
        let server = Server::start(home.job(DISK, &policy(text, seconds)));
        assert_eq!(code(home.start(&server)), 1, "{text}");
        let failure = failure(&server);
        assert!(failure.message.starts_with(expected), "{failure:?}");
        assert!(failure.message.ends_with("Nothing was changed"), "{failure:?}");
        assert_eq!(failure.class, FailureClass::Config);
        assert!(begun.elapsed() < Duration::from_mins(1), "{expected}: {:?}", begun.elapsed());
        assert_eq!(home.resources(), Vec::<String>::new());
        assert!(server.plane().result().policy.is_none());
    }
}

#[test]
fn a_policy_that_cannot_be_evaluated_says_where_and_nothing_is_applied() {
    let home = Home::new();
    for (text, expected) in [
        (
            "package canyon\ndeny contains msg if {\n\tmsg := 1 + input.format_version\n}",
            "POLICY_FAILED: a.rego:3:21: `add` expects numeric argument.",
        ),
        (
            "package canyon\ndeny := [\"a\"] if true\ndeny := [\"b\"] if true",
            "POLICY_FAILED: a.rego:3:1: rule conflicts",
        ),
        ("package canyon\ndeny := true", "POLICY_FAILED: `data.canyon.deny` is no set"),
        ("package canyon\ndeny contains", "POLICY_FAILED: a.rego:2:14: expecting expression"),
    ] {
        let (exit, server) = run(&home, DISK, text, &json!({}));
        assert_eq!(exit, 1, "{text}");
        let failure = failure(&server);
        assert!(failure.message.starts_with(expected), "{failure:?}");
        assert_eq!(failure.class, FailureClass::Config);
        assert_eq!(home.resources(), Vec::<String>::new());
    }
}

#[test]
fn no_secret_leaves_the_runner_in_a_message() {
    let home = Home::new();
    let source = r#"
variable "word" { sensitive = true }
variable "kept" {}
resource "terraform_data" "one" { input = "${var.word} and ${var.kept}" }
"#;
    let text = "package canyon\nwarn contains sprintf(\"%s\", [input.variables.word.value])\n\
                deny contains sprintf(\"%s\", [input.variables.kept.value])\n\
                deny contains \"\\u001b[31mred\"\n\
                deny contains concat(\"\", array.concat([\"x\" | some n in numbers.range(1, 236)], array.concat([input.variables.word.value], [\"x\" | some n in numbers.range(1, 600)])))";
    let changes = json!({
        "bundle": { "module": { "source": "inline", "source_code": source, "inputs": { "word": "hush-hush-hush" } } },
        "variables": [{ "kind": "terraform", "name": "kept", "value": "kept-secret-value", "secret": true, "from": "project:shop" }],
    });
    let fails = "package canyon\ndeny contains 1 + input.variables.word.value";
    for (text, start) in [(text, "POLICY_DENIED: "), (fails, "POLICY_FAILED: a.rego:2:")] {
        let (exit, server) = run(&home, source, text, &changes);
        assert_eq!(exit, 1, "{}", server.plane().log());
        let plane = server.plane();
        let result = serde_json::to_string(plane.result()).unwrap();
        for secret in ["hush-hush-hush", "kept-secret-value", "hush-", "\u{1b}"] {
            for text in [&result, &plane.log(), &plane.events()] {
                assert!(!text.contains(secret), "{secret}: {text}");
            }
        }
        let message = &plane.result().failure.as_ref().unwrap().message;
        assert!(message.starts_with(start), "{message}");
    }
}

#[test]
fn with_an_encrypted_log_messages_stay_in_it() {
    let home = Home::new();
    let module = json!({ "source": "inline", "source_code": DISK, "inputs": {} });
    let recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    let bundle = json!({ "bundle": { "module": module, "encrypted_logs_recipient": recipient } });
    let text =
        "package canyon\ndeny contains input.planned_values.root_module.resources[_].address";
    let (exit, server) = run(&home, DISK, text, &bundle);
    assert_eq!(exit, 1);
    let report = report(&server);
    assert_eq!((report.denied.len(), report.num_denied), (0, 1));
    let message = failure(&server).message;
    assert!(message.starts_with("POLICY_DENIED: 1 messages"), "{message}");
    assert!(!message.contains("terraform_data"), "{message}");
}
