use super::*;
use serde_json::{Value, json};

fn read(document: &Value) -> (PlanCounts, Vec<PlanPage>) {
    let document = serde_json::to_vec(document).unwrap();
    let masked = |text: &str| text.replace("secret", "***");
    let changes = PlanChanges::read(&document, &masked).unwrap();
    let pages = changes.pages.iter().map(|page| serde_json::from_slice(page).unwrap()).collect();
    (changes.summary, pages)
}

fn resource(name: &str, change: &Value) -> Value {
    json!({ "address": format!("a.{name}"), "mode": "managed", "type": "a", "name": name, "change": change })
}

fn attributes(change: &Value) -> Vec<Value> {
    let (_, pages) = read(&json!({ "resource_changes": [resource("b", change)] }));
    let listed = &pages[0].resources[0].attributes;
    listed.iter().map(|one| serde_json::to_value(one).unwrap()).collect()
}

#[test]
fn only_what_changes_is_listed_by_its_path() {
    let listed = attributes(&json!({
        "actions": ["delete", "create"],
        "before": { "same": 1, "tags": { "a": "1", "b c": "2" }, "ports": [80, 81],
                    "rules": [{ "port": 1, "to": 2 }, { "port": 3 }], "gone": "x" },
        "after": { "same": 1, "tags": { "a": "1", "b c": "3" }, "ports": [80],
                   "rules": [{ "port": 1, "to": 4 }] },
        "after_unknown": { "id": true, "rules": [{}, {}], "nested": [{ "deep": true }] },
        "replace_paths": [["rules", 0, "to"], ["tag"]],
    }));
    let of = |path: &str, more: Value| {
        let mut whole = json!({ "path": path });
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        whole
    };
    let expected = [
        of("gone", json!({ "before": "x" })),
        of("id", json!({ "after_unknown": true })),
        of("nested", json!({ "after_unknown": true })),
        of("ports", json!({ "before": [80, 81], "after": [80] })),
        of("rules[0].to", json!({ "before": 2, "after": 4, "replaces": true })),
        of("rules[1].port", json!({ "before": 3 })),
        of("tags[\"b c\"]", json!({ "before": "2", "after": "3" })),
    ];
    assert_eq!(listed, expected);
}

#[test]
fn a_sensitive_value_is_nowhere() {
    let listed = attributes(&json!({
        "actions": ["update"],
        "before": { "password": "old", "config": { "token": "t1", "open": 1 }, "list": ["x", "secret y"], "marked": "m" },
        "after": { "password": "new", "config": { "token": "t2", "open": 2 }, "list": ["x", "z"], "marked": "m" },
        "before_sensitive": { "password": true, "config": { "token": true }, "list": [true, false] },
        "after_sensitive": { "password": true, "config": { "token": true }, "marked": true },
        "after_unknown": { "whole": true },
    }));
    let text = serde_json::to_string(&listed).unwrap();
    for value in ["old", "new", "t1", "t2", "secret", "\"m\""] {
        assert!(!text.contains(value), "{value}: {text}");
    }
    let paths: Vec<_> = listed.iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["config.open", "config.token", "list", "marked", "password", "whole"]);
    assert_eq!(listed[2]["before"], json!(["(sensitive)", "*** y"]));
}

#[test]
fn a_sensitive_value_is_hidden_where_opentofu_does_not_mark_it_too() {
    let change = json!({
        "actions": ["update"],
        "before": { "input": { "a": "hidden-1" }, "output": { "a": "hidden-1" }, "of_variable": "x hidden-3 y" },
        "after": { "input": { "a": "hidden-2" }, "note": "has hidden-2 in it" },
        "before_sensitive": { "input": { "a": true } },
        "after_sensitive": { "input": { "a": true } },
        "after_unknown": { "output": true },
    });
    let (_, pages) = read(&json!({
        "resource_changes": [resource("b", &change)],
        "variables": { "v": { "value": "hidden-3" }, "open": { "value": "update" } },
        "configuration": { "root_module": { "variables": { "v": { "sensitive": true }, "open": {} } } },
        "output_changes": { "o": { "actions": ["update"], "before": "a", "after": "hidden-1 again" } },
    }));
    let text = serde_json::to_string(&pages).unwrap();
    assert!(!text.contains("hidden"), "{text}");
    assert!(text.contains("again") && text.contains("\"update\""), "{text}");
}

