//! The real runner with the program of a container job, against a small control plane: what becomes of its answer.

use crate::server::Home;
use crate::server::container::{IMAGE, failure_of, run_job, run_script};
use base64::{Engine, engine::general_purpose::STANDARD};
use canyon_api::attempt::ResultStatus;
use canyon_domain::failure::{FailureClass, Phase};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A program that writes text of a length to a file of outputs.
fn outputs_of_length(length: usize) -> String {
    let value = length - r#"{"a":""}"#.len();
    format!(
        r#"{{ printf '{{"a":"'; head -c {value} /dev/zero | tr '\0' x; printf '"}}'; }} > $OUTPUTS_FILE"#
    )
}

#[test]
fn a_program_that_succeeds_gives_its_outputs_with_their_types() {
    let script = r#"
        echo creating
        echo '{"url": "https://x", "size": 18446744073709551617, "list": [1, {"a": null}], "on": true}' > $OUTPUTS_FILE
        echo '{"password": "hunter-2-hunter"}' > $SECRET_OUTPUTS_FILE
    "#;
    let (exit, server) = run_script(&Home::new(), script, &json!({}));
    let plane = server.plane();
    let result = plane.result();
    assert_eq!((exit, result.status), (0, ResultStatus::Success), "{}", plane.log());
    let value = |name: &str| result.plain_outputs[name].value.as_ref().map(ToString::to_string);
    assert_eq!(value("url").as_deref(), Some(r#""https://x""#));
    assert_eq!(value("size").as_deref(), Some("18446744073709551617"));
    assert_eq!(value("list").as_deref(), Some(r#"[1,{"a":null}]"#));
    assert_eq!(value("on").as_deref(), Some("true"));
    assert_eq!((value("password"), result.plain_outputs["password"].sensitive), (None, true));
    let secret = result.secret_outputs["password"].expose().to_string();
    assert_eq!(secret, r#""hunter-2-hunter""#, "Canyon seals it");
    assert!(!serde_json::to_string(&result.plain_outputs).unwrap().contains("hunter-2"));
    assert!(result.tf_resource_counts.is_none() && result.state.is_none());
    assert_eq!((result.phase, result.untouched), (Some(Phase::Apply), false));
    let log = plane.log();
    let begin =
        format!("==> attempt 1 runs {IMAGE}\n==> create s3.default#photos: /bin/sh\ncreating\n");
    assert!(log.starts_with(&begin) && log.ends_with("==> done\n"), "{log}");
    assert!(plane.events().is_empty(), "{}", plane.events());
}

#[test]
fn a_program_without_outputs_succeeds() {
    let (exit, server) = run_script(&Home::new(), "true", &json!({}));
    assert_eq!((exit, server.plane().result().plain_outputs.len()), (0, 0));
}

#[test]
fn each_end_of_a_program_has_its_class_and_its_message() {
    let nothing = json!({});
    for (script, class, expected) in [
        ("exit 3", FailureClass::User, "EXIT_CODE: exit code 3"),
        (
            "echo 'no such bucket' >> $ERROR_FILE; echo 'try another' >> $ERROR_FILE; exit 4",
            FailureClass::User,
            "EXIT_CODE: exit code 4: no such bucket\ntry another",
        ),
        (
            "mkfifo $ERROR_FILE; exit 5",
            FailureClass::User,
            "EXIT_CODE: exit code 5: ERROR_FILE is a FIFO and no regular file",
        ),
        (
            "echo '[1]' > $OUTPUTS_FILE",
            FailureClass::User,
            "OUTPUTS_INVALID: OUTPUTS_FILE: expected an object, got a list",
        ),
        (
            "printf hunter2 > $SECRET_OUTPUTS_FILE",
            FailureClass::User,
            "OUTPUTS_INVALID: SECRET_OUTPUTS_FILE: no JSON at line 1 column 1",
        ),
        (
            r#"echo '{"a": 1}' > $OUTPUTS_FILE; echo '{"a": 2}' > $SECRET_OUTPUTS_FILE"#,
            FailureClass::User,
            "OUTPUTS_INVALID: OUTPUTS_FILE and SECRET_OUTPUTS_FILE both have the output `a`",
        ),
        (
            "mkfifo $OUTPUTS_FILE",
            FailureClass::User,
            "OUTPUTS_INVALID: OUTPUTS_FILE is a FIFO and no regular file",
        ),
        (
            "echo '{}' > real; ln -s $PWD/real $SECRET_OUTPUTS_FILE",
            FailureClass::User,
            "OUTPUTS_INVALID: SECRET_OUTPUTS_FILE is a link and no regular file",
        ),
        (
            "mkdir $OUTPUTS_FILE",
            FailureClass::User,
            "OUTPUTS_INVALID: OUTPUTS_FILE is a folder and no regular file",
        ),
        (
            &outputs_of_length(312_441),
            FailureClass::User,
            "OUTPUTS_TOO_LARGE: OUTPUTS_FILE has 312,441 bytes, 262,144 are allowed",
        ),
        (
            "truncate -s 100G $SECRET_OUTPUTS_FILE",
            FailureClass::User,
            "OUTPUTS_TOO_LARGE: SECRET_OUTPUTS_FILE has 107,374,182,400 bytes, 262,144 are allowed",
        ),
        (
            "kill -SEGV $$",
            FailureClass::User,
            "SIGNAL: ended by signal 11 (SIGSEGV), and not by Canyon",
        ),
        (
            "kill -KILL $$",
            FailureClass::Lost,
            "SIGNAL: ended by signal 9 (SIGKILL), and not by Canyon",
        ),
    ] {
        assert_eq!(failure_of(script, &nothing), (class, expected.to_owned()), "{script}");
    }
}

#[test]
fn outputs_of_exactly_the_limit_are_taken_and_one_byte_more_is_not() {
    let (exit, server) = run_script(&Home::new(), &outputs_of_length(262_144), &json!({}));
    assert_eq!(exit, 0, "{:?}", server.plane().result().failure);
    let value = server.plane().result().plain_outputs["a"].value.clone().unwrap();
    assert_eq!(value.as_str().unwrap().len(), 262_144 - 8);
    let (_, message) = failure_of(&outputs_of_length(262_145), &json!({}));
    assert_eq!(message, "OUTPUTS_TOO_LARGE: OUTPUTS_FILE has 262,145 bytes, 262,144 are allowed");
}

#[test]
fn the_end_of_the_log_is_in_the_message_if_the_job_asks_for_it() {
    let script = "seq 100; echo 'no bucket' > $ERROR_FILE; exit 3";
    let (_, message) = failure_of(script, &json!({"append_logs_to_error": true}));
    let begin = "EXIT_CODE: exit code 3: no bucket\n\nThe end of the log:\n21\n22\n";
    assert!(message.starts_with(begin) && message.ends_with("\n99\n100"), "{message}");
    let (_, message) = failure_of(script, &json!({}));
    assert_eq!(message, "EXIT_CODE: exit code 3: no bucket");
    let home = Home::new();
    let (_, server) = run_script(&home, script, &json!({"append_logs_to_error": true}));
    let log = server.plane().log();
    assert!(!log.contains("The end of the log"), "the log does not repeat itself: {log}");
    assert!(log.ends_with("==> error: user: EXIT_CODE: exit code 3: no bucket\n"), "{log}");
}

#[test]
fn a_long_error_is_shown_as_a_whole_and_its_secrets_are_not() {
    let home = Home::new();
    let script = r#"
        echo "$DB_PASSWORD in the log"
        { for i in $(seq 300); do echo "line $i of $DB_PASSWORD"; done; } > $ERROR_FILE
        exit 3
    "#;
    let variables =
        json!({"variables": {"DB_PASSWORD": "pass-word-77"}, "append_logs_to_error": true});
    let (_, server) = run_script(&home, script, &variables);
    let plane = server.plane();
    let message = &plane.result().failure.as_ref().unwrap().message;
    assert!(message.contains("exit code 3: line 1 of ************\nline 2 of"), "{message}");
    assert!(message.contains("line 300 of ************\n\nThe end of the log:\n************ in"));
    assert!(plane.log().contains("line 150 of ************\n"), "{}", plane.log());
    assert!(!message.contains("pass-word") && !plane.log().contains("pass-word"));
}

#[test]
fn an_output_with_a_kept_secret_counts_as_sensitive() {
    let home = Home::new();
    let script = r#"printf '{"url": "postgres://app:%s@db", "size": 3}' "$KEY" > $OUTPUTS_FILE"#;
    let mut job = home.container_job(script, &json!({}));
    job["variables"] = json!([
        {"kind": "environment", "name": "KEY", "value": "key-material-2", "secret": true, "from": "project:shop"},
    ]);
    let (exit, server) = run_job(&home, job);
    let plane = server.plane();
    let outputs = &plane.result().plain_outputs;
    assert_eq!((exit, outputs["url"].sensitive, &outputs["url"].value), (0, true, &None));
    assert!(!outputs["size"].sensitive);
    let advice = "the output `url` contains a secret variable, so it counts as sensitive; write it to SECRET_OUTPUTS_FILE";
    assert!(plane.log().contains(advice), "{}", plane.log());
}

#[test]
fn an_encrypted_run_sends_nothing_in_clear() {
    let home = Home::new();
    let identity = age::x25519::Identity::generate();
    let recipient = identity.to_public().to_string();
    let sealed = |script: &str| {
        let mut job = home.container_job(script, &json!({"append_logs_to_error": true}));
        job["bundle"]["encrypted_outputs_recipient"] = json!(recipient);
        job["bundle"]["encrypted_logs_recipient"] = json!(recipient);
        run_job(&home, job)
    };
    let (exit, server) = sealed(
        r#"echo visible; echo '{"a": 1}' > $OUTPUTS_FILE; echo '{"b": "hush"}' > $SECRET_OUTPUTS_FILE"#,
    );
    let plane = server.plane();
    let outputs = STANDARD.decode(plane.result().outputs.as_ref().unwrap()).unwrap();
    let outputs: Value =
        serde_json::from_slice(&age::decrypt(&identity, &outputs).unwrap()).unwrap();
    assert_eq!((exit, outputs), (0, json!({"a": 1, "b": "hush"})));
    assert!(!plane.log().contains("visible"));
    drop(plane);
    let (_, server) = sealed("echo visible; echo meant > $ERROR_FILE; exit 3");
    let message = server.plane().result().failure.clone().unwrap().message;
    assert_eq!(message, "EXIT_CODE: exit code 3: meant");
}

#[test]
fn a_check_answers_by_its_exit_code_and_leaves_nothing_else() {
    let check = json!({ "check": { "command": ["/bin/sh", "-c", "echo looks; echo {} > $OUTPUTS_FILE; exit $CODE"], "drift_exit_code": 5 } });
    for (code, expected) in [("0", Ok(0)), ("5", Ok(1)), ("2", Err("EXIT_CODE: exit code 2"))] {
        let home = Home::new();
        let mut job = home.container_job("echo must not run; exit 9", &check);
        job["plan_only"] = json!(true);
        job["bundle"]["container"]["job"]["variables"] = json!({ "CODE": code });
        let (exit, server) = run_job(&home, job);
        let plane = server.plane();
        let result = plane.result();
        let log = plane.log();
        assert!(log.contains("==> check s3.default#photos") && log.contains("\nlooks\n"), "{log}");
        assert!(!log.contains("must not run"), "{log}");
        assert!(result.plain_outputs.is_empty() && !result.untouched);
        assert!(result.phase < Some(Phase::Apply), "it changes nothing: {:?}", result.phase);
        let changed = result.tf_resource_counts.map(|counts| counts.num_resources_changed);
        match expected {
            Ok(count) => assert_eq!((exit, changed), (0, Some(count)), "{log}"),
            Err(message) => {
                assert_eq!((exit, changed), (1, None), "{log}");
                assert_eq!(result.failure.as_ref().unwrap().message, message);
            }
        }
    }
}

#[test]
fn the_container_stays_after_a_failure_and_not_after_a_success() {
    for (script, stays) in [("exit 3", true), ("true", false)] {
        let begun = Instant::now();
        let (_, server) = run_script(&Home::new(), script, &json!({ "keep_seconds": 2 }));
        let log = server.plane().log();
        assert_eq!(
            log.contains("the container stays for 2 s: look into it with `docker exec -it "),
            stays,
            "{log}"
        );
        assert!(!stays || begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}
