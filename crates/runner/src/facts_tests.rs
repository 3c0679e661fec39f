use super::*;
use crate::event::{begun, reduced};
use crate::render;

/// The facts and the log of recorded lines.
fn replay(lines: &str, applying: bool) -> (Facts, String) {
    let mut facts = Facts::default();
    let mut log = String::new();
    for line in lines.lines() {
        let event = serde_json::from_str(line).unwrap();
        facts.take(&event);
        if let Some(text) = render::text(&event, applying) {
            log += &text;
            log.push('\n');
        }
    }
    (facts, log)
}

fn counts(facts: &Facts) -> (u32, u32, u32, u32) {
    let changed = facts.changed();
    (facts.total().unwrap(), changed.add, changed.change, changed.remove)
}

#[test]
fn the_facts_of_recorded_runs_are_counted() {
    let apply = concat!(
        include_str!("../tests/fixtures/plan.jsonl"),
        include_str!("../tests/fixtures/apply.jsonl")
    );
    let no_changes = include_str!("../tests/fixtures/no_changes.jsonl");
    let replace = include_str!("../tests/fixtures/replace.jsonl");
    let killed = include_str!("../tests/fixtures/killed.jsonl");
    // Total, added, changed, removed. `replace`: two of three are replaced and one is changed. `killed`: the same,
    // and of two new resources one was created and the creation of the other began.
    for (what, lines, expected) in [
        ("plan and apply", apply, (3, 3, 0, 0)),
        ("no changes", no_changes, (3, 0, 0, 0)),
        ("replace", replace, (3, 2, 1, 2)),
        ("killed", killed, (4, 3, 1, 2)),
    ] {
        assert_eq!(counts(&replay(lines, false).0), expected, "{what}");
    }
}

#[test]
fn a_killed_run_names_every_creation_that_it_began() {
    let (facts, _) = replay(include_str!("../tests/fixtures/killed.jsonl"), true);
    let creations: Vec<_> =
        facts.creations.iter().map(|(address, id)| (address.as_str(), id.is_some())).collect();
    let expected = ["terraform_data.a[0]", "terraform_data.a[1]", "terraform_data.quick"];
    let expected = expected.map(|address| (address, true)).into_iter();
    assert_eq!(creations, expected.chain([("terraform_data.slow", false)]).collect::<Vec<_>>());
    assert_eq!(facts.replaced.len(), 2);
}

#[test]
fn values_come_with_the_apply_and_never_the_sensitive_ones() {
    let (facts, log) = replay(include_str!("../tests/fixtures/apply.jsonl"), true);
    let value = |name: &str| facts.outputs[name].value.as_ref().map(|value| value.get());
    assert_eq!(value("word"), Some("\"one\""));
    assert_eq!((facts.outputs["secret"].sensitive, value("secret")), (true, None));
    assert!(!log.contains("hush"));
    let (plan, _) = replay(include_str!("../tests/fixtures/no_changes.jsonl"), false);
    assert!(plan.outputs.values().all(|output| output.kind.is_none()), "`output` is called then");
}

