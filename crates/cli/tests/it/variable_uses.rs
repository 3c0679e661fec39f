//! `canyon list variable-uses`, `canyon list variables --store`, and variables of a runner.

use crate::canned_server::{CannedServer, json};
use crate::deployments::run;
use serde_json::json as value;

#[test]
fn the_variables_of_a_runner_are_set_listed_and_deleted() {
    let variable = |more: serde_json::Value| {
        let mut made = value!({ "updated_at": "2026-11-02T10:00:00Z",
            "updated_by": "00000000-0000-0000-0000-000000000001" });
        made.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        made
    };
    let variables = value!({
        "TF_LOG": variable(value!({ "value": "info", "secret": false })),
        "TOKEN": variable(value!({ "secret": true, "description": "of the registry" })),
    });
    let set = value!({ "scope": "runner:eu", "terraform": {}, "environment": variables });
    let used = value!({ "project_id": "shop", "env_id": "main", "env_type_id": "dev",
        "from": "organization", "overrides": ["runner:eu"], "overridden_by": "organization" });
    let server = CannedServer::start([
        ("PATCH /runners/eu/variables", json(200, &set)),
        ("GET /runners/eu/variables", json(200, &set)),
        ("GET /runners/eu/variables", json(200, &set)),
        ("GET /runners/eu/variables", json(200, &set)),
        ("PATCH /runners/eu/variables", json(200, &set)),
        ("GET /variables/environment/TF_LOG/uses", json(200, &value!({ "items": [used] }))),
    ]);
    let calls = [
        "set variable --runner eu --kind environment TF_LOG=info",
        "list variables --runner eu",
        "get variable --runner eu --kind environment TOKEN",
        "delete variable --runner eu --kind environment TF_LOG",
        "list variable-uses --runner eu --kind environment TF_LOG",
        "list variable-uses --runner eu --organization TF_LOG",
        "list variables --runner eu --environment-type dev",
    ];
    let printed = calls.map(|call| format!("$ canyon {call}\n{}", run(&server, call)));
    insta::assert_snapshot!(printed.join("\n"));
}

#[test]
fn a_secret_in_the_definition_of_a_runner_is_named_with_the_command_that_keeps_it() {
    let runner = |names: &[&str]| {
        let environment: serde_json::Map<_, _> =
            names.iter().map(|name| ((*name).to_owned(), "x".into())).collect();
        let configuration = value!({ "type": "local", "job": { "environment": environment } });
        json(200, &value!({ "id": "eu", "runner_configuration": configuration }))
    };
    let server = CannedServer::start([
        ("POST /runners", runner(&["API_TOKEN", "AWS_REGION", "DB_PASSWORD"])),
        ("PATCH /runners/eu", runner(&["API_TOKEN"])),
        ("PATCH /runners/eu", runner(&["API_TOKEN"])),
        ("PATCH /runners/eu", runner(&["AWS_REGION", "AWS_WEB_IDENTITY_TOKEN_FILE"])),
    ]);
    let warned = |call: &str| {
        let printed = run(&server, call);
        let line = printed.lines().find(|line| line.starts_with("warning: "));
        line.unwrap_or_default().to_owned()
    };
    let set = "--set runner_configuration.type=local";
    assert_eq!(
        warned(&format!("create runner eu {set}")),
        "warning: every reader of runner `eu` sees `API_TOKEN`, `DB_PASSWORD` of `job.environment`; if that is a secret, \
         move it: canyon set variable --runner eu --kind environment --secret API_TOKEN"
    );
    assert!(warned(&format!("update runner eu {set}")).contains("`API_TOKEN`"));
    assert_eq!(warned("update runner eu --set description=x"), "", "that was said before");
    assert_eq!(warned(&format!("update runner eu {set}")), "");
}

#[test]
fn the_uses_of_a_variable_are_shown_with_what_overrides_it() {
    let blue = value!({ "project_id": "pay/eu", "env_id": "blue", "env_type_id": "dev",
        "from": "project:pay/eu", "overrides": ["organization", "project:pay"],
        "overridden_by": "project:pay/eu" });
    let main = value!({ "project_id": "shop", "env_id": "main", "env_type_id": "dev",
        "from": "organization" });
    let page = |items: &[serde_json::Value]| json(200, &value!({ "items": items }));
    let mut first = value!({ "items": [blue] });
    first["next_page_token"] = "next".into();
    let server = CannedServer::start([
        ("GET /variables/terraform/region/uses", json(200, &first)),
        ("GET /variables/terraform/region/uses", page(std::slice::from_ref(&main))),
        ("GET /variables/terraform/region/uses", page(&[blue.clone(), main.clone()])),
        ("GET /variables/environment/REGION/uses", page(&[])),
    ]);
    let calls = [
        "list variable-uses region",
        "list variable-uses region --organization",
        "list variable-uses region --organization -o json --jq .[].overridden_by",
        "list variable-uses --kind environment --project shop REGION",
        "list variable-uses --organization --project shop region",
        "list variables --store team --project shop",
    ];
    let printed = calls.map(|call| format!("$ canyon {call}\n{}", run(&server, call)));
    insta::assert_snapshot!(printed.join("\n"));
}
