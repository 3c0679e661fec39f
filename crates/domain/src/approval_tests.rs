use super::*;
use crate::field_error::FieldErrors;
use crate::kept_plan::PlanSummary;
use crate::provider_group::{Membership, ProviderGroup};
use crate::role::Role;
use serde_json::json;
use uuid::Uuid;

fn leads() -> ProviderGroup {
    "okta/leads".parse().unwrap()
}

fn rule(required: ApprovalNeed) -> ApprovalRule {
    ApprovalRule::of(required)
}

#[test]
fn which_plans_need_approval_is_a_table() {
    let of = |text: serde_json::Value| serde_json::from_value::<PlanSummary>(text).unwrap();
    let plans = [
        ("outputs alone", of(json!({})), [false, false, false, true]),
        ("drift alone", of(json!({ "drift": 1 })), [false, false, false, true]),
        ("a creation", of(json!({ "add": 1 })), [false, false, true, true]),
        ("an update", of(json!({ "change": 1 })), [false, false, true, true]),
        ("an import", of(json!({ "import": 1 })), [false, false, true, true]),
        ("a move", of(json!({ "move": 1 })), [false, false, true, true]),
        ("what leaves the state", of(json!({ "forget": 1 })), [false, false, true, true]),
        ("a replacement", of(json!({ "replace": 1 })), [false, true, true, true]),
        ("a destruction", of(json!({ "remove": 1 })), [false, true, true, true]),
    ];
    for (name, plan, expected) in plans {
        assert_eq!(ApprovalNeed::ALL.map(|need| need.is_met_by(&plan)), expected, "{name}");
    }
}

#[test]
fn of_two_rules_the_stricter_value_of_each_setting_counts() {
    let of_type = ApprovalRule {
        count: 2,
        expires_seconds: 7_200,
        forbid_author: false,
        approvers: Approvers { roles: vec![Role::Admin], ..Approvers::default() },
        ..rule(ApprovalNeed::Destructive)
    };
    let own = ApprovalRule {
        expires_seconds: 3_600,
        comment_required: true,
        approvers: Approvers { subjects: vec!["ada".to_owned()], ..Approvers::default() },
        ..rule(ApprovalNeed::Always)
    };
    let both = Approval::by_rules(&[&of_type, &own]).unwrap();
    assert_eq!((both.required, both.count, both.expires_seconds), (ApprovalNeed::Always, 2, 3_600));
    assert!(both.forbid_author && both.comment_required);
    assert_eq!(both.approvers.len(), 2, "both must admit a reviewer");
    let never = rule(ApprovalNeed::Never);
    assert_eq!(Approval::by_rules(&[]), None);
    assert_eq!(Approval::by_rules(&[&never]), None);
    assert!(Approval::by_rules(&[&never, &own]).is_some());
}

#[test]
fn an_environment_asks_for_no_less_than_its_type() {
    let of_type = ApprovalRule {
        count: 2,
        expires_seconds: 3_600,
        comment_required: true,
        ..rule(ApprovalNeed::Changes)
    };
    let faults = |own: &ApprovalRule| {
        let mut faults = FieldErrors::default();
        own.check_is_stricter(&of_type, "approval", &mut faults);
        faults.into_result(()).err().map(|faults| faults.to_string())
    };
    assert_eq!(faults(&of_type), None);
    let weaker = ApprovalRule { forbid_author: false, ..rule(ApprovalNeed::Destructive) };
    let said = faults(&weaker).unwrap();
    for field in ["required", "count", "forbid_author", "expires_seconds", "comment_required"] {
        assert!(said.contains(&format!("approval.{field}")), "{field}: {said}");
    }
}

#[test]
fn every_fault_of_a_rule_is_named_by_its_path() {
    let mut faults = FieldErrors::default();
    let wrong = ApprovalRule {
        count: 6,
        expires_seconds: 299,
        approvers: Approvers {
            roles: vec![Role::Agent],
            subjects: vec![String::new()],
            groups: vec![leads(); 51],
        },
        ..rule(ApprovalNeed::Always)
    };
    wrong.check("approval", &mut faults);
    let said = faults.into_result(()).unwrap_err().to_string();
    for path in
        ["count", "expires_seconds", "approvers.subjects[0]", "approvers.roles", "approvers.groups"]
    {
        assert!(said.contains(&format!("approval.{path}")), "{path}: {said}");
    }
}

