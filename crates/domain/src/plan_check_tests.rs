use super::*;
use crate::approval::{Approval, ApprovalNeed, ApprovalRule};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn rule(id: &str) -> PlanCheckRule {
    PlanCheckRule {
        id: id.parse().unwrap(),
        url: "https://checks.example.com/canyon".to_owned(),
        mandatory: true,
        timeout_seconds: 300,
    }
}

fn approval(checks: Vec<PlanCheckRule>) -> ApprovalRule {
    ApprovalRule { checks, ..ApprovalRule::of(ApprovalNeed::Changes) }
}

fn faults(rule: &ApprovalRule) -> Vec<String> {
    let mut faults = FieldErrors::default();
    rule.check("approval", &mut faults);
    PlanCheckRule::check_urls(&rule.checks, "approval.checks", false, &mut faults);
    let said = faults.into_result(()).err().map(|faults| faults.to_string()).unwrap_or_default();
    said.split('`').filter(|part| part.starts_with("approval.")).map(str::to_owned).collect()
}

#[test]
fn where_canyon_sends_requests_is_a_table() {
    // https, https on Canyon's own machine, with services of that machine allowed
    for (url, is_public, is_allowed_locally) in [
        ("https://checks.example.com", true, true),
        ("https://checks.example.com:8443/canyon/plan", true, true),
        ("https://8.8.8.8/canyon", true, true),
        ("https://127.0.0.1/canyon", false, true),
        ("http://127.0.0.1:8080/canyon", false, true),
        ("http://localhost:8080", false, true),
        ("http://[::1]:8080", false, true),
        ("http://checks.example.com", false, false),
        ("http://10.0.0.1", false, false),
        ("https://10.0.0.1", false, false),
        ("https://169.254.169.254/latest", false, false),
        ("https://checks.example.com/?key=secret", false, false),
        ("https://user@checks.example.com", false, false),
        ("https://2130706433/", false, false),
        ("http://http://localhost", false, false),
        ("ftp://checks.example.com", false, false),
        ("", false, false),
    ] {
        assert_eq!(check_url(url, false).is_ok(), is_public, "{url}");
        assert_eq!(check_url(url, true).is_ok(), is_allowed_locally, "{url}");
    }
}

#[test]
fn every_fault_of_the_checks_of_a_rule_is_named_by_its_path() {
    assert_eq!(faults(&approval(vec![rule("security"), rule("cost")])), [""; 0]);
    let slow = PlanCheckRule { timeout_seconds: 601, ..rule("slow") };
    let private = PlanCheckRule { url: "https://10.0.0.1".to_owned(), ..rule("private") };
    let wrong = approval(vec![rule("security"), rule("security"), slow, private]);
    let expected =
        ["approval.checks[1].id", "approval.checks[2].timeout_seconds", "approval.checks[3].url"];
    assert_eq!(faults(&wrong), expected);
    let many = ["aa", "bb", "cc", "dd", "ee", "ff"].map(rule).to_vec();
    assert_eq!(faults(&approval(many)), ["approval.checks"]);
}

#[test]
fn no_person_is_needed_only_if_a_check_must_pass() {
    let of = |checks| ApprovalRule { count: 0, ..approval(checks) };
    let advisory = PlanCheckRule { mandatory: false, ..rule("cost") };
    // `count` is named in the reason too.
    assert_eq!(faults(&of(Vec::new())), ["approval.count"]);
    assert_eq!(faults(&of(vec![advisory.clone()])), ["approval.count"]);
    assert_eq!(faults(&of(vec![advisory.clone(), rule("security")])), [""; 0]);
    // A stored rule that would wait for nothing waits for a person.
    assert_eq!(Approval::by_rules(&[&of(vec![advisory])]).unwrap().count, 1);
    assert_eq!(Approval::by_rules(&[&of(vec![rule("security")])]).unwrap().count, 0);
}

#[test]
fn the_checks_of_type_and_environment_are_joined_and_of_one_id_the_types_counts() {
    let own = PlanCheckRule { mandatory: false, ..rule("security") };
    let (of_type, own) = (approval(vec![rule("security")]), approval(vec![own, rule("cost")]));
    let joined = Approval::by_rules(&[&of_type, &own]).unwrap().checks;
    let joined: Vec<_> = joined.into_iter().map(|check| check.rule).collect();
    assert_eq!(joined, [rule("security"), rule("cost")]);
    let mut faults = FieldErrors::default();
    own.check_is_stricter(&of_type, "approval", &mut faults);
    let said = faults.into_result(()).unwrap_err().to_string();
    assert!(said.contains("approval.checks[0].id") && !said.contains("[1]"), "{said}");
}

#[test]
fn a_request_is_repeated_with_longer_pauses_until_the_service_accepts_it() {
    let mut check = PlanCheck::of(rule("security"));
    assert!(check.due_at().is_none() && !check.is_overdue(at(1_000)), "no plan is made yet");
    check.begin(at(0));
    let mut now = at(0);
    let mut pauses = Vec::new();
    for _ in 0..6 {
        assert!(check.is_to_be_requested(now));
        assert!(check.refuse_request("it answered 503", at(0), now));
        assert!(!check.is_to_be_requested(now));
        let next = check.next_request_at.unwrap();
        pauses.push(next.duration_since(now).as_secs());
        now = next;
    }
    assert_eq!(pauses, [2, 2, 4, 8, 16, 30]);
    assert_eq!(check.message.as_deref(), Some("it answered 503"));
    assert!(check.accept_request(now));
    assert!(!check.accept_request(now), "a second delivery is not new");
    assert_eq!((check.due_at(), &check.message), (Some(at(300)), &None));
    assert!(!check.is_overdue(at(299)) && check.is_overdue(at(300)));
}

#[test]
fn why_an_answer_is_missing_is_told() {
    let expired = |mut check: PlanCheck| {
        check.expire();
        check.refusal().unwrap()
    };
    let mut check = PlanCheck::of(rule("security"));
    check.begin(at(0));
    let mut silent = check.clone();
    silent.accept_request(at(1));
    check.refuse_request("it answered 503", at(0), at(0));
    let said = [expired(silent), expired(check)].join("\n");
    insta::assert_snapshot!(said, @r"
    the check `security` of its plan has failed: its service has not answered within 300 s
    the check `security` of its plan has failed: its service has not accepted the request within 300 s: it answered 503
    ");
}

#[test]
fn a_link_is_an_https_address_without_surprises() {
    for (link, expected) in [
        ("https://checks.example.com/runs/7?tab=plan#top", true),
        ("http://checks.example.com", false),
        ("https://", false),
        ("https:///x", false),
        ("javascript:alert(1)", false),
        ("https://a.b/\u{1b}[2J", false),
        ("https://a.b/<b>", false),
        ("https://a.b/ c", false),
    ] {
        assert_eq!(is_link(link), expected, "{link}");
    }
    assert!(!is_link(&format!("https://{}", "a".repeat(MAX_LINK))));
}
