use super::*;

fn policy(modules: &[(&str, &str)], timeout_seconds: u32) -> Policy {
    let modules = modules.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    Policy { modules: modules.collect(), timeout_seconds }
}

fn faults(of: &Policy) -> String {
    let mut faults = FieldErrors::default();
    of.check("policy", &mut faults);
    faults.iter().map(|fault| fault.path.clone()).collect::<Vec<_>>().join(" ")
}

#[test]
fn sizes_numbers_and_names_of_a_policy_are_checked_all_at_once() {
    let large = "x".repeat(MAX_BYTES / 2 + 1);
    let names: Vec<_> = (0..=MAX_MODULES).map(|n| format!("m{n}.rego")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    for (given, expected) in [
        (policy(&[("a.rego", "package canyon")], 1), ""),
        (policy(&[("a-b_c.d.9.rego", "")], 60), ""),
        (policy(&[], 10), "policy.modules"),
        (policy(&many, 10), "policy.modules"),
        (policy(&[("a.rego", &large), ("b.rego", &large)], 10), "policy.modules"),
        (policy(&[("a.rego", "")], 0), "policy.timeout_seconds"),
        (
            policy(&[("A.rego", ""), (".rego", ""), ("a.txt", ""), ("../a.rego", "")], 61),
            r#"policy.timeout_seconds policy.modules["../a.rego"] policy.modules[".rego"] policy.modules["A.rego"] policy.modules["a.txt"]"#,
        ),
    ] {
        assert_eq!(faults(&given), expected, "{:?}", given.modules.keys());
    }
}

#[test]
fn every_part_of_a_policy_counts_for_its_digest() {
    let all = [
        policy(&[("a.rego", "x")], 10),
        policy(&[("a.rego", "x")], 11),
        policy(&[("a.rego", "y")], 10),
        policy(&[("b.rego", "x")], 10),
        policy(&[("a.rego", "x"), ("b.rego", "")], 10),
        policy(&[("a.rego", ""), ("b.rego", "x")], 10),
    ];
    for (at, one) in all.iter().enumerate() {
        assert_eq!(one.digest(), one.clone().digest());
        for other in &all[at + 1..] {
            assert_ne!(one.digest(), other.digest(), "{one:?} {other:?}");
        }
    }
}

#[test]
fn a_record_has_the_first_messages_and_their_number() {
    let findings = Findings {
        denied: vec!["d".repeat(3 * MAX_MESSAGE); 3],
        warnings: vec!["ü".repeat(400); MAX_MESSAGES + 7],
        ..Findings::default()
    };
    let limited = findings.limited();
    assert_eq!((limited.num_denied, limited.num_warnings), (3, 57));
    assert_eq!((limited.denied.len(), limited.warnings.len()), (3, MAX_MESSAGES));
    assert!(limited.denied.iter().all(|text| text.chars().count() <= MAX_MESSAGE));
    let digest = policy(&[], 1).digest();
    let record = Judgement::new(digest.clone(), &limited, 2);
    let Findings { denied, warnings, num_denied, num_warnings } = &record.findings;
    assert_eq!((denied.len(), warnings.len(), num_denied, num_warnings), (3, 3, &3, &57));
    assert_eq!(record.stored_by, Some(2));
    let small = Findings { warnings: vec!["w".to_owned()], num_warnings: 1, ..Findings::default() };
    let record = Judgement::new(digest, &small, 2);
    assert_eq!((record.findings, record.stored_by), (small, None));
}
