//! `canyon list audit`.

use crate::canned_server::{CannedServer, html, json};
use crate::deployments::run;
use crate::status::watch;
use serde_json::{Value, json as value};

fn record(second: u8) -> Value {
    value!({
        "id": format!("01970000-0000-7000-8000-0000000000{second:02}"),
        "at": format!("2999-01-01T00:00:{second:02}Z"), "by": "01970000-0000-7000-8000-00000000ffff",
        "action": "deployment.create", "subject": "projects/shop/envs/dev", "by_right": "deployer",
        "details": ["mode: destroy"],
    })
}

fn page(items: &[Value], next: Option<&str>) -> crate::canned_server::Answer {
    let mut page = value!({ "items": items });
    if let Some(next) = next {
        page["next_page_token"] = next.into();
    }
    json(200, &page)
}

#[test]
fn filters_are_sent_and_pages_are_read_to_the_limit() {
    let pages = [
        page(&[record(9)], Some("a")),
        page(&[], Some("b")), // as a filter that matches few answers
        page(&[record(8), record(7)], Some("c")),
    ];
    let server = CannedServer::start(pages.map(|page| ("GET /audit-records", page)));
    let call = "list audit --action deployment --by 01970000-0000-7000-8000-00000000ffff \
        --subject projects/shop --since 2026-01-01T00:00:00Z --until 2999-02-01T00:00:00Z --limit 2";
    insta::assert_snapshot!(run(&server, call));
    let requests: Vec<_> = server.requests().into_iter().map(|request| request.what).collect();
    insta::assert_snapshot!(requests.join("\n"));
}

#[test]
fn following_prints_each_record_once_in_order_of_time_also_after_an_outage() {
    let answers = || {
        let newest = page(&[record(2), record(1)], None);
        let late = page(&[record(5), record(2), record(1)], None);
        let last = page(&[record(6), record(5), record(4), record(2), record(1)], None);
        let answers = [newest, html(502), html(502), late, last];
        CannedServer::start(answers.map(|answer| ("GET /audit-records", answer)))
    };
    let server = answers();
    let call = "list audit --follow --interval 1 --since 2999-01-01T00:00:00Z";
    let lines = watch(&server, call, 5);
    insta::assert_snapshot!(lines.join("\n"));
    let first = &server.requests()[0].what;
    assert_eq!(first, "GET /audit-records?since=2999-01-01T00%3A00%3A00Z&per_page=100");
    let lines = watch(&answers(), &format!("{call} -o json --jq .id[34:]"), 5);
    assert_eq!(lines, ["01", "02", "05", "04", "06"]);
}

#[test]
fn a_follow_has_no_end_and_no_yaml() {
    let server = CannedServer::start([]);
    let calls = [
        "list audit --follow -o yaml",
        "list audit --follow --until 1h",
        "list audit --follow --limit 3",
        "list audit --interval 3",
        "list audit --since soon",
    ];
    let printed = calls.map(|call| format!("$ canyon {call}\n{}", run(&server, call)));
    insta::assert_snapshot!(printed.join("\n"));
    assert!(server.requests().is_empty());
}
