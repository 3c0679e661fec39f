//! Contexts: several servers and organizations in one file of settings.

use crate::canned_server::{CannedServer, json};
use crate::invocation::Invocation;
use crate::terminal::Terminal;
use serde_json::json as value;
use std::fs;
use std::path::Path;

fn file(folder: &Path) -> std::path::PathBuf {
    folder.join(".config/canyon/config.yaml")
}

fn with_contexts(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(file(folder.path()).parent().unwrap()).unwrap();
    fs::write(file(folder.path()), text).unwrap();
    folder
}

fn run(folder: &Path, call: &str) -> String {
    format!("$ canyon {call}\n{}", Invocation::new(folder, call).run())
}

fn run_all(folder: &Path, calls: &[&str]) -> String {
    calls.iter().map(|call| run(folder, call)).collect::<Vec<_>>().join("\n")
}

const TWO: &str = "\
current_context: acme
contexts:
  acme: {url: 'http://127.0.0.1:9', org: acme, token: t0ken}
  staging:
    url: https://staging.example
    org: beta
    token: t0ken
    token_expires_at: 2026-01-31T12:00:00Z
    sign_in: {identity_provider: okta, issuer: 'https://id.example', client_id: c, refresh_token: t0ken}
  empty: {}
";

#[test]
fn contexts_are_listed_chosen_renamed_and_deleted() {
    let folder = with_contexts(TWO);
    insta::assert_snapshot!(run_all(
        folder.path(),
        &[
            "config get-contexts",
            "config get-contexts --context staging -o json --jq .[]|select(.current)",
            "config current-context",
            "config use-context stagin",
            "config use-context staging",
            "config rename-context staging acme",
            "config rename-context staging prod",
            "config current-context -o json",
            "config delete-context prod",
            "config delete-context prod --yes",
            "config delete-context empty",
            "config current-context",
            "config current-context --context acme",
            "config get-contexts",
            "list runners --context prod",
            "config use-context a/b",
        ],
    ));
}

#[test]
fn a_deletion_of_a_token_asks_on_a_terminal() {
    let folder = with_contexts(TWO);
    for (answer, remains) in [("no\n", true), ("yes\n", false)] {
        let mut call = Invocation::new(folder.path(), "config delete-context acme");
        let shown = Terminal::start(call.command(), "").answer(answer).end();
        assert!(shown.contains("Delete the context `acme` with its token?"), "{shown}");
        let text = fs::read_to_string(file(folder.path())).unwrap();
        assert_eq!(text.contains("acme"), remains, "{text}");
    }
}

#[test]
fn logins_to_two_servers_have_a_context_each_and_the_last_one_is_used() {
    let organization = json(200, &value!({"id": "local"}));
    let answers = [("GET ", organization), ("GET /projects", json(200, &value!({"items": []})))];
    let servers = [CannedServer::start(answers.clone()), CannedServer::start(answers)];
    let folder = tempfile::tempdir().unwrap();
    let login = |flags: &str, token: &str| {
        Invocation::new(folder.path(), &format!("login {flags}")).stdin(token).run()
    };
    let at = |server: &CannedServer| format!("--org local --api-url {}", server.url());
    let used = |server: &CannedServer| server.requests().last().unwrap().authorization.clone();
    assert!(login(&at(&servers[0]), "one\n").contains("context is `local` now"));
    let host = servers[1].url().strip_prefix("http://").unwrap();
    let second = format!("local@{host}");
    assert!(login(&at(&servers[1]), "two\n").contains(&format!("`{second}`")));
    run(folder.path(), "list projects");
    assert_eq!(used(&servers[1]).as_deref(), Some("Bearer two"));
    // Without flags the current context gets another token.
    assert!(login("", "three\n").contains(&format!("`{second}`")));
    run(folder.path(), "list projects --context local");
    assert_eq!(used(&servers[0]).as_deref(), Some("Bearer one"));
    // A context that is new takes nothing from the current one.
    let refused = login("--context third", "four\n");
    assert!(refused.contains("no address is set"), "{refused}");
    // Another server's organization is not taken from the current context either.
    let refused = login(&format!("--api-url {}", servers[0].url()), "four\n");
    assert!(refused.contains("no organization is set"), "{refused}");
    assert!(login(&format!("--context third {}", at(&servers[0])), "four\n").contains("`third`"));
    let variable = Invocation::new(folder.path(), "list projects").env("CANYON_CONTEXT", &second);
    assert!(variable.run().starts_with("exit: 0"));
    assert_eq!(used(&servers[1]).as_deref(), Some("Bearer three"));
    let text = fs::read_to_string(file(folder.path())).unwrap();
    assert_eq!(text.matches("token:").count(), 3, "{text}");
}

#[test]
fn a_failed_login_changes_nothing() {
    let folder = with_contexts(TWO);
    let server = CannedServer::start([(
        "GET ",
        json(401, &value!({"error": "API-401", "message": "no", "details": {}})),
    )]);
    let login = format!("login --org local --api-url {}", server.url());
    let printed = Invocation::new(folder.path(), &login).stdin("other\n").run();
    assert!(printed.starts_with("exit: 4"), "{printed}");
    assert_eq!(fs::read_to_string(file(folder.path())).unwrap(), TWO);
}

#[test]
fn processes_that_write_at_once_lose_nothing() {
    const PROCESSES: usize = 16;
    let contexts = (0..PROCESSES).map(|n| format!("  old-{n}: {{org: org-{n}, token: t0ken}}"));
    let contexts = contexts.collect::<Vec<_>>().join("\n");
    let folder = with_contexts(&format!("contexts:\n{contexts}\n"));
    let started: Vec<_> = (0..PROCESSES)
        .map(|n| {
            let call = format!("config rename-context old-{n} new-{n}");
            Invocation::new(folder.path(), &call).spawn()
        })
        .collect();
    for mut process in started {
        assert!(process.wait().unwrap().success());
    }
    let names = Invocation::new(folder.path(), "config get-contexts --jq .[].name").run();
    assert_eq!(names.matches("new-").count(), PROCESSES, "{names}");
    assert!(!names.contains("old-"), "{names}");
}
