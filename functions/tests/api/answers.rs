//! The size of answers: compressed for clients that accept it, and never larger than Lambda allows.

use crate::harness::{Api, message};
use crate::job::{Job, Raw, furnished, raw, request};
use canyon_store::blob_keys::{BlobKey, Stream};
use flate2::read::GzDecoder;
use reqwest::Method;
use serde_json::{Value, json};
use std::io::Read as _;

/// Lambda's limit for an answer, including its headers.
const LAMBDA: usize = 6_000_000;

/// The body in Lambda's answer: text as a JSON string, everything else in base64.
fn in_lambda(answer: &Raw) -> usize {
    let kind = answer.headers["content-type"].to_str().unwrap();
    let is_text = kind.starts_with("text/") || kind.starts_with("application/json");
    if is_text && !answer.headers.contains_key("content-encoding") {
        return serde_json::to_string(std::str::from_utf8(&answer.body).unwrap()).unwrap().len();
    }
    answer.body.len().div_ceil(3) * 4
}

async fn read(api: &Api, path: &str, encoding: &str) -> Raw {
    let request = request(api, &api.ours.viewer, Method::GET, path);
    raw(request.header("accept-encoding", encoding)).await
}

#[tokio::test]
async fn what_is_large_and_text_comes_in_gzip_to_those_who_take_it() {
    let api = Api::start().await;
    for n in 0..20 {
        api.make("/projects", json!({ "id": format!("project-{n}") })).await;
    }
    let plain = read(&api, "/projects", "identity").await;
    assert!(!plain.headers.contains_key("content-encoding"));
    let packed = read(&api, "/projects", "br;q=1, gzip;q=0.5").await;
    assert_eq!(packed.headers["content-encoding"], "gzip");
    assert!(packed.headers["vary"].to_str().unwrap().contains("accept-encoding"));
    assert!(packed.body.len() * 2 < plain.body.len(), "{}", packed.body.len());
    let mut unpacked = Vec::new();
    GzDecoder::new(packed.body.as_slice()).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
    // Too small for compression.
    let small = read(&api, "/projects/project-1", "gzip").await;
    assert!(small.status == 200 && !small.headers.contains_key("content-encoding"));
}

#[tokio::test]
async fn a_body_in_gzip_is_refused_in_words() {
    let api = Api::start().await;
    let request = request(&api, &api.ours.admin, Method::POST, "/projects");
    let body = vec![0x1f, 0x8b, 8, 0];
    let request = request.header("content-type", "application/json");
    let refused = raw(request.header("content-encoding", "gzip").body(body)).await;
    let body: Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(refused.status, 415);
    assert!(message(&(415, body)).contains("Content-Encoding"));
}

/// Stores `log` as a runner would have stored it.
async fn store(api: &Api, job: &Job, log: &[u8]) {
    for (n, piece) in log.chunks(128 * 1024).enumerate() {
        let offset = (n * 128 * 1024) as u64;
        let key = BlobKey::chunk(api.ours.uuid, job.deployment(), Stream::Log, offset);
        api.app.blobs.put_if_absent(&key, piece.to_vec().into()).await.unwrap();
    }
}

#[tokio::test]
async fn a_log_of_any_length_and_content_is_cut_to_what_fits_and_read_on_from_there() {
    let units: [&[u8]; 4] =
        [b"a line\n", b"\x1b[1m\x1b[0m\n", "日本語\n".as_bytes(), b"\xff\xfe\x00\x01"];
    for unit in units {
        let api = furnished().await;
        let job = Job::start(&api).await;
        let log = unit.repeat(7_000_000 / unit.len());
        store(&api, &job, &log).await;
        for encoding in ["identity", "gzip"] {
            let path = format!("/deployments/{}/actions/get-logs", job.id);
            let whole = read(&api, &path, encoding).await;
            assert_eq!(whole.status, 200);
            assert!(in_lambda(&whole) < LAMBDA, "{unit:?} {encoding} {}", in_lambda(&whole));
            let is_text = std::str::from_utf8(unit).is_ok();
            let kind = whole.headers["content-type"].to_str().unwrap();
            assert_eq!(kind.starts_with("text/plain"), is_text, "{unit:?} {kind}");
        }
        let path = format!("/deployments/{}/actions/get-logs", job.id);
        let whole = read(&api, &path, "identity").await;
        // Not less than necessary: a sixth of the limit is the worst case.
        assert!(in_lambda(&whole) > LAMBDA / 2 && log.starts_with(&whole.body), "{unit:?}");
        let next = whole.headers["canyon-next-offset"].to_str().unwrap();
        assert_eq!(next, whole.body.len().to_string());
        let path = format!("/deployments/{}/logs?offset={next}", job.id);
        let rest = read(&api, &path, "identity").await;
        assert!(log[whole.body.len()..].starts_with(&rest.body) && !rest.body.is_empty());
        assert!(in_lambda(&rest) < LAMBDA);
    }
}

#[tokio::test]
async fn a_list_of_large_things_comes_in_more_pages_and_nothing_is_left_out() {
    let api = Api::start().await;
    let mut expected = Vec::new();
    for n in 0..20 {
        let id = format!("runner-{n:02}");
        // Quotes take twice their size in JSON, and twice that in Lambda's JSON.
        let note = "\"".repeat(60_000);
        let body = json!({
            "id": id,
            "runner_configuration": {
                "type": "kubernetes",
                "cluster": {
                    "cluster_data": {
                        "server": "https://cluster.example:6443",
                        "certificate_authority_data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==",
                    },
                    "auth": { "service_account_token": "very-secret-token" },
                },
                "job": {
                    "namespace": "canyon",
                    "service_account": "canyon",
                    "pod_template": { "metadata": { "annotations": { "note": note } } },
                },
            },
            "state_storage_configuration": { "type": "kubernetes", "namespace": "canyon" },
        });
        api.make("/runners", body).await;
        expected.push(id);
    }
    let mut found: Vec<String> = Vec::new();
    let mut page = String::new();
    loop {
        let answer = read(&api, &format!("/runners?per_page=100{page}"), "identity").await;
        assert!(answer.status == 200 && in_lambda(&answer) < LAMBDA, "{}", in_lambda(&answer));
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        let items = body["items"].as_array().unwrap();
        found.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        let Some(next) = body["next_page_token"].as_str() else { break };
        page = format!("&page={next}");
    }
    assert!(!page.is_empty(), "all of it came in one page");
    assert_eq!(found, expected);
}

#[tokio::test]
async fn keys_and_discovery_are_kept_by_their_readers_for_a_while_and_known_again() {
    let api = Api::start().await;
    for path in [
        "/.well-known/jwks",
        "/.well-known/openid-configuration",
        "/jobs/.well-known/jwks",
        "/jobs/.well-known/openid-configuration",
    ] {
        let ask = async |tag: Option<&str>| {
            let mut request = api.http.get(format!("{}{path}", api.url));
            if let Some(tag) = tag {
                request = request.header("if-none-match", tag);
            }
            raw(request).await
        };
        let first = ask(None).await;
        let kept = first.headers["cache-control"].to_str().unwrap();
        assert_eq!(kept, "public, max-age=300, stale-while-revalidate=300");
        let tag = first.headers["etag"].to_str().unwrap();
        let again = ask(Some(tag)).await;
        assert_eq!((again.status, again.body.len()), (304, 0));
        assert_eq!(
            (&again.headers["etag"], again.headers["cache-control"].to_str().unwrap()),
            (&first.headers["etag"], kept)
        );
        assert_eq!(ask(Some("W/\"other\"")).await.status, 200);
    }
}
