use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn plain_scalars_follow_the_core_schema() {
    for (text, value) in [
        ("no", json!("no")),
        ("on", json!("on")),
        ("y", json!("y")),
        ("NO", json!("NO")),
        ("true", json!(true)),
        ("FALSE", json!(false)),
        ("~", json!(null)),
        ("", json!(null)),
        ("1", json!(1)),
        ("-7", json!(-7)),
        ("+7", json!(7)),
        ("0x1F", json!(31)),
        ("0o17", json!(15)),
        ("1.5", json!(1.5)),
        (".5", json!(0.5)),
        ("1e3", json!(1000.0)),
        ("1_000", json!("1_000")),
        ("12:30:45", json!("12:30:45")),
        ("2026-01-31", json!("2026-01-31")),
        ("1.2.3", json!("1.2.3")),
        ("e3", json!("e3")),
        ("0x", json!("0x")),
        ("'1'", json!("1")),
        ("\"true\"", json!("true")),
        ("18446744073709551615", json!(u64::MAX)),
        ("//iam.googleapis.com/x", json!("//iam.googleapis.com/x")),
    ] {
        assert_eq!(parse(text, "text"), Ok(value), "{text:?}");
    }
}

#[test]
fn collections_become_objects_and_lists() {
    let text = "\u{feff}---\nno: yes\n80: {a: [1, two, {}]}\nlong: |\n  one\n  two\n";
    let value = json!({"no": "yes", "80": {"a": [1, "two", {}]}, "long": "one\ntwo\n"});
    assert_eq!(parse(text, "text"), Ok(value));
}

#[test]
fn yaml_that_json_cannot_express_is_refused_with_its_line() {
    let deep = format!("{}1{}", "[".repeat(65), "]".repeat(65));
    let bomb = format!("a: {}", "[".repeat(100_000));
    let refusals = [
        "a: 1\nb: &x 2\n",
        "a: &x\n  b: 1\n",
        "a: &x [1]\nb: *x\n",
        "a: 1\n<<: {b: 1}\n",
        "a: 1\nb: !!str 2\n",
        "a: !Ref x\n",
        "a: !!set {b}\n",
        "a: 1\nb: 2\na: 3\n",
        "a: {b: 1, \"b\": 2}\n",
        "a: 1\n---\nb: 2\n",
        "a: 1\n? [x]\n: 2\n",
        "a: .inf\n",
        "a: .nan\n",
        "account: 012345678901\n",
        "n: 18446744073709551616\n",
        "n: 1e999\n",
        "a: [1, 2\n",
        "a: 'open\n",
        "a: b: c\n",
        "a:\n\tb: 1\n",
        "a: @x\n",
        &deep,
        &bomb,
    ];
    let table: Vec<String> = refusals
        .into_iter()
        .map(|text| {
            let shown: String = text.chars().take(30).collect();
            let error = parse::<Value>(text, "f.yaml").expect_err(text);
            format!("{shown:?}\n    {error}")
        })
        .collect();
    insta::assert_snapshot!(table.join("\n"));
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in "[-a{}\\[\\]:,&*!<>|'\"#%@? \n\t]{0,60}") {
        let _ = parse::<Value>(&text, "text");
    }
}
