//! `canyon list variable-uses` and `canyon list variables --store`.

use crate::canned_server::{CannedServer, json};
use crate::deployments::run;
use serde_json::json as value;

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
