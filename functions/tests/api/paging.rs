//! Lists come in pages, and a cursor is good for its own list only.

use crate::harness::{Api, local_runner};
use serde_json::{Value, json};

async fn walk(api: &Api, path: &str) -> Vec<Vec<Value>> {
    let mut pages = Vec::new();
    let mut next = String::new();
    loop {
        let (status, page) = api.get(&format!("{path}{next}")).await;
        assert_eq!(status, 200, "{page}");
        pages.push(page["items"].as_array().unwrap().clone());
        match page["next_page_token"].as_str() {
            Some(token) => next = format!("&page={token}"),
            None => return pages,
        }
    }
}

#[tokio::test]
async fn a_hundred_and_twenty_runners_come_in_three_pages() {
    let api = Api::start().await;
    for n in 0..120 {
        api.make("/runners", local_runner(&format!("runner-{n:03}"))).await;
    }
    let pages = walk(&api, "/runners?per_page=50").await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [50, 50, 20]);
    let ids: Vec<_> = pages.concat().iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect();
    let expected: Vec<_> = (0..120).map(|n| format!("runner-{n:03}")).collect();
    assert_eq!(ids, expected);

    let records = walk(&api, "/audit-records?per_page=50").await.concat();
    let at = |record: &Value| record["at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(records.is_sorted_by(|a, b| at(a) >= at(b)), "newest first");
    let made = records.iter().filter(|record| record["action"] == "runner.create").count();
    assert_eq!(made, 120);
}

#[tokio::test]
async fn a_cursor_of_another_list_is_refused() {
    let api = Api::start().await;
    for id in ["one", "two", "three"] {
        api.make("/runners", local_runner(id)).await;
        api.make("/projects", json!({ "id": id })).await;
    }
    let token = |page: Value| page["next_page_token"].as_str().unwrap().to_owned();
    let runners = token(api.get("/runners?per_page=1").await.1);
    let filtered = token(api.get("/runners?per_page=1&byRunnerType=local").await.1);
    for (path, cursor, status) in [
        ("/runners?", &runners, 200),
        ("/projects?", &runners, 400),
        ("/envs?", &runners, 400),
        ("/runner-rules?", &runners, 400),
        ("/audit-records?", &runners, 400),
        ("/runners?byRunnerType=local", &runners, 400),
        ("/runners?byRunnerType=local", &filtered, 200),
        ("/runners?", &filtered, 400),
    ] {
        let answer = api.get(&format!("{path}&page={cursor}")).await;
        assert_eq!(answer.0, status, "{path}: {answer:?}");
    }
}
