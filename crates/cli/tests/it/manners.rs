//! What a person expects of each command: answers about versions and logs, faults of settings, and waits.

use crate::canned_server::{CannedServer, json, stream};
use crate::deploying::{ID, deployment, server};
use crate::deployments::run;
use crate::invocation::Invocation;
use serde_json::json as value;
use std::fs;

const ENVIRONMENT: &str = "GET /projects/shop/envs/dev";

#[test]
fn version_names_both_sides_and_needs_no_token() {
    let folder = tempfile::tempdir().unwrap();
    // The canned server answers below the organization; this path has none.
    let server = CannedServer::start([("GET /health", json(200, &value!({ "version": "9.8.7" })))]);
    let asked = Invocation::new(folder.path(), "version").env("CANYON_API_URL", server.url());
    let printed = asked.run();
    assert!(printed.contains(concat!("canyon ", env!("CARGO_PKG_VERSION"))), "{printed}");
    assert!(printed.contains("server 9.8.7 at "), "{printed}");
    let own =
        Invocation::new(folder.path(), "version --client").env("CANYON_API_URL", server.url());
    assert!(!own.run().contains("server"));
}

#[test]
fn a_misspelt_setting_of_the_file_is_refused_without_its_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".config/canyon");
    fs::create_dir_all(&path).unwrap();
    fs::write(
        path.join("config.yaml"),
        "url: http://127.0.0.1:1\norganisation: x\ntokn: s3cret\norg: 7\n",
    )
    .unwrap();
    let printed = Invocation::new(folder.path(), "list runners").run();
    assert!(!printed.contains("s3cret"), "{printed}");
    insta::assert_snapshot!(printed);
}

#[test]
fn the_end_of_a_log_is_shown_and_an_encrypted_one_says_how_to_read_it() {
    let ended = deployment("succeeded", &value!({}));
    let logs: &str = "GET /deployments/01970000-0000-7000-8000-000000000001/logs";
    let of = |log: &[u8]| server(&ended, b"", vec![(logs, stream(log))]);
    let printed = run(&of(b"one\ntwo\nthree\n"), &format!("logs {ID} --tail 2"));
    assert_eq!(printed, "exit: 0\n--- stdout\ntwo\nthree\n--- stderr\n");
    let sealed = b"\0\0\0\x20age-encryption.org/v1\n-> X25519 abc\n";
    let printed = run(&of(sealed), &format!("logs {ID}"));
    assert!(printed.contains("is encrypted") && printed.contains("--identity FILE"), "{printed}");
}

#[test]
fn a_change_of_runner_says_from_which_to_which() {
    let answer = |runner: &str| json(200, &value!({ "runner_id": runner, "updated": false }));
    let refresh = "POST /projects/shop/envs/dev/actions/refresh_runner";
    let of = |runner: &str, call: &str| {
        let before = json(200, &value!({ "id": "dev", "runner_id": "old" }));
        run(&CannedServer::start([(ENVIRONMENT, before), (refresh, answer(runner))]), call)
    };
    for (runner, call, expected) in [
        ("new", "--dry-run", "shop/dev would change from runner `old` to runner `new`"),
        ("new", "", "shop/dev has changed from runner `old` to runner `new`"),
        ("old", "--dry-run", "shop/dev keeps runner `old`"),
    ] {
        let printed = of(runner, &format!("refresh-runner shop dev {call}"));
        assert!(printed.contains(expected), "{printed}");
    }
}

#[test]
fn a_deletion_is_waited_for_and_its_failure_is_the_commands() {
    let environment = |status: &str, message: &str| {
        json(
            200,
            &value!({ "id": "dev", "project_id": "shop", "uuid": ID, "status": status,
                "status_message": message, "runner_id": "laptop" }),
        )
    };
    let accepted = json(202, &value!({ "id": "dev", "status": "deleting" }));
    let none =
        json(404, &value!({ "error": "API-404", "message": "there is no environment `dev`" }));
    let delete: &str = "DELETE /projects/shop/envs/dev";
    let of = |last, call: &str| {
        let answers = [
            (ENVIRONMENT, environment("active", "")),
            (ENVIRONMENT, environment("deleting", "")),
            (ENVIRONMENT, last),
            (delete, accepted.clone()),
        ];
        run(&CannedServer::start(answers), &format!("delete environment shop dev --yes {call}"))
    };
    let printed = of(none, "--wait");
    assert!(
        printed.starts_with("exit: 0") && printed.contains("deleted environment `dev`"),
        "{printed}"
    );
    let printed = of(environment("delete_failed", "the last destroy run failed"), "--wait");
    assert!(
        printed.starts_with("exit: 1") && printed.contains("the last destroy run failed"),
        "{printed}"
    );
    let printed = of(environment("deleting", ""), "--wait --timeout 0");
    assert!(printed.starts_with("exit: 6") && printed.contains("Canyon continues"), "{printed}");
}
