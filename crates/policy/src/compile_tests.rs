use super::*;
use std::time::{Duration, Instant};

fn faults(modules: &[(&str, &str)]) -> Vec<String> {
    let modules = modules.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let policy = Policy { modules: modules.collect(), timeout_seconds: 10 };
    let mut faults = FieldErrors::default();
    check(&policy, "policy", &mut faults);
    faults.iter().map(|fault| format!("{} {}", fault.path, fault.reason)).collect()
}

#[test]
fn each_module_that_does_not_compile_is_named_with_line_and_column() {
    let in_a = |reason: &str| vec![format!("policy.modules[\"a.rego\"] {reason}")];
    for (text, expected) in [
        ("package canyon\nimport rego.v1\ndeny contains msg if {\n\tmsg := \"x\"\n}", vec![]),
        ("package canyon\nwarn := [\"a\"]", vec![]),
        ("package canyon\nimport data.canyon_context\nwarn contains upper(canyon_context.mode)", vec![]),
        ("", in_a("line 1, column 1: expecting `package` Missing package declaration.")),
        ("package canyon\ndeny contains msg if { msg := ", in_a("line 2, column 28: expecting `}` while parsing set")),
        ("package canyon\ndeny[msg] { msg := \"a\" }", in_a("line 2, column 11: `if` keyword is required before rule body")),
        ("package canyon\ndeny contains msg if {\n  x > 1\n  msg := \"a\"\n}", in_a("line 3, column 3: use of undefined variable `x` is unsafe")),
        ("package main\ndeny contains \"a\"", in_a("line 1, column 9: its package is `canyon`, or one below it such as `canyon.names`")),
        ("package canyonical\ndeny contains \"a\"", in_a("line 1, column 9: its package is `canyon`, or one below it such as `canyon.names`")),
        ("package canyon\ndeny contains nofunc(1)", in_a("line 2, column 15: there is no function `nofunc`")),
        ("package canyon\ndeny contains \"x\" if {\n  every x in [time.now_ns()] { x > 1 }\n}", in_a("line 3, column 15: there is no function `time.now_ns`: a policy has no network, no files and no clock")),
        ("package canyon\nallow := true", vec!["policy.modules has no rule `deny` or `warn` in the package `canyon`, such as: deny contains msg if { ... }".to_owned()]),
        ("package canyon.names\ndeny contains \"a\"", vec!["policy.modules has no rule `deny` or `warn` in the package `canyon`, such as: deny contains msg if { ... }".to_owned()]),
    ] {
        assert_eq!(faults(&[("a.rego", text)]), expected, "{text}");
    }
}

#[test]
fn modules_use_each_others_functions_and_all_faults_are_found_at_once() {
    let library =
        ("names.rego", "package canyon.names\nis_long(text) if count(text) > 10\nlimit := 3");
    let user = "package canyon\nimport data.canyon.names\nimport data.canyon.names as n\ndeny contains \"a\" if names.is_long(\"x\")\n\
                deny contains \"b\" if n.is_long(\"x\")\ndeny contains \"c\" if data.canyon.names.is_long(\"x\")\nwarn contains \"d\" if f(names.limit)\nf(x) if x > 2";
    assert_eq!(faults(&[library, ("a.rego", user)]), Vec::<String>::new());
    let wrong =
        "package canyon\nimport data.canyon.names\ndeny contains \"a\" if names.is_short(\"x\")";
    let expected =
        ["policy.modules[\"a.rego\"] line 3, column 22: there is no function `names.is_short`"];
    assert_eq!(faults(&[library, ("a.rego", wrong)]), expected);
    let found =
        faults(&[("a.rego", "package"), ("b.rego", "package x"), ("C.rego", "package canyon\n}")]);
    let paths: Vec<_> = found.iter().map(|fault| fault.split(' ').next().unwrap()).collect();
    let [a, b, c] = ["a", "b", "C"].map(|name| format!("policy.modules[\"{name}.rego\"]"));
    assert_eq!(paths, [&c, &c, &a, &b], "{found:#?}");
}

/// Texts that make a compiler call itself as often as 64 KiB allow: neither ends the process nor keeps it busy.
#[test]
fn no_text_ends_the_compiler() {
    let rule = |value: &str| format!("package canyon\ndeny contains \"a\" if {{ x := {value} }}");
    let half = MAX_BYTES / 2 - 100;
    for (what, text) in [
        (
            "sum",
            rule(&format!(
                "1{}",
                "+1".repeat(400).as_str().to_owned()
                    + &("\n".to_owned() + &"+1".repeat(400)).repeat(75)
            )),
        ),
        ("members", rule(&format!("input{}", (".a".repeat(400) + "\n").repeat(80).trim_end()))),
        ("indexes", rule(&format!("input{}", ("[0]".repeat(300) + "\n").repeat(70).trim_end()))),
        ("parentheses", rule(&format!("{}1{}", "(".repeat(half), ")".repeat(half)))),
        ("arrays", rule(&format!("{}{}", "[".repeat(half), "]".repeat(half)))),
        ("minus", rule(&"-".repeat(MAX_BYTES - 100))),
        ("brackets", rule(&format!("[{}1]", "[{[{[{[1]}]}]}],\n".repeat(3_600)))),
        (
            "every",
            format!(
                "package canyon\ndeny contains \"a\" if {{ {}true{} }}",
                "every x in [1]\n{".repeat(3500),
                "}".repeat(3500)
            ),
        ),
        (
            "else",
            format!("package canyon\ndeny := [] if false {}", "\nelse := [] if false".repeat(3000)),
        ),
        (
            "not",
            format!("package canyon\ndeny contains \"a\" if {{ {} true }}", "not ".repeat(15_000)),
        ),
        (
            "rules",
            format!(
                "package canyon\ndeny contains \"a\" if a0\n{}",
                (0..2000).map(|n| format!("a{n} := a{}\n", n + 1)).collect::<Vec<_>>().concat()
            ),
        ),
        ("package", format!("package canyon{}", ".a".repeat(30_000))),
        ("unions", rule(&format!("{{1}}{}", ("|{1}".repeat(200) + "\n").repeat(80)))),
        (
            "statements",
            format!(
                "package canyon\ndeny contains \"a\" if {{\n{}}}",
                (0..3500).map(|n| format!("x{n} := {n}\n")).collect::<Vec<_>>().concat()
            ),
        ),
    ] {
        let text = &text[..text.len().min(MAX_BYTES)];
        let begun = Instant::now();
        let found = faults(&[("a.rego", text)]);
        let took = begun.elapsed();
        println!(
            "{what}: {took:?} {:?}",
            found.first().map(|one| one.chars().take(150).collect::<String>())
        );
        assert!(took < Duration::from_secs(20), "{what}: {took:?}");
    }
}