#[test]
fn people_read_what_happened_and_where() {
    let (facts, log) = replay(include_str!("../tests/fixtures/error.jsonl"), false);
    insta::assert_snapshot!(log, @r#"
    OpenTofu 1.12.6
    Error: Reference to undeclared input variable
      on err.tf line 2, in resource "terraform_data" "c"
         2:   input = var.nothing
      An input variable with the name "nothing" has not been declared. This variable can be declared with a variable "nothing" {} block.
    "#);
    let error = facts.error.unwrap();
    insta::assert_snapshot!(render::failure_message(&error, true), @r#"Reference to undeclared input variable: An input variable with the name "nothing" has not been declared. This variable can be declared with a variable "nothing" {} block. (err.tf:2)"#);
    insta::assert_snapshot!(render::failure_message(&error, false), @"Reference to undeclared input variable (err.tf:2)");
}

#[test]
fn an_encrypted_run_shows_only_addresses_and_actions() {
    let lines = include_str!("../tests/fixtures/apply.jsonl");
    let events = lines.lines().filter_map(|line| reduced(&serde_json::from_str(line).unwrap()));
    let text: Vec<String> = events.map(|value| value.to_string()).collect();
    for secret in ["hello", "one", "id_", "@message", "Creation"] {
        assert!(!text.iter().any(|line| line.contains(secret)), "{secret}");
    }
    let (facts, _) = replay(&text.join("\n"), true);
    assert_eq!((facts.creations.len(), counts(&facts)), (3, (3, 3, 0, 0)));
}

#[test]
fn init_knows_when_it_is_about_the_state_storage() {
    let lines = |messages: &[&str]| {
        let line = |message: &&str| serde_json::json!({"@message": message}).to_string();
        messages.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    for (messages, expected) in [
        (&["OpenTofu encountered problems"][..], false),
        (&["Initializing the backend..."], true),
        (&["Initializing the backend...", "Successfully configured the backend"], false),
        (&["Initializing the backend...", "Initializing provider plugins..."], false),
    ] {
        assert_eq!(replay(&lines(messages), false).0.in_backend, expected, "{messages:?}");
    }
}

#[test]
fn the_state_is_counted_without_data_sources_and_deposed_objects() {
    let state = r#"{"version": 4, "resources": [
        {"mode": "managed", "instances": [{"index_key": 0, "attributes": {"n": 1e400}}, {}]},
        {"mode": "managed", "instances": [{"status": "tainted"}, {"deposed": "0a1b2c3d"}]},
        {"mode": "data", "instances": [{}]}]}"#;
    for (state, expected) in [
        (state, Some(StateSize::Counted(3))),
        (r#"{"version": 4, "resources": []}"#, Some(StateSize::Counted(0))),
        ("\n", Some(StateSize::Counted(0))),
        ("{}", None),
        ("no state", None),
    ] {
        assert_eq!(StateSize::of(state.as_bytes()), expected, "{state}");
    }
}

#[test]
fn a_provider_that_died_and_a_replacement_that_leaves_something_behind_are_noticed() {
    let died = r#"{"type":"diagnostic","diagnostic":{"severity":"error","summary":"Plugin did not respond"}}"#;
    let refused = died.replace("Plugin did not respond", "creating topic: AccessDenied");
    assert!(replay(died, true).0.cut_off);
    assert!(!replay(&refused, true).0.cut_off);
    let twice = r#"{"@message":"Two interrupts received. Exiting immediately.","type":"log"}"#;
    assert!(replay(twice, true).0.cut_off);
    let unwritten = died.replace("Plugin did not respond", "Failed to save state");
    assert!(replay(&unwritten, true).0.state_unwritten && !replay(died, true).0.state_unwritten);

    // The lines of OpenTofu 1.12 for `lifecycle { destroy = false }`.
    let plan = r#"{"type":"refresh_complete","hook":{"resource":{"addr":"x.a"}}}
{"@message":"x.a: Plan to noop","type":"planned_change","change":{"resource":{"addr":"x.a"},"action":"noop","reason":"cannot_update"}}
{"type":"change_summary","changes":{"add":1,"change":0,"import":0,"remove":0,"forget":1,"operation":"plan"}}
{"type":"outputs","outputs":{"canyon_state_moved_to":{"action":"delete"},"word":{"action":"create"}}}"#;
    let apply = r#"{"type":"change_summary","changes":{"add":1,"change":0,"import":0,"remove":0,"forget":0,"operation":"apply"}}"#;
    let deletes = r#"{"type":"change_summary","changes":{"remove":4,"operation":"plan"}}"#;
    assert_eq!(replay(&format!("{deletes}\n{plan}"), false).0.planned.unwrap().remove, 4);
    let (facts, log) = replay(&format!("{plan}\n{apply}"), false);
    assert!(
        log.contains("x.a: Plan to create it again, and to leave the old object behind"),
        "{log}"
    );
    assert_eq!(facts.total(), Some(1));
    assert!(facts.declares("word") && !facts.declares("canyon_state_moved_to"));
}

#[test]
fn what_the_provider_did_not_find_is_counted_but_for_files_of_an_earlier_job() {
    let drift = |action: &str, provider: &str, name: &str| {
        format!(
            r#"{{"type":"resource_drift","change":{{"resource":{{"addr":"{name}","implied_provider":"{provider}"}},"action":"{action}"}}}}"#
        )
    };
    let lines = [
        drift("delete", "aws", "aws_instance.a"),
        drift("delete", "aws", "aws_instance.a"),
        drift("update", "aws", "aws_instance.b"),
        drift("delete", "local", "local_file.c"),
    ];
    assert_eq!(replay(&lines.join("\n"), false).0.vanished(), 1);
}

#[test]
fn a_state_that_could_not_be_written_shows_in_the_events_without_words_too() {
    let event = |summary: &str| {
        format!(
            r#"{{"type":"diagnostic","diagnostic":{{"severity":"error","summary":"{summary}","detail":"secret"}}}}"#
        )
    };
    let (unwritten, other) =
        (event("Failed to persist state to backend"), event("creating topic: secret"));
    let reduced = |line: &str| reduced(&serde_json::from_str(line).unwrap());
    for form in [&begun as &dyn Fn(&str) -> Option<serde_json::Value>, &reduced] {
        let kept = form(&unwritten).unwrap();
        assert_eq!(kept["diagnostic"]["summary"], "Failed to save state");
        assert_eq!(kept["@level"], "error");
        for value in [kept, form(&other).unwrap()] {
            assert!(!value.to_string().contains("secret"), "{value}");
        }
        assert!(form(&other).unwrap()["diagnostic"].get("summary").is_none());
    }
}
