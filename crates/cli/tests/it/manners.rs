//! What the command line tells its users: about settings, versions, encrypted logs, runners and deletions.

use crate::canned_server::{Answer, CannedServer, json, stream};
use crate::deployments::{list, run};
use crate::invocation::Invocation;
use crate::terminal::shown_on_terminal;
use serde_json::json as value;
use std::fs;

const ENVIRONMENT: &str = "GET /projects/shop/envs/dev";

#[test]
fn unknown_settings_of_the_file_are_refused_all_at_once_and_no_value_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(".config/canyon/config.yaml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let printed =
        ["urll: http://x\ntoken: 7\ntokne: s3cret\ncolour: red\n", "- s3cret\n"].map(|text| {
            fs::write(&file, text).unwrap();
            Invocation::new(folder.path(), "list runners").run()
        });
    let printed = printed.join("\n");
    assert!(!printed.contains("s3cret"), "{printed}");
    insta::assert_snapshot!(printed);
    // An empty file has no settings.
    fs::write(&file, "").unwrap();
    let empty = Invocation::new(folder.path(), "list runners").run();
    assert!(empty.contains("no address is set"), "{empty}");
}

#[test]
fn the_version_names_the_server_if_one_is_set_and_never_fails_without_it() {
    let health = json(200, &value!({"status": "ok", "version": "9.8.7"}));
    let server = CannedServer::start([("GET /health", health)]);
    let printed = run(&server, "version");
    assert!(printed.contains("\nserver 9.8.7 at [server]/\n"), "{printed}");
    assert_eq!(server.requests()[0].authorization, None);
    assert_eq!(
        run(&server, "version --jq .server.version"),
        "exit: 0\n--- stdout\n9.8.7\n--- stderr\n"
    );
    assert!(!run(&server, "version --client").contains("server"));
    assert_eq!(server.requests().len(), 2);
    let failing = run(&CannedServer::start([]), "version");
    assert!(failing.starts_with("exit: 0\n--- stdout\ncanyon "), "{failing}");
    assert!(failing.contains("warning: the server's version is unknown"), "{failing}");
}

const LOGS: &str = "GET /deployments/01970000-0000-7000-8000-000000000001/logs";

#[test]
fn an_encrypted_log_says_how_to_read_it_and_is_piped_unchanged() {
    let key = age::x25519::Identity::generate();
    let sealed = age::encrypt(&key.to_public(), b"one\n").unwrap();
    let server =
        CannedServer::start([(LOGS, stream(&canyon_api::sealed_log::encode_frame(&sealed)))]);
    let printed = run(&server, "logs 01970000-0000-7000-8000-000000000001");
    assert!(
        printed.starts_with("exit: 0\n") && printed.contains("age-encryption.org/v1"),
        "{printed}"
    );
    let stderr = printed.split_once("--- stderr\n").unwrap().1;
    insta::assert_snapshot!(stderr, @"
    warning: the log of deployment 01970000-0000-7000-8000-000000000001 is encrypted
    hint: read it with the secret key of its --logs-recipient: canyon logs 01970000-0000-7000-8000-000000000001 --identity FILE
    ");
    for columns in [0, 100] {
        let folder = tempfile::tempdir().unwrap();
        let call = "logs 01970000-0000-7000-8000-000000000001";
        let mut call = Invocation::new(folder.path(), call).at(&server);
        let shown = shown_on_terminal(call.command(), columns);
        assert!(shown.starts_with("exit: 2\nerror: the log of deployment"), "{columns}: {shown}");
        assert!(shown.contains("--identity FILE") && !shown.contains("age-encryption"), "{shown}");
    }
}

#[test]
fn a_list_on_a_terminal_fits_its_width_and_in_a_pipe_is_whole() {
    let description = "a description that is far too long for the terminal of this user";
    let runner = value!({"id": "laptop-of-the-team", "state": "ready", "description": description});
    let server = CannedServer::start([("GET /runners", list(&[runner]))]);
    let folder = tempfile::tempdir().unwrap();
    let mut call = Invocation::new(folder.path(), "list runners").at(&server);
    let shown = shown_on_terminal(call.command(), 72);
    assert!(shown.contains("\nlaptop-of-the-team  ") && shown.contains('…'), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 72), "{shown}");
    assert!(run(&server, "list runners").contains(description));
}

