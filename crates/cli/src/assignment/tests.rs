use super::*;
use proptest::prelude::*;
use serde_json::json;

fn set(document: Value, given: &str) -> Result<Value, String> {
    let mut document = document;
    let assignment = Assignment::parse(given).map_err(|e| e.to_string())?;
    assignment.apply(&mut document).map_err(|e| e.to_string())?;
    Ok(document)
}

#[test]
fn an_assignment_sets_the_value_at_its_path() {
    for (given, expected) in [
        ("runner_id=my-runner", json!({"runner_id": "my-runner"})),
        ("description=123", json!({"description": "123"})),
        ("description=a=b: #c", json!({"description": "a=b: #c"})),
        ("description=", json!({"description": ""})),
        ("runner_configuration.n=3", json!({"runner_configuration": {"n": 3}})),
        ("runner_configuration.n='3'", json!({"runner_configuration": {"n": "3"}})),
        ("runner_configuration.on=true", json!({"runner_configuration": {"on": true}})),
        ("runner_configuration.a=//x #y", json!({"runner_configuration": {"a": "//x #y"}})),
        ("runner_configuration.a=*", json!({"runner_configuration": {"a": "*"}})),
        ("runner_configuration.l=[a, 1]", json!({"runner_configuration": {"l": ["a", 1]}})),
        (
            "approval.approvers.groups[0]=okta/leads",
            json!({"approval": {"approvers": {"groups": ["okta/leads"]}}}),
        ),
        ("runner_configuration.l[0].k=v", json!({"runner_configuration": {"l": [{"k": "v"}]}})),
        ("runner_configuration={type: local}", json!({"runner_configuration": {"type": "local"}})),
        ("runner_configuration.a\\.b/c\\=d=v", json!({"runner_configuration": {"a.b/c=d": "v"}})),
        ("migrate=true", json!({"migrate": true})),
        (
            "deletion_protection.max_deletions=0",
            json!({"deletion_protection": {"max_deletions": 0}}),
        ),
        ("deletion_protection=null", json!({"deletion_protection": null})),
    ] {
        assert_eq!(set(Value::Null, given), Ok(expected), "{given}");
    }
    let two = json!({"runner_configuration": {"l": [1, 2]}});
    let grown = json!({"runner_configuration": {"l": [1, 2, 3]}});
    assert_eq!(set(two, "runner_configuration.l[2]=3"), Ok(grown));
}

#[test]
fn a_faulty_assignment_is_refused_without_repeating_its_value() {
    let document = json!({"a": "text", "l": [1], "runner_configuration": {"x": 1}});
    let faulty = [
        "s3cret",
        "=s3cret",
        "a..b=s3cret",
        "a.=s3cret",
        "a[x]=s3cret",
        "a[0=s3cret",
        "a[0]b=s3cret",
        "a[99999999999999999999]=s3cret",
        "a\\",
        "a.b=s3cret",
        "a[0]=s3cret",
        "l[3]=s3cret",
        "l.b=s3cret",
        "[0]=s3cret",
        "runner_configuration.x=[s3cret",
        "runner_configuration.x=\"s3cret",
        "runner_configuration.x=0123",
        "runner_configuration.x={a: &s3cret b}",
    ];
    let table: Vec<String> = faulty
        .into_iter()
        .map(|given| format!("{given}\n    {}", set(document.clone(), given).expect_err(given)))
        .collect();
    assert!(table.iter().all(|row| row.matches("s3cret").count() <= 1), "{table:#?}");
    insta::assert_snapshot!(table.join("\n"));
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![".{1,8}".prop_map(Step::Key), Just(Step::Index(0))]
}

proptest! {
    #[test]
    fn any_path_reads_back_and_addresses_its_value(
        first in ".{1,8}",
        rest in prop::collection::vec(any_step(), 0..6),
        text in "[a-z=.\\[ ]{0,8}",
    ) {
        let path: Vec<Step> = std::iter::once(Step::Key(first)).chain(rest).collect();
        let assignment = Assignment::parse(&format!("{}={text}", Path(&path))).unwrap();
        prop_assert_eq!(&assignment.path, &path);
        let mut document = Value::Null;
        if let Ok(expected) = assignment.value() {
            assignment.apply(&mut document).unwrap();
            let found = path.iter().fold(&document, |value, step| match step {
                Step::Key(key) => &value[key.as_str()],
                Step::Index(index) => &value[*index],
            });
            prop_assert_eq!(found, &expected);
        }
    }
}
