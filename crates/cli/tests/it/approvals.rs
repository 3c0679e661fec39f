//! Plans that wait for approval: the list of them, and refused reviews.

use crate::canned_server::{CannedServer, json};
use crate::deploying::ID;
use crate::deployments::{list, of_id, run};
use serde_json::{Value, json as value};

const OTHER: &str = "01970000-0000-7000-8000-0000000000b2";

/// A deployment whose plan waits.
fn waiting(id: &str, may_approve: bool) -> Value {
    let approval = value!({
        "status": "awaited", "required": "changes", "needed": 2, "given": 1,
        "may_approve": may_approve,
    });
    of_id(id, "running", &value!({ "approval": approval }))
}

#[test]
fn the_plans_that_wait_are_filtered_and_mine_are_those_that_the_caller_may_still_approve() {
    let others = of_id("01960000-0000-7000-8000-0000000000b2", "running", &value!({}));
    let all = [waiting(ID, true), waiting(OTHER, false), others];
    let server = CannedServer::start([("GET /deployments", list(&all))]);
    let ids = |flags: &str| {
        run(&server, &format!("list approvals {flags} --out json --jq map(.id)")).replace('\n', "")
    };
    let every = ids("--project shop --env dev");
    assert!(every.contains(ID) && every.contains(OTHER) && !every.contains("0196"), "{every}");
    let mine = ids("--mine");
    assert!(mine.contains(ID) && !mine.contains(OTHER), "{mine}");
    let asked: Vec<_> = server.requests().into_iter().map(|request| request.what).collect();
    let expected =
        ["GET /deployments?project_id=shop&env_id=dev&ended=false", "GET /deployments?ended=false"];
    assert_eq!(asked, expected);
    let alone = run(&server, "list approvals --environment dev");
    assert!(alone.starts_with("exit: 2\n") && alone.contains("--project"), "{alone}");
}

#[test]
fn a_refused_review_has_the_hint_of_its_reason() {
    let digest = "ab".repeat(32);
    for (code, hint) in [
        ("author", "another approver must approve it"),
        ("not_an_approver", "`canyon whoami` shows your roles and groups"),
        ("", "your token's role does not allow this"),
    ] {
        let details = value!({ "code": code });
        let refusal = value!({ "error": "API-403", "message": "no", "details": details });
        let path = "POST /deployments/01970000-0000-7000-8000-000000000001/actions/approve";
        let server = CannedServer::start([(path, json(403, &refusal))]);
        let printed = run(&server, &format!("approve {ID} --plan-digest {digest}"));
        assert!(printed.starts_with("exit: 8\n") && printed.contains(hint), "{code}: {printed}");
    }
}

#[test]
fn the_help_of_apply_has_no_flags_that_the_plan_determines() {
    let help = run(&CannedServer::start([]), "apply --help");
    assert!(help.contains("--no-wait") && help.contains("--require-approval"), "{help}");
    for flag in ["--target", "--replace", "--parallelism", "--plan-only"] {
        assert!(!help.contains(flag), "{flag}: {help}");
    }
    let deploy = run(&CannedServer::start([]), "deploy --help");
    assert!(deploy.contains("--target"), "{deploy}");
}
