use super::*;
use serde_json::json;

fn plan() -> Plan {
    serde_json::from_value(json!({
        "plan_digest": "4f2a", "format": 1,
        "summary": { "add": 1, "change": 0, "replace": 1, "remove": 1, "import": 0, "move": 0, "forget": 0, "drift": 1 },
        "resources": [
            {
                "address": "a.b", "type": "a", "name": "b", "action": "replace", "reason": "replace_because_cannot_update",
                "drifted": true,
                "attributes": [
                    { "path": "tags[\"a b\"]", "before": 1, "after": "two", "replaces": true },
                    { "path": "id", "before": "x", "after_unknown": true },
                    { "path": "password", "before_sensitive": true, "after_sensitive": true },
                ],
            },
            { "address": "a.gone", "type": "a", "name": "gone", "action": "delete",
              "attributes": [{ "path": "id", "before": "x" }] },
            { "address": "a.new\u{1b}[2J", "type": "a", "name": "new", "action": "create",
              "attributes": [{ "path": "name", "after": "n" }], "has_more_attributes": true },
        ],
        "outputs": [{ "name": "url", "action": "update", "before": "a", "after": "b" }],
    }))
    .unwrap()
}

#[test]
fn what_is_destroyed_comes_first_and_has_no_list_of_what_it_had() {
    let plan = plan();
    insta::assert_snapshot!(PlanText { plan: &plan, is_colored: false }, @r#"
    plan 4f2a: 1 to replace, 1 to destroy, 1 to add
    1 changed outside of OpenTofu since the last apply

    -/+ a.b  (replaced because cannot update; changed outside of OpenTofu)
          tags["a b"]: 1 -> "two"  # this replaces the resource
          id: "x" -> (known after apply)
          password: (sensitive) -> (sensitive)

      - a.gone  (destroyed)

      + a.new�[2J  (created)
          name: null -> "n"
          ... and more attributes; the log of the deployment has them all

    outputs
      ~ url  "a" -> "b"
    "#);
}

#[test]
fn only_signs_are_colored_and_only_where_colors_are_wanted() {
    let plan = plan();
    let text = PlanText { plan: &plan, is_colored: false }.to_string();
    assert!(!text.contains('\u{1b}'), "{text}");
    let colored = PlanText { plan: &plan, is_colored: true }.to_string();
    assert!(colored.contains("\u{1b}[31m-/+\u{1b}[0m a.b"), "{colored}");
    let without =
        [RESET, RED, GREEN, YELLOW].iter().fold(colored, |text, code| text.replace(code, ""));
    assert_eq!(without, text);
}
