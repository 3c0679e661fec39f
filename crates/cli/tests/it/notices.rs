//! What commands say besides their result.

use crate::canned_server::{CannedServer, json};
use crate::invocation::Invocation;
use serde_json::{Value, json as value};

fn printed(server: &CannedServer, call: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    Invocation::new(folder.path(), call).at(server).run()
}

#[test]
fn an_adopted_agent_of_a_missing_runner_is_reported_with_a_similar_name() {
    let agent = |runner: &str| value!({"id": "a", "state": "adopted", "runner_id": runner});
    let server = |runner: &str| {
        CannedServer::start([
            ("POST /agents/a/actions/adopt", json(200, &agent(runner))),
            ("GET /runners/laptop", json(200, &value!({"id": "laptop"}))),
            ("GET /runners", json(200, &value!({"items": [{"id": "laptop"}]}))),
        ])
    };
    let missing = printed(&server("latop"), "adopt agent a");
    let expected = "warning: the agent is for the runner `latop`, which does not exist, so it gets no jobs; did you \
                    mean `laptop`?\n";
    assert!(missing.ends_with(expected), "{missing}");
    assert!(missing.starts_with("exit: 0\n"), "{missing}");
    let found = printed(&server("laptop"), "adopt agent a");
    assert!(!found.contains("warning"), "{found}");
}

#[test]
fn a_single_value_of_a_runner_is_changed_in_what_is_stored() {
    let stored = value!({
        "id": "r",
        "runner_configuration": {"type": "local", "job": {"executable": "tofu", "timeouts": {"run_seconds": 1800}}},
        "state_storage_configuration": {"type": "local", "path": "/srv/state"},
    });
    let server = CannedServer::start([
        ("GET /runners/r", json(200, &stored)),
        ("PATCH /runners/r", json(200, &stored)),
    ]);
    printed(&server, "update runner r --set=runner_configuration.job.timeouts.run_seconds=200");
    let job = value!({"executable": "tofu", "timeouts": {"run_seconds": 200}});
    let sent = value!({"runner_configuration": {"type": "local", "job": job}});
    assert_eq!(server.bodies("PATCH /runners/r"), [sent]);

    // Without the stored runner, nothing is sent.
    let server = CannedServer::start([("PATCH /runners/r", json(200, &stored))]);
    let refused = printed(&server, "update runner r --set=runner_configuration.job.executable=x");
    assert!(refused.starts_with("exit: 7\n"), "{refused}");
    assert_eq!(server.bodies("PATCH"), Vec::<Value>::new());
}

#[test]
fn a_secret_in_the_arguments_is_warned_of() {
    let server = CannedServer::start([(
        "PATCH /variables",
        json(200, &value!({"scope": "organization", "terraform": {}, "environment": {}})),
    )]);
    let warned = printed(&server, "set variable --secret password=correct-horse");
    assert!(warned.contains("warning: the value of `password` was an argument"), "{warned}");
    assert!(warned.contains("canyon set variable --secret password; or give a file"), "{warned}");
    assert!(!warned.contains("correct-horse"), "{warned}");
    let folder = tempfile::tempdir().unwrap();
    let asked = Invocation::new(folder.path(), "set variable --secret password").at(&server);
    let asked = asked.stdin("correct-horse").run();
    assert!(asked.starts_with("exit: 0\n") && !asked.contains("warning"), "{asked}");
}

#[test]
fn the_protection_of_an_environment_type_is_for_new_environments_and_the_command_says_so() {
    let environment = |id: &str, env_type: &str, protection: Value| value!({"project_id": "shop", "id": id, "env_type_id": env_type, "deletion_protection": protection});
    let environments = value!({"items": [
        environment("dev", "development", Value::Null),
        environment("eu", "production", value!({"max_deletions": 0})),
        environment("us", "production", Value::Null),
    ]});
    let server = CannedServer::start([
        ("PATCH /env-types/production", json(200, &value!({"id": "production"}))),
        ("GET /envs", json(200, &environments)),
    ]);
    let call = "update environment-type production --set=deletion_protection.max_deletions=0";
    let said = printed(&server, call);
    let expected = "each that exists keeps its own\nof 2 environments of this type, 1 have none, such as shop/us; change \
                    each: canyon update environment shop us --set=deletion_protection.max_deletions=N\n";
    assert!(said.ends_with(expected), "{said}");
    let said = printed(&server, "update environment-type production --set=display_name=Prod");
    assert!(!said.contains("deletion_protection"), "{said}");
}
