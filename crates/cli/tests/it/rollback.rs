//! Which deployment `canyon rollback` repeats.

use crate::canned_server::{CannedServer, json};
use crate::deploying::{ID, server, succeeded};
use crate::deployments::{list, of_id, run};
use serde_json::{Value, json as value};

const FAILED: &str = "01970000-0000-7000-8000-0000000000ff";

/// A deployment of a history: `N STATUS [MODE|plan|refused|unapplied]`.
fn of_history(text: &str) -> Value {
    let words: Vec<&str> = text.split(' ').collect();
    let id = format!("01970000-0000-7000-8000-00000000000{}", words[0]);
    let more = match words.get(2) {
        None => value!({}),
        Some(&"plan") => value!({"plan_only": true}),
        Some(&"refused") => value!({"refused_deletions": 2}),
        Some(mode) => value!({"mode": mode}),
    };
    of_id(&id, words[1], &more)
}

/// A server with such a history; the attempt of a failed deployment 9 reached its apply, that of an 8 did not.
fn with_history(history: &[&str]) -> CannedServer {
    let items: Vec<Value> = history.iter().map(|text| of_history(text)).collect();
    let failed = |number: &str, phase: &str| {
        let mut whole = of_history(&format!("{number} failed"));
        whole["attempts"] = value!([{
            "number": 1, "status": "failed", "phase": phase, "launched_at": "2026-01-01T00:00:00Z",
        }]);
        json(200, &whole)
    };
    server(
        &succeeded(),
        b"",
        vec![
            ("GET /deployments", list(&items)),
            ("GET /deployments/01970000-0000-7000-8000-000000000009", failed("9", "apply")),
            ("GET /deployments/01970000-0000-7000-8000-000000000008", failed("8", "plan")),
        ],
    )
}

#[test]
fn a_rollback_without_an_id_repeats_the_success_before_the_current_one() {
    let rows: [(&[&str], &str); 8] = [
        (&["3 succeeded", "2 succeeded", "1 succeeded"], "2"),
        // A failed plan has changed nothing, a failed apply has.
        (&["8 failed", "3 succeeded", "2 succeeded"], "2"),
        (&["9 failed", "3 succeeded", "2 succeeded"], "3"),
        (&["7 failed refused", "3 succeeded", "2 succeeded"], "2"),
        (&["4 succeeded plan", "3 succeeded", "2 cancelled", "1 succeeded"], "1"),
        (&["4 succeeded destroy", "3 succeeded", "2 succeeded"], "3"),
        (&["4 succeeded", "3 succeeded destroy", "2 succeeded"], "2"),
        // A second rollback returns to what the first one left.
        (&["4 succeeded rollback", "3 succeeded", "2 succeeded"], "3"),
    ];
    for (history, expected) in rows {
        let server = with_history(history);
        let printed = run(&server, "rollback shop dev --no-wait");
        assert!(printed.starts_with("exit: 0\n"), "{history:?}: {printed}");
        let expected = format!("01970000-0000-7000-8000-00000000000{expected}");
        let body = value!({
            "mode": "rollback", "project_id": "shop", "env_id": "dev",
            "rollback_to_deployment_id": expected,
        });
        assert_eq!(server.bodies("POST /deployments"), [body], "{history:?}");
        assert!(printed.contains(&format!("rolling back to deployment {expected}")), "{printed}");
    }
}

#[test]
fn a_rollback_that_has_no_clear_target_changes_nothing() {
    let histories: [&[&str]; 3] = [
        &["4 running", "3 succeeded", "2 succeeded"],
        &["3 succeeded"],
        &["4 succeeded plan", "8 failed"],
    ];
    let printed = histories.map(|history| {
        let server = with_history(history);
        let printed = run(&server, "rollback shop dev");
        assert!(server.bodies("POST /deployments").is_empty(), "{history:?}");
        format!("{history:?}\n{printed}")
    });
    insta::assert_snapshot!(printed.join("\n"));
}

#[test]
fn a_rollback_to_a_short_id_searches_the_environment_only() {
    let server = with_history(&["3 succeeded", "2 succeeded"]);
    let printed = run(&server, "rollback shop dev 0002 --plan-only --no-wait");
    assert_eq!(printed, format!("exit: 0\n--- stdout\n{ID}\n--- stderr\n"));
    let requests = server.requests();
    assert_eq!(requests[0].what, "GET /deployments?project_id=shop&env_id=dev&per_page=100");
    let body = &server.bodies("POST /deployments")[0];
    assert_eq!(body["rollback_to_deployment_id"], "01970000-0000-7000-8000-000000000002");
    assert_eq!(body["plan_only"], true);
    // A whole id is not searched for: the API refuses one of another environment.
    let whole = with_history(&[]);
    run(&whole, &format!("rollback shop dev {FAILED} --no-wait"));
    assert_eq!(whole.requests().len(), 1);
}
