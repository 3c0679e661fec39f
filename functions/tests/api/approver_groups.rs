//! Groups of identity providers in rules for approvals.

use crate::approvals::{approve, ruled, waiting};
use crate::foreign::Foreign;
use crate::harness::{Api, faults, message};
use crate::job::furnished;
use crate::people::{company, id_token, sign_in, signed_in, whoami};
use reqwest::Method;
use serde_json::{Value, json};

/// A rule that admits these groups.
fn admits(groups: &[&str]) -> Value {
    json!({ "required": "always", "approvers": { "groups": groups } })
}

/// An API with an identity provider, whose people of the group `auditors` may approve.
async fn audited() -> (Api, Foreign) {
    let api = furnished().await;
    let foreign = Foreign::new(&api);
    api.make("/identity-providers", company(&foreign).await).await;
    let rule = json!({ "approval": admits(&["company/auditors"]) });
    let changed = api.patch("/env-types/dev", rule).await;
    assert_eq!(changed.0, 200, "{changed:?}");
    assert_eq!(changed.1["approval"]["approvers"], json!({ "groups": ["company/auditors"] }));
    let (_, records) = api.get("/audit-records?action=env_type.update").await;
    let details =
        "approval required: always, by 1 with the group `company/auditors`, within 86400 s";
    assert_eq!(records["items"][0]["details"], json!([details]));
    (api, foreign)
}

#[tokio::test]
async fn a_person_of_the_group_approves_and_others_are_told_what_is_wanted() {
    let (api, foreign) = audited().await;
    let id = waiting(&api).await;
    let ada = signed_in(&api, &foreign, "ada", &["platform"]).await;
    let grace = signed_in(&api, &foreign, "grace", &["everyone", "auditors"]).await;
    for (who, may) in [(&ada, false), (&grace, true), (&api.ours.admin, false)] {
        let (_, shown) = api.call_as(who, Method::GET, &format!("/deployments/{id}"), None).await;
        assert_eq!(shown["approval"]["may_approve"], may, "{shown}");
        let (_, listed) = api.call_as(who, Method::GET, "/deployments?ended=false", None).await;
        assert_eq!(listed["items"][0]["approval"]["may_approve"], may, "{listed}");
    }
    let refused = approve(&api, &ada, &id).await;
    assert_eq!((refused.0, &refused.1["details"]["code"]), (403, &json!("not_an_approver")));
    assert!(message(&refused).contains("the group `company/auditors`"), "{refused:?}");
    let approved = approve(&api, &grace, &id).await;
    assert_eq!((approved.0, &approved.1["approval"]["status"]), (200, &json!("given")));
    let (_, shown) = api.get(&format!("/deployments/{id}")).await;
    assert_eq!(shown["approval"]["may_approve"], Value::Null, "nothing waits any more");
}

#[tokio::test]
async fn a_sign_in_keeps_the_groups_that_have_a_rule_at_its_provider_until_that_changes() {
    let (api, foreign) = audited().await;
    let id = waiting(&api).await;
    let groups = ["everyone", "auditors", "platform"];
    let grace = signed_in(&api, &foreign, "grace", &groups).await;
    let kept = json!(["company/platform", "company/auditors"]);
    assert_eq!(whoami(&api, &grace).await.1["groups"], kept);
    // A group of the same name at another provider is another group.
    let mut other = company(&foreign).await;
    other["id"] = json!("other");
    api.make("/identity-providers", other).await;
    let token = id_token(&foreign, "grace", &groups).await;
    let (_, answer) = sign_in(&api, "our-org", "other", &token).await;
    let elsewhere = answer["access_token"].as_str().unwrap();
    assert_eq!(whoami(&api, elsewhere).await.1["groups"][1], "other/auditors");
    assert_eq!(approve(&api, elsewhere, &id).await.0, 403);
    // The provider has no rule for the group any more: its token ends, and the next one has the group no longer.
    let rules = json!({ "rules": [{ "group": "platform", "role": "admin" }] });
    assert_eq!(api.patch("/identity-providers/company", rules).await.0, 200);
    assert_eq!(approve(&api, &grace, &id).await.0, 401);
    let grace = signed_in(&api, &foreign, "grace", &groups).await;
    assert_eq!(whoami(&api, &grace).await.1["groups"], json!(["company/platform"]));
    assert_eq!(approve(&api, &grace, &id).await.0, 403);
    // A token of an administrator has no groups.
    assert_eq!(whoami(&api, &api.ours.admin).await.1["groups"], Value::Null);
}

#[tokio::test]
async fn a_group_that_no_sign_in_would_keep_is_refused_by_its_path() {
    let (api, _foreign) = audited().await;
    let long = format!("company/{}", "x".repeat(257));
    let many = ["company/auditors"; 51];
    let at = |index: usize| format!("approval.approvers.groups[{index}]");
    let cases = [
        (vec!["auditors"], vec![at(0)], "PROVIDER/GROUP"),
        (vec!["company/auditors", "Company/auditors"], vec![at(1)], "identity provider id"),
        (vec!["company/"], vec![at(0)], "1 to 256 bytes"),
        (vec![long.as_str()], vec![at(0)], "1 to 256 bytes"),
        (many.to_vec(), vec!["approval.approvers.groups".to_owned()], "at most 50"),
        (
            vec!["company/auditors", "company/strangers", "nowhere/auditors"],
            vec![at(1), at(2)],
            "has no rule for the group `strangers`",
        ),
    ];
    for (groups, expected, part) in cases {
        let rule = json!({ "approval": admits(&groups) });
        let of_new = json!({ "id": "prod", "approval": rule["approval"] });
        for refused in [
            api.patch("/env-types/dev", rule.clone()).await,
            api.patch("/projects/shop/envs/main", rule.clone()).await,
            api.post("/env-types", of_new).await,
        ] {
            assert_eq!(
                (refused.0, faults(&refused)),
                (400, expected.iter().map(String::as_str).collect())
            );
            assert!(message(&refused).contains(part), "{part}: {refused:?}");
        }
    }
    assert_eq!(api.get("/env-types/prod").await.0, 404);
    let kept = api.get("/env-types/dev").await.1;
    assert_eq!(kept["approval"]["approvers"]["groups"], json!(["company/auditors"]));
}

#[tokio::test]
async fn a_count_in_quotes_is_refused_as_a_text() {
    let api = ruled(json!({ "required": "always" })).await;
    let rule = json!({ "approval": { "required": "always", "count": "2" } });
    let refused = api.patch("/env-types/dev", rule).await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["approval.count"]));
    assert!(message(&refused).contains("not the text \"2\""), "{refused:?}");
}