#[test]
fn a_rule_that_nobody_can_satisfy_is_refused() {
    let subjects = |count: usize| vec!["ada".to_owned(); count];
    let in_groups = |count, subjects, roles, groups| {
        let approvers = Approvers { roles, subjects, groups };
        let mut faults = FieldErrors::default();
        ApprovalRule { count, approvers, ..rule(ApprovalNeed::Always) }.check("a", &mut faults);
        faults.into_result(()).is_err()
    };
    let said = |count, subjects, roles| in_groups(count, subjects, roles, Vec::new());
    assert!(!in_groups(2, subjects(1), Vec::new(), vec![leads()]), "a group may have many people");
    assert!(said(2, subjects(1), Vec::new()));
    assert!(!said(2, subjects(2), Vec::new()));
    assert!(!said(2, subjects(1), vec![Role::Admin]));
    assert!(!said(5, Vec::new(), Vec::new()));
}

#[test]
fn who_may_approve_is_a_table() {
    let deployer = Reviewer {
        id: PrincipalId(Uuid::from_u128(7)),
        name: Some("ada@example.com"),
        role: Role::Deployer,
        is_machine: false,
        groups: None,
    };
    let viewer = Reviewer { role: Role::Viewer, ..deployer };
    let admin = Reviewer { role: Role::Admin, ..deployer };
    let machine = Reviewer { role: Role::Admin, is_machine: true, ..deployer };
    let nameless = Reviewer { name: None, ..viewer };
    let of = |roles: &[Role], subjects: &[&str]| Approvers {
        roles: roles.to_vec(),
        subjects: subjects.iter().map(|subject| (*subject).to_owned()).collect(),
        groups: Vec::new(),
    };
    let id = Uuid::from_u128(7).to_string();
    // viewer, deployer, administrator, service account
    let table = [
        (of(&[], &[]), [false, true, true, false]),
        (of(&[Role::Admin], &[]), [false, false, true, false]),
        (of(&[Role::Viewer], &[]), [true, true, true, false]),
        (of(&[], &["ada@example.com"]), [true, true, true, true]),
        (of(&[], &[&id]), [true, true, true, true]),
        (of(&[], &["bob"]), [false, false, false, false]),
        (of(&[Role::Admin], &["bob"]), [false, false, true, false]),
    ];
    for (approvers, expected) in table {
        let admitted = [viewer, deployer, admin, machine].map(|who| approvers.admit(&who));
        assert_eq!(admitted, expected, "{approvers:?}");
    }
    assert!(!of(&[], &["ada@example.com"]).admit(&nameless));
}

#[test]
fn the_people_of_a_group_may_approve_whatever_their_roles_and_no_others() {
    let (okta, other) = ("okta".parse().unwrap(), "other".parse().unwrap());
    let names = ["leads".to_owned(), "shop".to_owned()];
    let person = |provider, groups, role, is_machine| Reviewer {
        id: PrincipalId(Uuid::from_u128(7)),
        name: Some("ada@example.com"),
        role,
        is_machine,
        groups: Some(Membership { provider, groups }),
    };
    let lead = person(&okta, &names, Role::Viewer, false);
    let elsewhere = person(&other, &names, Role::Viewer, false);
    let admin = person(&okta, &names[1..], Role::Admin, false);
    let machine = person(&okta, &names, Role::Admin, true);
    let groups = || vec![leads()];
    // a lead, one of another provider, an administrator outside of the group, a service account
    let table = [
        (Approvers { groups: groups(), ..Approvers::default() }, [true, false, false, false]),
        (
            Approvers { groups: groups(), roles: vec![Role::Admin], subjects: Vec::new() },
            [true, false, true, false],
        ),
        (Approvers::default(), [false, false, true, false]),
    ];
    for (approvers, expected) in table {
        let admitted = [lead, elsewhere, admin, machine].map(|who| approvers.admit(&who));
        assert_eq!(admitted, expected, "{approvers:?}");
    }
    assert!(!Approvers { groups: groups(), ..Approvers::default() }.is_default());
}

#[test]
fn a_rule_is_stored_as_earlier_versions_stored_it_if_it_has_no_groups() {
    let stored = json!({
        "required": "always", "count": 1, "approvers": { "roles": ["admin"] },
        "forbid_author": true, "expires_seconds": 86_400, "comment_required": false,
    });
    let read: ApprovalRule = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(read.approvers, Approvers { roles: vec![Role::Admin], ..Approvers::default() });
    assert_eq!(serde_json::to_value(&read).unwrap(), stored);
    let mut with_group = read;
    with_group.approvers.groups = vec![leads()];
    let stored = serde_json::to_value(&with_group).unwrap();
    assert_eq!(stored["approvers"]["groups"], json!(["okta/leads"]));
    assert_eq!(serde_json::from_value::<ApprovalRule>(stored).unwrap(), with_group);
}
