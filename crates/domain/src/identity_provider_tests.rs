use super::*;
use crate::scoped_role::ScopedRole;
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A provider with these rules, each a group and a role.
fn provider(rules: Vec<(&str, GroupRole)>) -> IdentityProvider {
    let rules = rules.into_iter().map(|(group, role)| GroupRule { group: group.into(), role });
    IdentityProvider {
        id: "company".parse().unwrap(),
        uuid: Uuid::from_u128(1),
        description: String::new(),
        issuer: IssuerUrl::new("https://login.example.com").unwrap(),
        client_id: "canyon".into(),
        scopes: vec!["openid".into()],
        name_claim: "email".into(),
        groups_claim: "groups".into(),
        jwks: None,
        rules: rules.collect(),
        created_at: at(0),
        updated_at: at(0),
        version: 1,
    }
}

fn in_shop(role: Role) -> ScopedRole {
    ScopedRole::new(role).in_project("shop".parse().unwrap())
}

fn rules() -> Vec<(&'static str, GroupRole)> {
    vec![
        ("everyone", GroupRole::Organization(Role::Viewer)),
        ("platform", GroupRole::Organization(Role::Admin)),
        ("shop", GroupRole::Scoped(in_shop(Role::Deployer))),
        ("shop-leads", GroupRole::Scoped(in_shop(Role::Admin))),
    ]
}

/// What the provider says of a person with these claims besides the usual ones, an hour into the epoch.
fn admitted(claims: &Value) -> Result<Person, NotAdmitted> {
    let mut all = json!({ "sub": "7", "aud": "canyon", "iat": 3_600, "email": "ada@example.com" });
    let all = all.as_object_mut().unwrap();
    all.extend(claims.as_object().unwrap().clone());
    all.retain(|_, value| !value.is_null());
    provider(rules()).admit(all, at(3_600))
}

#[test]
fn a_person_has_the_roles_of_all_its_groups_and_no_others() {
    let roles = |groups: &[&str]| {
        let person = admitted(&json!({ "groups": groups })).unwrap();
        (person.role, person.scoped_roles)
    };
    assert_eq!(roles(&["everyone"]), (Role::Viewer, vec![]));
    assert_eq!(roles(&["platform", "everyone"]), (Role::Admin, vec![]));
    assert_eq!(roles(&["shop", "x"]), (Role::None, vec![in_shop(Role::Deployer)]));
    let both = vec![in_shop(Role::Deployer), in_shop(Role::Admin)];
    assert_eq!(roles(&["everyone", "shop-leads", "shop"]), (Role::Viewer, both));
    // Not a prefix, not another case, not a part of a list.
    for groups in [&["sho"][..], &["Shop"], &["shop,everyone"], &[]] {
        let refused = admitted(&json!({ "groups": groups })).unwrap_err();
        assert!(matches!(refused, NotAdmitted::NoRole(..)), "{groups:?}: {refused}");
    }
}

#[test]
fn of_its_groups_a_person_keeps_those_with_a_rule_each_once() {
    let mut all = rules();
    all.push(("platform", GroupRole::Scoped(in_shop(Role::Admin))));
    let claims = json!({
        "sub": "7", "aud": "canyon", "iat": 3_600, "groups": ["x", "shop", "platform", "Everyone", "shop"],
    });
    let person = provider(all).admit(claims.as_object().unwrap(), at(3_600)).unwrap();
    assert_eq!(person.groups, ["platform", "shop"]);
}

#[test]
fn one_group_may_be_a_text() {
    assert_eq!(admitted(&json!({ "groups": "platform" })).unwrap().role, Role::Admin);
}

#[test]
fn the_name_is_the_claim_that_the_provider_names_or_else_the_subject() {
    let name = |email| admitted(&json!({ "groups": "shop", "email": email })).unwrap().name;
    assert_eq!(name(json!("ada@example.com")), "ada@example.com");
    assert_eq!(name(json!("")), "7");
    assert_eq!(name(Value::Null), "7");
    assert_eq!(name(json!(["x"])), "7");
}

