//! All commands except `deploy`.

use crate::canned_server::{CannedServer, done, empty, json};
use crate::invocation::Invocation;
use serde_json::{Value, json as value};
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn runner(id: &str) -> Value {
    value!({
        "org_id": "local", "id": id, "description": "on this machine",
        "runner_configuration": {"type": "local", "on": "no"},
        "state_storage_configuration": {"type": "local", "path": "/srv/state"},
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-02T00:00:00Z",
    })
}

/// The output of the binary for each of `calls`, one after the other.
fn output_of(server: &CannedServer, calls: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    output_in(folder.path(), server, calls)
}

fn output_in(folder: &std::path::Path, server: &CannedServer, calls: &[&str]) -> String {
    let printed = calls
        .iter()
        .map(|call| format!("$ canyon {call}\n{}", Invocation::new(folder, call).at(server).run()));
    printed.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_runner_is_created_from_a_file_and_single_values() {
    let server = CannedServer::start([("POST /runners", json(201, &runner("laptop")))]);
    let folder = tempfile::tempdir().unwrap();
    let file = "description: from the file\nrunner_configuration:\n  type: local\n  on: no\n\
                state_storage_configuration: {type: local, path: /srv/state}\n";
    fs::write(folder.path().join("runner.yaml"), file).unwrap();
    let calls = ["create runner laptop --set-yaml=@runner.yaml \
                  --set=runner_configuration.slots=3 --set description=42"];
    insta::assert_snapshot!(output_in(folder.path(), &server, &calls));
    let sent = value!({
        "id": "laptop", "description": "42",
        "runner_configuration": {"type": "local", "on": "no", "slots": 3},
        "state_storage_configuration": {"type": "local", "path": "/srv/state"},
    });
    assert_eq!(server.bodies("POST /runners"), [sent]);
    assert_eq!(server.requests()[0].authorization.as_deref(), Some("Bearer t0ken"));
}

#[test]
fn each_kind_has_its_path_in_the_api() {
    let environment = json(200, &value!({"id": "dev"}));
    let stored = value!({"state_storage_configuration": {"type": "local", "path": "/a"}});
    let server = CannedServer::start([
        ("GET /projects/shop/envs/dev", environment),
        ("GET /runners/r", json(200, &stored)),
    ]);
    for call in [
        "create runner-rule --set=runner_id=laptop",
        "create project shop",
        "create environment pay/eu dev --set env_type_id=development",
        "create environment-type development",
        "create event-source ci --set=account=123456789012 --set=project=payments",
        "create service-account ci --set=role=viewer",
        "create runner-profile eu/big --set job.memory_limit=4096 --set agents.ids=[a1]",
        "get runner-profile eu/big",
        "list runner-profiles",
        "update runner-profile eu/big --set description=big",
        "delete runner-profile eu/big",
        "create account myAccount --set type=aws-role --set credentials.aws_role=arn:aws:iam::123456789012:role/r",
        "get account myAccount",
        "list accounts",
        "update account myAccount --set name=ours --set credentials.session_name=null",
        "delete account myAccount",
        "create token --role deployer --expires-in 60",
        "create token --role viewer --expires-in never --scoped-role deployer:env_type_id=development",
        "create token --scoped-role admin:project_id=pay/eu --scoped-role viewer:project_id=shop,env_id=blue",
        "create token --role agent --runner r --label site=eu --label tier= --expires-in 720h",
        "token create --role agent",
        "get runner r",
        "get runner-rule r",
        "get project pay/eu",
        "get environment shop dev",
        "get environment-type development",
        "get deployment 01970000-0000-7000-8000-000000000001",
        "list runners",
        "list runner",
        "list runner-rules --runner r --project shop",
        "list environments",
        "list environments shop",
        "list deployments --project shop --environment dev --limit 3",
        "get event-source ci",
        "list event-sources",
        "get service-account ci",
        "list service-accounts",
        "list tokens",
        "list agents",
        "list agents --pending",
        "get agent a",
        "adopt agent a",
        "reject agent a",
        "forget agent a",
        "get organization",
        "update organization --set agent_requests=refused",
        "limit organization --jobs 9",
        "limit runner r --none",
        "limit project pay/eu --jobs 1",
        "limit checks r --jobs 8",
        "list limits",
        "get retention",
        "set retention --logs-days 30 --yes",
        "delete retention",
        "usage",
        "disable agent a",
        "enable agent a",
        "disable runner r",
        "enable runner r",
        "list audit",
        "list variables --store team-vault",
        "list variable-uses region",
        "list variable-uses --kind environment --project pay/eu --env dev TF_LOG",
        "list variable-uses --organization region",
        "update project shop --set display_name=Shop",
        "delete environment shop dev --yes",
        "update runner r --set=state_storage_configuration.path=/b --migrate",
        "update runner r --set=migrate=true",
        "update environment shop dev --set=deletion_protection.max_deletions=3",
        "update environment shop dev --set=deletion_protection=null",
        "refresh-runner shop dev --migrate",
        "update event-source ci --set source=",
        "delete event-source ci",
        "update service-account ci --set description=x",
        "delete service-account ci",
        "delete token 1",
        "refresh-runner shop dev --dry-run",
        "cancel 01970000-0000-7000-8000-000000000001",
        "outputs 01970000-0000-7000-8000-000000000001",
    ] {
        output_of(&server, &[call]);
    }
    let requests: Vec<String> = server
        .requests()
        .into_iter()
        .map(|request| format!("{} {}", request.what, String::from_utf8_lossy(&request.body)))
        .collect();
    insta::assert_snapshot!(requests.join("\n"));
}

#[test]
fn results_come_as_table_yaml_and_json() {
    let page = value!({"items": [runner("laptop"), runner("ci")]});
    let server = CannedServer::start([
        ("GET /runners", json(200, &page)),
        ("GET /runners/laptop", json(200, &runner("laptop"))),
    ]);
    insta::assert_snapshot!(output_of(
        &server,
        &[
            "list runners",
            "get runner laptop",
            "get runner laptop --out yaml",
            "get runner laptop --out json",
        ],
    ));
}

#[test]
fn agents_are_shown_with_the_report_of_their_newest_session() {
    let busy = value!({
        "id": "east-1", "state": "adopted", "availability": "busy", "runner_id": "private",
        "labels": {"region": "eu", "tier": "gold"}, "run_untagged_jobs": true, "disabled": false,
        "created_at": "2026-01-01T00:00:00Z",
        "session": {
            "number": 3, "opened_at": "2026-01-02T00:00:00Z", "last_seen": "2026-01-02T00:00:09Z",
            "version": "0.1.0", "protocol": 1, "serves": ["kubernetes-agent"], "place": "cluster 7",
            "concurrency": 10, "running": 2, "last_error": "the image cannot\nbe pulled",
        },
    });
    let pending = value!({
        "id": "west-1", "state": "pending", "availability": "offline", "labels": {},
        "run_untagged_jobs": false, "disabled": false, "created_at": "2026-01-01T00:00:00Z",
    });
    let server = CannedServer::start([
        ("GET /agents", json(200, &value!({"items": [&busy, &pending]}))),
        ("GET /agents/east-1", json(200, &busy)),
    ]);
    insta::assert_snapshot!(output_of(&server, &["list agents", "get agent east-1"]));
}

#[test]
fn a_list_is_read_to_its_end() {
    let first = value!({"items": [{"id": "ab"}], "next_page_token": "p2"});
    let server = CannedServer::start([
        ("GET /projects", json(200, &first)),
        ("GET /projects", json(200, &value!({"items": [{"id": "cd"}]}))),
    ]);
    insta::assert_snapshot!(output_of(&server, &["list projects"]));
}

#[test]
fn a_refusal_names_each_field_and_the_next_step() {
    let fields = value!([
        {"path": "runner_configuration.job.subnets[2]", "reason": "must be a text"},
        {"path": "", "reason": "has an unknown field"},
    ]);
    let faulty = value!({"error": "API-400", "message": "2 fields are faulty", "details": {"fields": fields}});
    let refusal = |status: u16, message: &str| {
        json(status, &value!({"error": format!("API-{status}"), "message": message}))
    };
    let server = CannedServer::start([
        ("POST /runners", json(400, &faulty)),
        ("GET /runners", json(200, &value!({"items": [runner("laptop"), runner("ci")]}))),
        ("GET /runners/lptop", refusal(404, "no runner `lptop`")),
        ("GET /runners/other", refusal(404, "no runner `other`")),
        ("GET /projects", refusal(401, "unknown token")),
        ("DELETE /projects/shop", refusal(409, "project `shop` has environments: `dev`")),
        ("GET /envs", empty(503)),
        ("GET /env-types", empty(200)),
    ]);
    insta::assert_snapshot!(output_of(
        &server,
        &[
            "create runner laptop",
            "get runner lptop",
            "get runner other",
            "list projects",
            "delete project shop",
            "list environments",
            "list environment-types",
        ],
    ));
}

#[test]
fn wrong_usage_is_reported_before_any_request() {
    let server = CannedServer::start([]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad.yaml"), "a: 1\nb: *x\n").unwrap();
    fs::write(folder.path().join("other.yaml"), "id: ci\n").unwrap();
    fs::write(folder.path().join("list.yaml"), "- 1\n").unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    insta::assert_snapshot!(output_in(
        folder.path(),
        &server,
        &[
            "get runer x",
            "create runner x --set-yaml=@bad.yaml",
            "create runner x --set-yaml=@other.yaml",
            "create runner x --set-yaml=@list.yaml",
            "create runner x --set-yaml=@absent.yaml",
            "create runner x --set nothing",
            "update runner-rule 1 --set runner_id=x",
            "update runner x",
            "deploy shop dev",
            "deploy shop dev --destroy",
            "delete environment shop dev",
            "delete environment shop dev --force",
            "deploy shop dev --module https://example.com/x.git",
            "deploy shop dev --module ./empty",
            "deploy shop dev --module ./absent",
            "deploy shop dev --module git::https://h/r.git?ref=--upload-pack=x",
            "deploy shop dev --module - --var x",
            "logs 1 --identity bad.yaml",
            "list runners --api-url ftp://x",
        ],
    ));
    assert!(server.requests().is_empty(), "{:?}", server.requests());
}

#[test]
fn a_missing_setting_or_server_is_reported_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Invocation::new(folder.path(), "list runners").run();
    let settings = Invocation::new(folder.path(), "list runners --api-url http://127.0.0.1:9");
    // Port 9 (discard) has no listener on loopback.
    let absent = settings.env("CANYON_ORG", "local").env("CANYON_TOKEN", "t0ken").run();
    insta::assert_snapshot!(format!("{missing}\n{absent}"));
}

#[test]
fn a_login_is_stored_for_its_owner_only() {
    let organization = value!({"id": "local"});
    let server = CannedServer::start([
        ("GET ", json(200, &organization)),
        ("GET /projects", json(200, &value!({"items": []}))),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let login = format!("login --api-url {} --org local", server.url());
    let printed = Invocation::new(folder.path(), &login).stdin("t0ken\n").run();
    let file = folder.path().join(".config/canyon/config.yaml");
    assert!(printed.starts_with("exit: 0\n"), "{printed}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let listed = Invocation::new(folder.path(), "list projects").run();
    assert!(listed.starts_with("exit: 0\n"), "{listed}");
    assert_eq!(server.requests()[1].authorization.as_deref(), Some("Bearer t0ken"));
    let empty = Invocation::new(folder.path(), &login).stdin("\n").run();
    assert!(empty.starts_with("exit: 2\n"), "{empty}");
}

#[test]
fn only_the_secret_of_a_new_token_goes_to_stdout() {
    let token = value!({
        "id": "01970000-0000-7000-8000-000000000001", "description": "ci", "role": "deployer",
        "created_at": "2026-01-01T00:00:00Z", "secret": "s3cret",
    });
    let server = CannedServer::start([("POST /tokens", json(201, &token))]);
    insta::assert_snapshot!(output_of(&server, &["create token --role deployer --description ci"]));
}

#[test]
fn a_new_organization_is_printed_as_shell_settings() {
    let made = value!({
        "id": "calm-river-k3xq2", "uuid": "01970000-0000-7000-8000-000000000001",
        "created_at": "2026-01-01T00:00:00Z", "plan": "open-source", "admin_token": "s3c'ret",
        "created_by": "00000000-0000-0000-0000-000000000000",
    });
    let server = CannedServer::start([("POST /orgs", json(201, &made))]);
    let calls = ["create organization", "create organization --out json"];
    insta::assert_snapshot!(output_of(&server, &calls));
    // The operator belongs to no organization.
    let folder = tempfile::tempdir().unwrap();
    let call = Invocation::new(folder.path(), "create organization")
        .env("CANYON_API_URL", server.url())
        .env("CANYON_TOKEN", "t0ken");
    assert!(call.run().starts_with("exit: 0\n"));
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[2].authorization.as_deref(), Some("Bearer t0ken"));
}

#[test]
fn token_new_creates_a_different_token_each_time_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let make = || {
        let printed = Invocation::new(folder.path(), "token new --out json").run();
        let (stdout, stderr) = printed.split_once("--- stderr\n").unwrap();
        assert!(stderr.starts_with("warning: the token is shown this once"), "{stderr}");
        let made: Value =
            serde_json::from_str(stdout.split_once("--- stdout\n").unwrap().1).unwrap();
        (made["token"].as_str().unwrap().to_owned(), made["hash"].as_str().unwrap().to_owned())
    };
    let (token, hash) = make();
    assert!(token.starts_with("cya_") && token.len() == 47, "{token}");
    assert_eq!(hash, canyon_identity::bearer::hash(&token).0);
    assert_ne!(make().0, token);
    let table = Invocation::new(folder.path(), "token new").run();
    assert!(table.contains("\ntoken  cya_") && table.contains("\nhash   "), "{table}");
}

#[test]
fn a_deletion_reports_whether_it_is_complete() {
    let left = value!({"id": "dev", "status": "deleting"});
    let server = CannedServer::start([
        ("DELETE /runners/laptop", done()),
        ("GET /projects/shop/envs/dev", json(200, &value!({"id": "dev"}))),
        ("DELETE /projects/shop/envs/dev", json(202, &left)),
    ]);
    let calls = ["delete runner laptop", "delete environment shop dev --yes"];
    insta::assert_snapshot!(output_of(&server, &calls));
}

#[test]
fn help_and_version_need_no_settings() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &str| Invocation::new(folder.path(), arguments).run();
    insta::assert_snapshot!(run("--help"));
    assert!(run("version").contains(concat!("canyon ", env!("CARGO_PKG_VERSION"))));
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&format!("completion {shell}"));
        assert!(script.starts_with("exit: 0\n") && script.contains("CANYON_COMPLETE"), "{script}");
    }
}
