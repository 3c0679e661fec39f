//! What commands say besides their result.

use crate::canned_server::{CannedServer, json};
use crate::deploying::{ID, deployment};
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

#[test]
fn a_plan_is_told_from_a_deploy_and_canyon_itself_has_a_name() {
    let plan = deployment("succeeded", &value!({"plan_only": true}));
    let record = |by: &str| {
        value!({
            "id": by, "at": "2026-01-01T00:00:00Z", "action": "deployment.expire", "subject": "projects/shop",
            "by": by, "by_right": "canyon", "details": [],
        })
    };
    let person = "01970000-0000-7000-8000-000000000001";
    let records = [record("00000000-0000-0000-0000-000000000000"), record(person)];
    let server = CannedServer::start([
        ("GET /deployments", json(200, &value!({"items": [plan]}))),
        ("GET /audit-records", json(200, &value!({"items": records}))),
    ]);
    let listed = printed(&server, "list deployments");
    assert!(listed.contains("  deploy (plan)  succeeded"), "{listed}");
    assert_eq!(
        printed(&server, "list deployments --jq .[].mode"),
        "exit: 0\n--- stdout\ndeploy\n--- stderr\n"
    );
    let listed = printed(&server, "list audit");
    let authors: Vec<_> = listed
        .lines()
        .filter_map(|line| line.split("projects/shop  ").nth(1)?.split(' ').next())
        .collect();
    assert_eq!(authors, ["canyon", person], "{listed}");
}

#[test]
fn plan_is_deploy_that_stops_after_the_plan() {
    for call in ["plan", "plan --plan-only", "deploy --plan-only"] {
        let (command, flag) = call.split_once(' ').unwrap_or((call, ""));
        let server = CannedServer::start([(
            "POST /deployments",
            json(201, &deployment("queued", &value!({"plan_only": true}))),
        )]);
        printed(&server, &format!("{command} shop dev {flag} --module git::https://h/r --no-wait"));
        let sent = value!({
            "mode": "deploy", "plan_only": true, "project_id": "shop", "env_id": "dev",
            "module": {"source": "git::https://h/r"},
        });
        assert_eq!(server.bodies("POST /deployments"), [sent], "{call}");
    }
}

#[test]
fn a_refusal_of_a_deployment_names_the_flag_that_was_given() {
    let reason = "is not an `age` public key (age1...)";
    let field = "encrypted_outputs_recipient";
    let refusal = value!({
        "error": "API-400", "message": format!("`{field}` {reason}"),
        "details": {"fields": [{"path": field, "reason": reason}]},
    });
    let server = CannedServer::start([("POST /deployments", json(400, &refusal))]);
    let call = "deploy shop dev --module git::https://h/r --no-wait --outputs-recipient x";
    let said = printed(&server, call);
    assert!(said.contains(&format!("error: `--outputs-recipient` {reason}")), "{said}");
    assert!(!said.contains(field), "{said}");
}

#[test]
fn a_missing_field_of_a_new_resource_is_shown_as_a_flag() {
    let refusal = value!({
        "error": "API-400", "message": "`env_type_id` is required",
        "details": {"fields": [{"path": "env_type_id", "reason": "is required"}]},
    });
    let server = CannedServer::start([("POST /projects/shop/envs", json(400, &refusal))]);
    let said = printed(&server, "create env shop dev");
    assert!(said.ends_with("hint: add --set=env_type_id=VALUE\n"), "{said}");
    assert!(said.starts_with("exit: 4\n"), "{said}");
}

#[test]
fn a_list_is_given_by_set() {
    let server = CannedServer::start([("POST /runner-rules", json(201, &value!({"id": "1"})))]);
    printed(&server, "create runner-rule --set=runner_id=a --set=fallback_runner_ids=[b,c]");
    let sent = value!({"runner_id": "a", "fallback_runner_ids": ["b", "c"]});
    assert_eq!(server.bodies("POST /runner-rules"), [sent]);
}