#[test]
fn long_texts_that_differ_at_their_end_are_shown_as_different() {
    let text = |end: &str| format!("{}{end}", "a".repeat(9_000));
    let listed = attributes(&json!({
        "actions": ["update"], "before": { "t": text("safe") }, "after": { "t": text("evil") },
    }));
    assert_ne!(listed[0]["before"], listed[0]["after"]);
}

#[test]
fn drift_is_told_from_what_the_plan_changes() {
    let drifted = |name: &str, actions: &Value| {
        resource(name, &json!({ "actions": actions, "before": { "n": 1 }, "after": { "n": 2 } }))
    };
    let (summary, pages) = read(&json!({
        "resource_drift": [drifted("both", &json!(["update"])), drifted("only", &json!(["delete"])),
                           drifted("moved", &json!(["no-op"]))],
        "resource_changes": [
            drifted("both", &json!(["update"])),
            drifted("planned", &json!(["create"])),
            drifted("kept", &json!(["no-op"])),
            { "address": "data.x.y", "mode": "data", "type": "x", "name": "y", "change": { "actions": ["read"] } },
        ],
    }));
    assert_eq!((summary.change, summary.add, summary.drift), (1, 1, 2));
    let shown: Vec<_> = pages[0]
        .resources
        .iter()
        .map(|one| (one.address.as_str(), one.action, one.drifted))
        .collect();
    let expected = [
        ("a.both", PlannedAction::Update, true),
        ("a.planned", PlannedAction::Create, false),
        ("a.only", PlannedAction::None, true),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_large_plan_has_pages_and_at_last_no_attributes() {
    let text = "x".repeat(7_000);
    let changes: Vec<_> = (0..2_000)
        .map(|number| {
            let after: serde_json::Map<_, _> =
                (0..10).map(|at| (format!("a{at}"), json!(text))).collect();
            resource(&format!("r{number:04}"), &json!({ "actions": ["create"], "after": after }))
        })
        .collect();
    let (summary, pages) = read(&json!({ "resource_changes": changes }));
    assert_eq!(summary.add, 2_000);
    assert!(pages.len() <= MAX_PAGES as usize, "{}", pages.len());
    let resources: Vec<_> = pages.iter().flat_map(|page| &page.resources).collect();
    assert_eq!(resources.len(), 2_000);
    assert!(!resources[0].has_more_attributes && resources[0].attributes.len() == 10);
    assert!(resources[1_999].has_more_attributes && resources[1_999].attributes.is_empty());
}

#[test]
fn a_resource_with_very_many_attributes_names_some_of_them() {
    let after: serde_json::Map<_, _> =
        (0..500).map(|at| (format!("a{at:03}"), json!(at))).collect();
    let (_, pages) = read(
        &json!({ "resource_changes": [resource("b", &json!({ "actions": ["create"], "after": after }))] }),
    );
    let shown = &pages[0].resources[0];
    assert_eq!((shown.attributes.len(), shown.has_more_attributes), (200, true));
}

#[test]
fn what_is_no_plan_is_refused() {
    let masked = |text: &str| text.to_owned();
    for document in ["", "{\"resource_changes\": [{}]}"] {
        assert!(PlanChanges::read(document.as_bytes(), &masked).is_err(), "{document}");
    }
    let warned = b"\nWarning: the file does not exist.\n{\"resource_changes\": []}\n";
    assert!(PlanChanges::read(warned, &masked).is_ok());
    let empty = PlanChanges::read(b"{}", &masked).unwrap();
    assert_eq!((empty.pages.len(), empty.summary), (0, PlanCounts::default()));
}
