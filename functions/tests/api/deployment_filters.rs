//! The filters of the list of deployments.

use crate::harness::{Api, faults};
use crate::job::{Job, deploy, furnished, order, stored};
use canyon_domain::attempt::Outcome;
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::Status;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::lifecycle;
use canyon_domain::ports::Clock as _;
use canyon_store::deployment_item::Wake;
use reqwest::Method;
use serde_json::{Value, json};

async fn listed(api: &Api, query: &str) -> Vec<String> {
    let (status, page) = api.get(&format!("/deployments?{query}")).await;
    assert_eq!(status, 200, "{query}: {page}");
    let ids = page["items"].as_array().unwrap().iter();
    ids.map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn deployments_are_listed_by_status_mode_and_time_of_acceptance() {
    let api = furnished().await;
    let failed = Job::start(&api).await;
    assert_eq!(failed.result(&api, json!({ "status": "failure" })).await.0, 204);
    assert_eq!(stored(&api, &failed.id).await.status, Status::Failed);
    let succeeded = Job::start(&api).await;
    succeeded.succeed(&api).await;
    api.clock.advance(std::time::Duration::from_hours(1));
    let mut plan = order();
    plan["plan_only"] = true.into();
    let plan = api.make("/deployments", plan).await;
    let since = plan["created_at"].as_str().unwrap().to_owned();
    let plan = plan["id"].as_str().unwrap().to_owned();
    let destroy = json!({ "project_id": "shop", "env_id": "main", "mode": "destroy" });
    let destroy = api.make("/deployments", destroy).await["id"].as_str().unwrap().to_owned();
    let cancelled = deploy(&api).await;
    assert_eq!(api.act(&format!("/deployments/{cancelled}/actions/cancel")).await.0, 202);
    let (failed, succeeded) = (failed.id, succeeded.id);
    for (query, expected) in [
        ("status=failed".to_owned(), vec![&failed]),
        ("status=succeeded".to_owned(), vec![&succeeded]),
        ("status=cancelled".to_owned(), vec![&cancelled]),
        ("status=queued".to_owned(), vec![&destroy, &plan]),
        ("status=running".to_owned(), vec![]),
        ("ended=false".to_owned(), vec![&destroy, &plan]),
        ("ended=true".to_owned(), vec![&cancelled, &succeeded, &failed]),
        ("ended=false&mode=plan".to_owned(), vec![&plan]),
        ("ended=false&status=failed".to_owned(), vec![]),
        ("mode=plan".to_owned(), vec![&plan]),
        ("mode=destroy".to_owned(), vec![&destroy]),
        ("mode=deploy".to_owned(), vec![&cancelled, &succeeded, &failed]),
        ("mode=deploy&status=failed&project_id=shop&env_id=main".to_owned(), vec![&failed]),
        ("status=failed&project_id=other".to_owned(), vec![]),
        (format!("since={since}"), vec![&cancelled, &destroy, &plan]),
        (format!("since={since}&status=failed"), vec![]),
    ] {
        assert_eq!(listed(&api, &query).await.iter().collect::<Vec<_>>(), expected, "{query}");
    }
}

#[tokio::test]
async fn an_organization_of_an_earlier_version_is_searched_for_what_is_in_no_list() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    // As an earlier version wrote an end: without an entry in a list.
    let mut failed = stored(&api, &job.id).await;
    let outcome = Outcome::Failed(Failure::new(FailureClass::User, "wrong"));
    lifecycle::end(&mut failed, 1, outcome, api.clock.now()).unwrap();
    failed.version += 1;
    let (table, org) = (&api.app.table, api.ours.uuid);
    table.save_deployment(org, &failed, Wake::None).await.unwrap();
    assert_eq!(listed(&api, "status=failed").await, Vec::<String>::new());

    let mut earlier = table.organization(org).await.unwrap().unwrap();
    assert!(earlier.lists_ends, "a new one");
    earlier.lists_ends = false;
    let record = AuditRecord::of_end(uuid::Uuid::now_v7(), api.clock.now(), "canyon", &failed);
    table.update_organization(&earlier, &record).await.unwrap();
    assert_eq!(listed(&api, "status=failed").await, [job.id]);
}

#[tokio::test]
async fn a_parameter_that_the_list_does_not_have_is_refused_with_the_names_of_those_it_has() {
    let api = furnished().await;
    let query = "state=failed&status=broken&mode=apply&env_id=main&project=shop";
    let refused = api.get(&format!("/deployments?{query}")).await;
    assert_eq!(refused.0, 400);
    assert_eq!(faults(&refused), ["state", "project", "env_id", "status", "mode"]);
    let text = refused.1.to_string();
    for name in ["project_id", "env_id", "status", "mode", "since", "per_page", "page"] {
        assert!(text.contains(&format!("`{name}`")), "{name}: {text}");
    }
    assert!(text.contains("`queued`") && text.contains("`rollback`"), "{text}");
    let refused = api.get("/deployments?since=yesterday").await;
    assert_eq!(refused.0, 400, "{refused:?}");
}

#[tokio::test]
async fn a_filter_shows_only_what_the_caller_may_read() {
    let api = furnished().await;
    let failed = Job::start(&api).await;
    assert_eq!(failed.result(&api, json!({ "status": "failure" })).await.0, 204);
    let body = json!({
        "description": "other", "role": "none",
        "scoped_roles": [{ "role": "viewer", "project_id": "other" }],
    });
    api.make("/projects", json!({ "id": "other" })).await;
    let made = api.make("/tokens", body).await;
    let token = made["secret"].as_str().unwrap().to_owned();
    for query in ["status=failed", "status=queued", "mode=deploy"] {
        let path = format!("/deployments?{query}");
        let (status, page): (u16, Value) = api.call_as(&token, Method::GET, &path, None).await;
        assert_eq!((status, page["items"].as_array().map(Vec::len)), (200, Some(0)), "{query}");
    }
}
