//! What is left out of a result that does not arrive, and after how long: the runner's own delivery, to a control plane
//! behind a gateway, with a clock that the test moves.

use crate::server::{CODE, DEPLOYMENT, Home, Plane, Server, plane::Foreign};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use canyon_api::attempt::{DeploymentResultsUpdateBody, ResultStatus};
use canyon_runner::exit::Exit;
use canyon_runner::result::deliver;
use canyon_runner::session;
use canyon_runner::settings::Settings;
use canyon_runner::stop::Stop;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::time::Duration;
use tokio::time::Instant;

/// The body of a result in which outputs and the end of the log are that long.
fn result(outputs: usize, log: usize, more: &Value) -> DeploymentResultsUpdateBody {
    let mut body = json!({
        "status": "success",
        "plain_outputs": { "word": { "value": "a".repeat(outputs), "sensitive": false } },
        "state": { "lineage": "l", "serial": 1, "resources": 1, "addresses": ["terraform_data.a"] },
        "chunks": [{ "stream": "log", "offset": 0, "data": STANDARD.encode("a".repeat(log / 4 * 3)) }],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(body).unwrap()
}

/// Delivers `body` while `each_moment` changes the control plane; returns how the run ended and how long it took.
fn delivered(
    server: &Server,
    body: DeploymentResultsUpdateBody,
    must_end: bool,
    each_moment: impl Fn(&mut Plane, Duration),
) -> (Exit, Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let given = [
            ("CANYON_API_URL", server.url()),
            ("CANYON_ORG", "local".to_owned()),
            ("CANYON_DEPLOYMENT_ID", DEPLOYMENT.to_owned()),
            ("CANYON_ATTEMPT", "1".to_owned()),
            ("CANYON_CLAIM_CODE", CODE.to_owned()),
            ("PATH", "/usr/bin".to_owned()),
        ];
        let given = given.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let settings = Settings::read(&given).unwrap();
        let stop = Stop::on_signals().unwrap();
        let api = session::claim(&settings, &stop).await.expect("the attempt is free").api;
        tokio::time::pause();
        let begun = Instant::now();
        let clock = async {
            loop {
                tick().await;
                each_moment(&mut server.plane(), begun.elapsed());
            }
        };
        tokio::select! {
            exit = deliver(&api, body, must_end) => (exit, begun.elapsed()),
            () = clock => unreachable!("the clock has no end"),
        }
    })
}

/// Lets a quarter of a second pass, and the requests in transit be answered, because sockets take real time. Paused time
/// does not advance while a blocking task runs ("Preventing auto-advance" of [`tokio::time::pause`]).
async fn tick() {
    tokio::time::advance(Duration::from_millis(250)).await;
    let in_transit = || std::thread::sleep(Duration::from_millis(5));
    tokio::task::spawn_blocking(in_transit).await.unwrap();
}

fn server() -> Server {
    Server::start(Home::new().job("", &json!({})))
}

/// Whether the result has its outputs, the end of the log, and the addresses of the resources.
fn parts(server: &Server) -> [bool; 3] {
    let plane = server.plane();
    let result = plane.result();
    assert_eq!(result.status, ResultStatus::Success);
    let has_addresses = !result.state.as_ref().unwrap().addresses.is_empty();
    [!result.plain_outputs.is_empty(), !result.chunks.is_empty(), has_addresses]
}

#[test]
fn a_gateway_that_fails_results_for_most_of_a_minute_takes_nothing_out_of_a_large_one() {
    let server = server();
    let bad = Foreign { step: "/results", arrived: false, status: 502, body: "<html>502</html>" };
    server.plane().foreign = vec![bad; 1_000];
    let ends = Duration::from_secs(50);
    let (exit, took) = delivered(&server, result(6_000, 9_000, &json!({})), false, |plane, now| {
        if now >= ends {
            plane.foreign.clear();
        }
    });
    assert!(matches!(exit, Exit::Succeeded) && took >= ends, "{exit:?} after {took:?}");
    assert_eq!(parts(&server), [true; 3]);
}

#[test]
fn a_gateway_that_fails_results_for_two_minutes_takes_nothing_out_of_a_small_one() {
    let server = server();
    let bad = Foreign { step: "/results", arrived: false, status: 502, body: "<html>502</html>" };
    server.plane().foreign = vec![bad; 1_000];
    let ends = Duration::from_mins(2);
    let (exit, took) = delivered(&server, result(2_000, 3_000, &json!({})), false, |plane, now| {
        if now >= ends {
            plane.foreign.clear();
        }
    });
    assert!(matches!(exit, Exit::Succeeded) && took >= ends, "{exit:?} after {took:?}");
    assert_eq!(parts(&server), [true; 3]);
}

#[test]
fn a_result_that_is_refused_for_its_size_loses_its_largest_part_after_each_minute() {
    let minute = Duration::from_mins(1);
    for (outputs, log, must_end, least, left) in [
        (3_000, 9_000, false, minute, [true, false, true]),
        (9_000, 3_000, false, minute, [false, true, true]),
        (9_000, 20_000, false, minute * 2, [false, false, true]),
        // A job that must end has no minute.
        (9_000, 20_000, true, Duration::ZERO, [false, false, true]),
    ] {
        let server = server();
        server.plane().largest_request = Some(8 * 1024);
        let body = result(outputs, log, &json!({}));
        let (exit, took) = delivered(&server, body, must_end, |_, _| {});
        assert!(matches!(exit, Exit::Succeeded), "{exit:?}");
        assert!(took >= least && (!must_end || took < minute), "{took:?}, not {least:?}");
        assert_eq!(parts(&server), left, "{outputs} and {log} after {took:?}");
    }
}