#[test]
fn whoami_says_where_the_token_is_from() {
    let caller = value!({"org_id": "local", "id": ID, "kind": "token", "role": "admin"});
    let server = CannedServer::start([("GET /caller", json(200, &caller))]);
    let said = printed(&server, "whoami");
    assert!(said.contains("the commands use the token of the variable CANYON_TOKEN"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join(".config/canyon/config.yaml");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let context = format!("{{url: '{}', org: local, token: t0ken}}", server.url());
    std::fs::write(settings, format!("current_context: prod\ncontexts:\n  prod: {context}\n"))
        .unwrap();
    let said = Invocation::new(folder.path(), "whoami").run();
    assert!(said.contains("the commands use the token of the context `prod`"), "{said}");
}

#[test]
fn a_plain_value_that_may_be_a_secret_is_warned_of() {
    let variable = |secret: bool| value!({"value": "correct-horse", "secret": secret, "updated_at": "2026-01-01T00:00:00Z", "updated_by": ID});
    let set = |secret: bool| value!({"scope": "project:shop", "terraform": {"api_token": variable(secret)}, "environment": {}});
    let server = |secret: bool| {
        CannedServer::start([("PATCH /projects/shop/variables", json(200, &set(secret)))])
    };
    let call = "set variable --project shop api_token=correct-horse";
    let warned = printed(&server(false), call);
    let expected = "warning: every reader of the variables of project:shop sees `api_token`; if that is a secret, set it \
                    again: canyon set variable --project shop --secret api_token\n";
    assert!(warned.starts_with("exit: 0\n") && warned.contains(expected), "{warned}");
    let sealed = printed(&server(true), call);
    assert!(!sealed.contains("warning"), "a change of a secret stays secret: {sealed}");
    let meant = printed(&server(false), &format!("{call} --plain"));
    assert!(!meant.contains("warning"), "{meant}");

    let deployments =
        CannedServer::start([("POST /deployments", json(201, &deployment("queued", &value!({}))))]);
    let call =
        "deploy shop dev --module git::https://h/r --yes --no-wait --var db_password=correct-horse";
    let warned = printed(&deployments, call);
    assert!(warned.starts_with("exit: 0\n"), "{warned}");
    assert!(
        warned.contains("warning: the value of `db_password` is not kept as a secret"),
        "{warned}"
    );
    assert!(warned.contains("--secret-var-file db_password=FILE"), "{warned}");
}

#[test]
fn a_role_in_a_project_that_does_not_exist_is_warned_of() {
    let token = value!({"id": ID, "secret": "s3cret"});
    let server = CannedServer::start([
        ("POST /tokens", json(201, &token)),
        ("GET /projects", json(200, &value!({"items": [{"id": "shop"}]}))),
        ("GET /projects/shop", json(200, &value!({"id": "shop"}))),
    ]);
    let warned =
        printed(&server, "create token --scoped-role deployer:project_id=shopp,env_id=dev");
    let expected = "warning: there is no project `shopp` yet, so the role in it has no effect until it is created; did you \
                    mean `shop`?\n";
    assert!(warned.starts_with("exit: 0\n") && warned.ends_with(expected), "{warned}");
    let fine = printed(&server, "create token --scoped-role deployer:project_id=shop");
    assert!(!fine.contains("there is no"), "{fine}");
    let both =
        printed(&server, "create token --role deployer --scoped-role viewer:project_id=shop");
    assert!(both.contains("the scoped role `viewer` adds nothing"), "{both}");
    let more = printed(&server, "create token --role viewer --scoped-role admin:project_id=shop");
    assert!(!more.contains("adds nothing"), "{more}");

    let provider = value!({"id": "okta", "rules": [{"group": "g", "role": "viewer", "env_type_id": "producton"}]});
    let server = CannedServer::start([
        ("POST /identity-providers", json(201, &provider)),
        ("GET /env-types", json(200, &value!({"items": [{"id": "production"}]}))),
    ]);
    let warned = printed(&server, "create identity-provider okta");
    assert!(warned.contains("no environment type `producton` yet"), "{warned}");
    assert!(warned.ends_with("did you mean `production`?\n"), "{warned}");
}
