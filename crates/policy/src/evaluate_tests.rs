use super::*;
use serde_json::json;

fn evaluated(text: &str) -> Result<Findings, Fault> {
    let modules = BTreeMap::from([("a.rego".to_owned(), text.to_owned())]);
    let plan = json!({
        "format_version": "1.2",
        "resource_changes": [
            { "address": "aws_db_instance.main", "type": "aws_db_instance", "change": { "actions": ["delete"] } },
            { "address": "aws_s3_bucket.logs", "type": "aws_s3_bucket", "change": { "actions": ["create"], "after": { "n": 1.234_567_890_123_456_8e22 } } },
        ],
    });
    let context = json!({ "project": "shop", "mode": "deploy" });
    evaluate(&modules, &context, &plan.to_string())
}

#[test]
fn messages_are_texts_or_objects_in_sets_or_arrays() {
    const DELETED: &str = r#"package canyon
import rego.v1
deny contains msg if {
	some change in input.resource_changes
	"delete" in change.change.actions
	msg := sprintf("%s is deleted in %s", [change.address, data.canyon_context.project])
}"#;
    for (text, denied, warnings) in [
        (DELETED, vec!["aws_db_instance.main is deleted in shop"], vec![]),
        ("package canyon\nwarn := [\"b\", \"a\"]", vec![], vec!["b", "a"]),
        (
            "package canyon\ndeny contains {\"msg\": \"o\", \"id\": 1} if true\ndeny contains \"t\"",
            vec!["t", "o"],
            vec![],
        ),
        ("package canyon\ndeny := [\"never\"] if input.nothing", vec![], vec![]),
        (
            "package canyon\ndeny contains \"never\" if data.canyon_context.mode == \"destroy\"",
            vec![],
            vec![],
        ),
        (
            "package canyon\nwarn contains lower(\"A\") if regex.match(`^aws_`, input.resource_changes[_].type)",
            vec![],
            vec!["a"],
        ),
        (
            "package canyon\nwarn contains \"in\" if net.cidr_contains(\"10.0.0.0/8\", \"10.1.2.3\")",
            vec![],
            vec!["in"],
        ),
        (
            "package canyon\nwarn contains \"glob\" if glob.match(\"aws_*\", [], \"aws_x\")\nwarn contains base64.encode(\"a\") if semver.compare(\"1.2.3\", \"1.2.4\") < 0",
            vec![],
            vec!["YQ==", "glob"],
        ),
    ] {
        let found = evaluated(text).unwrap();
        assert_eq!(
            (found.denied, found.warnings),
            (
                denied.into_iter().map(str::to_owned).collect::<Vec<_>>(),
                warnings.into_iter().map(str::to_owned).collect()
            ),
            "{text}"
        );
    }
}

#[test]
fn many_messages_are_counted() {
    let found = evaluated(
        "package canyon\nwarn contains sprintf(\"%d\", [n]) if some n in numbers.range(1, 1200)",
    )
    .unwrap();
    assert_eq!((found.warnings.len(), found.num_warnings, found.num_denied), (MAX_LOGGED, 1200, 0));
}

#[test]
fn a_long_message_is_whole_or_not_there_so_that_no_secret_in_it_is_cut() {
    let text = |length: usize| {
        format!(
            "package canyon\nx := \"{}\"\nwarn contains concat(\"\", [x | some i in numbers.range(1, {length})])",
            "y".repeat(100)
        )
    };
    assert_eq!(evaluated(&text(150)).unwrap().warnings, ["y".repeat(15_000)]);
    assert_eq!(evaluated(&text(170)).unwrap().warnings, ["(a message of 17000 bytes)"]);
    assert_eq!(
        evaluated("package canyon\nwarn contains json.marshal({\"a\": 1})").unwrap().warnings,
        ["{\"a\":1}"]
    );
}

#[test]
fn what_cannot_be_judged_says_where() {
    for (text, expected) in [
        (
            "package canyon\ndeny contains msg if { msg := 1 + input.format_version }",
            "a.rego:2:40: `add` expects numeric argument. Got `\"1.2\"` instead",
        ),
        (
            "package canyon\ndeny := [\"a\"] if true\ndeny := [\"b\"] if true",
            "a.rego:3:1: rule conflicts with rule at a.rego:2:1",
        ),
        (
            "package canyon\na := b\nb := a\ndeny contains \"x\" if a",
            "a.rego:2:1: recursion detected when evaluating rule",
        ),
        (
            "package canyon\ndeny := true",
            "`data.canyon.deny` is no set and no array of messages: deny contains msg if { ... }",
        ),
        (
            "package canyon\nwarn := {\"a\": \"b\"}",
            "`data.canyon.warn` is no set and no array of messages: warn contains msg if { ... }",
        ),
        (
            "package canyon\nwarn := [1]",
            "`data.canyon.warn` has a member that is neither a text nor an object with the text `msg`",
        ),
        (
            "package canyon\nwarn := [{\"message\": \"x\"}]",
            "`data.canyon.warn` has a member that is neither a text nor an object with the text `msg`",
        ),
        (
            "package canyon\ndeny contains http.send({\"url\": \"http://x\"}).body",
            "a.rego:2:24: could not find function http.send",
        ),
    ] {
        let found = evaluated(text).unwrap_err().to_string();
        assert_eq!(found, expected, "{text}");
    }
}