#[test]
fn a_tail_prints_only_the_last_lines() {
    let server = CannedServer::start([(LOGS, stream(b"one\ntwo\nthree\n"))]);
    for (flags, expected) in
        [("--tail 2", "two\nthree\n"), ("--tail 0", ""), ("--tail 1 -f", "three\n")]
    {
        let printed = run(&server, &format!("logs 01970000-0000-7000-8000-000000000001 {flags}"));
        assert_eq!(printed, format!("exit: 0\n--- stdout\n{expected}--- stderr\n"), "{flags}");
    }
}

#[test]
fn a_log_with_timestamps_has_the_times_of_the_events() {
    let events = concat!(
        r#"{"@message":"one","@timestamp":"2026-01-31T12:00:00Z"}"#,
        "\n",
        r#"{"@message":"two","@timestamp":"2026-01-31T12:00:01Z"}"#,
        "\n"
    );
    let server = CannedServer::start([(LOGS, stream(events.as_bytes()))]);
    let logs = |flags| run(&server, &format!("logs 01970000-0000-7000-8000-000000000001 {flags}"));
    insta::assert_snapshot!(logs("--timestamps"), @"
    exit: 0
    --- stdout
    2026-01-31T12:00:00.000Z one
    2026-01-31T12:00:01.000Z two
    --- stderr
    ");
    insta::assert_snapshot!(logs("--timestamps --tail 1"), @"
    exit: 0
    --- stdout
    2026-01-31T12:00:01.000Z two
    --- stderr
    ");
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.what.contains("stream=events")), "{requests:?}");
}

#[test]
fn refresh_runner_says_from_which_runner_to_which() {
    let server = |after: &str, updated: bool| {
        let result = value!({"runner_id": after, "updated": updated});
        CannedServer::start([
            (ENVIRONMENT, json(200, &value!({"id": "dev", "runner_id": "old"}))),
            ("POST /projects/shop/envs/dev/actions/refresh_runner", json(200, &result)),
        ])
    };
    let printed = [
        run(&server("new", false), "refresh-runner shop dev --dry-run"),
        run(&server("new", true), "refresh-runner shop dev"),
        run(&server("old", false), "refresh-runner shop dev --dry-run"),
    ];
    insta::assert_snapshot!(printed.join("\n"));
}

#[test]
fn a_deletion_is_awaited_until_the_environment_is_gone() {
    const UUID: &str = "01970000-0000-7000-8000-0000000000e1";
    let environment = |status: &str, uuid: &str| {
        let message = if status == "delete_failed" { "the plan failed" } else { "" };
        json(200, &value!({"id": "dev", "uuid": uuid, "status": status, "status_message": message}))
    };
    let gone = || json(404, &value!({"error": "API-404", "message": "no environment `dev`"}));
    let deleting = || environment("deleting", UUID);
    let ends: [(Answer, &str); 4] = [
        (gone(), ""),
        (environment("delete_failed", UUID), ""),
        (environment("active", "01970000-0000-7000-8000-0000000000e2"), ""),
        (deleting(), " --timeout 0"),
    ];
    let printed = ends.map(|(end, flags)| {
        let server = CannedServer::start([
            (ENVIRONMENT, environment("active", UUID)),
            (ENVIRONMENT, deleting()),
            (ENVIRONMENT, end),
            (
                "DELETE /projects/shop/envs/dev",
                json(202, &value!({"id": "dev", "status": "deleting"})),
            ),
        ]);
        run(&server, &format!("delete environment shop dev --yes --wait{flags}"))
    });
    insta::assert_snapshot!(printed.join("\n"));
}