#[test]
fn an_address_that_the_issuer_has_not_verified_is_neither_a_name_nor_a_group() {
    let unverified = |value: bool| {
        let mut claims = json!({ "groups": null, "email_verified": value });
        let provider = IdentityProvider {
            groups_claim: "email".into(),
            ..provider(vec![("ada@example.com", GroupRole::Organization(Role::Admin))])
        };
        claims["sub"] = json!("7");
        claims["iat"] = json!(3_600);
        claims["email"] = json!("ada@example.com");
        provider.admit(claims.as_object().unwrap(), at(3_600))
    };
    assert_eq!(unverified(true).unwrap().role, Role::Admin);
    assert_eq!(unverified(false).unwrap_err(), NotAdmitted::NoGroups("email".into()));
    let person = admitted(&json!({ "groups": "shop", "email_verified": false })).unwrap();
    assert_eq!(person.name, "7");
}

#[test]
fn a_claim_about_the_token_is_refused_as_one_about_the_person() {
    for (claim, is_good) in
        [("groups", true), ("https://x/groups", true), ("aud", false), ("nonce", false)]
    {
        let mut faults = FieldErrors::default();
        check_claim(&mut faults, "groups_claim", claim);
        assert_eq!(faults.into_result(()).is_ok(), is_good, "{claim}");
    }
}

#[test]
fn a_token_that_does_not_tell_groups_or_person_is_refused_with_the_claim() {
    for (claims, expected) in [
        (json!({}), NotAdmitted::NoGroups("groups".into())),
        (json!({ "groups": { "a": 1 } }), NotAdmitted::NotTexts("groups".into())),
        (json!({ "groups": ["platform", 1] }), NotAdmitted::NotTexts("groups".into())),
        (
            json!({ "groups": vec!["platform"; 501] }),
            NotAdmitted::TooManyGroups("groups".into(), 501),
        ),
        (json!({ "groups": "platform", "sub": null }), NotAdmitted::NoSubject),
        (json!({ "groups": "platform", "sub": "" }), NotAdmitted::NoSubject),
        (json!({ "groups": "platform", "iat": null }), NotAdmitted::NoTime),
        (json!({ "groups": "platform", "aud": ["canyon", "other"] }), NotAdmitted::OtherParty),
        (
            json!({ "groups": "platform", "aud": ["canyon", "other"], "azp": "other" }),
            NotAdmitted::OtherParty,
        ),
    ] {
        assert_eq!(admitted(&claims).unwrap_err(), expected, "{claims}");
    }
    for other in [json!({ "azp": "other" }), json!({ "azp": 1 })] {
        let mut claims = json!({ "groups": "platform" });
        claims["azp"] = other["azp"].clone();
        assert_eq!(admitted(&claims).unwrap_err(), NotAdmitted::OtherParty);
    }
    let access = json!({ "groups": "platform", "typ": "Bearer" });
    assert_eq!(admitted(&access).unwrap_err(), NotAdmitted::OtherKind);
    assert!(admitted(&json!({ "groups": "platform", "typ": "ID" })).is_ok());
    let shared = json!({ "groups": "platform", "aud": ["canyon", "other"], "azp": "canyon" });
    assert_eq!(admitted(&shared).unwrap().role, Role::Admin);
}

#[test]
fn access_ends_an_hour_after_the_issuer_told_the_groups() {
    let until = |issued: i64| {
        admitted(&json!({ "groups": "shop", "iat": issued })).map(|person| person.until.as_second())
    };
    assert_eq!(until(3_600), Ok(7_200));
    assert_eq!(until(1_800), Ok(5_400));
    assert_eq!(until(0), Err(NotAdmitted::TooOld));
    // A clock that is ahead gives no longer access.
    assert_eq!(until(3_650), Ok(7_200));
}

#[test]
fn a_rule_names_a_group_and_a_role_for_people() {
    let faults = |group: &str, role: GroupRole| {
        let mut faults = FieldErrors::default();
        GroupRule { group: group.into(), role }.check(&mut faults, "rules[0]");
        faults.into_result(()).err().map(|faults| faults.to_string())
    };
    assert_eq!(faults("a b, c/ä", GroupRole::Organization(Role::Viewer)), None);
    assert_eq!(faults("x", GroupRole::Scoped(in_shop(Role::Admin))), None);
    for (group, role) in [
        ("", GroupRole::Organization(Role::Viewer)),
        ("a\nb", GroupRole::Organization(Role::Viewer)),
        ("x", GroupRole::Organization(Role::Agent)),
        ("x", GroupRole::Organization(Role::None)),
        ("x", GroupRole::Scoped(in_shop(Role::Agent))),
        ("x", GroupRole::Scoped(ScopedRole::new(Role::Viewer))),
    ] {
        assert!(faults(group, role.clone()).is_some(), "{group:?} {role:?}");
    }
}
