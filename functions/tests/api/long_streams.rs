//! Streams of a run that are long, or made of very many pieces.

use crate::harness::Api;
use crate::job::{Job, deploy, furnished, piece, raw, request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_api::sealed_log::{decode_frames, encode_frame};
use canyon_functions::http::HttpSettings;
use canyon_store::blob_keys::Stream;
use canyon_store::blobs::Blobs;
use canyon_store::streams::{MAX_STREAM, StreamRef};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;

/// A part of a stream, and its next offset.
async fn read(api: &Api, id: &str, stream: &str, offset: u64) -> (Vec<u8>, u64) {
    let path = format!("/deployments/{id}/logs?stream={stream}&offset={offset}");
    let answer = raw(request(api, &api.ours.viewer, Method::GET, &path)).await;
    assert_eq!(answer.status, 200);
    let next = answer.headers["canyon-next-offset"].to_str().unwrap().parse().unwrap();
    (answer.body, next)
}

/// A stream of this job whose first piece is `begin`, and which is full except for its last 4 bytes.
async fn nearly_full(api: &Api, job: &Job, stream: Stream, begin: &[u8]) -> StreamRef {
    let of = StreamRef { org: api.ours.uuid, deployment: job.deployment(), stream };
    let last = MAX_STREAM - 100;
    for (offset, bytes) in [(0, begin.to_vec()), (last, vec![b'.'; 96])] {
        api.app.blobs.put_if_absent(&of.key(offset), bytes.into()).await.unwrap();
    }
    of
}

fn of_stream(stream: &str, offset: u64, data: &[u8]) -> Value {
    json!({ "stream": stream, "offset": offset, "data": STANDARD.encode(data) })
}

#[tokio::test]
async fn sixteen_chunks_of_a_report_are_stored_and_the_answer_has_the_next_offset() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    let pieces: Vec<_> = (0..40_u64).map(|at| piece(at, b"x")).collect();
    let mut at = 0;
    for end in [16, 32, 40] {
        let (status, answer) = job.report(&api, "plan", json!(pieces[at..])).await;
        assert_eq!((status, &answer["offsets"]["log"]), (200, &json!(end)), "{answer}");
        at = end;
    }
    // A result is not sent again: it counts, whatever pieces it has.
    let more: Vec<_> = (40..80_u64).map(|at| piece(at, b"x")).collect();
    assert_eq!(job.result(&api, json!({ "status": "success", "chunks": more })).await.0, 204);
    assert_eq!(read(&api, &job.id, "log", 0).await, (vec![b'x'; 56], 56));
}

#[tokio::test]
async fn a_log_of_many_small_pieces_is_read_in_parts_that_join() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    let of = StreamRef { org: api.ours.uuid, deployment: job.deployment(), stream: Stream::Log };
    let mut written = Vec::new();
    for number in 0..600 {
        let line = format!("line {number}\n");
        let key = of.key(written.len() as u64);
        api.app.blobs.put_if_absent(&key, line.clone().into()).await.unwrap();
        written.extend(line.into_bytes());
    }
    let (mut log, mut parts, mut at) = (Vec::new(), 0, 0);
    loop {
        let (part, next) = read(&api, &job.id, "log", at).await;
        if part.is_empty() {
            break;
        }
        log.extend(part);
        (parts, at) = (parts + 1, next);
    }
    assert!(log == written && parts == 3, "{} of {} bytes in {parts}", log.len(), written.len());
}

#[tokio::test]
async fn a_result_with_more_pieces_than_are_stored_still_ends_its_run() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    nearly_full(&api, &job, Stream::Log, b"begin").await;
    let end = MAX_STREAM - 4;
    let pieces: Vec<_> = (0..20).map(|at| of_stream("log", end + at * 8, b"12345678")).collect();
    let result = json!({ "status": "success", "chunks": pieces });
    assert_eq!(job.result(&api, result).await.0, 204);
    let (_, deployment) = api.get(&format!("/deployments/{}", job.id)).await;
    assert_eq!(deployment["status"], "succeeded", "{deployment}");
    let (said, _) = read(&api, &job.id, "log", end).await;
    assert!(String::from_utf8(said).unwrap().starts_with("1234\ncanyon: the log is longer"));
}

#[tokio::test]
async fn a_whole_log_of_very_many_chunks_has_the_offset_of_the_rest() {
    let mut api = furnished().await;
    let store = Blobs::new(Arc::new(object_store::memory::InMemory::new()));
    let change = |mut app: canyon_functions::App| {
        app.blobs = store;
        app
    };
    api.serve_again(change, &HttpSettings::default()).await;
    let id = deploy(&api).await;
    let deployment = id.parse().unwrap();
    let of = StreamRef { org: api.ours.uuid, deployment, stream: Stream::Log };
    for at in 0..9_000 {
        api.app.blobs.put_if_absent(&of.key(at), "x".into()).await.unwrap();
    }
    let path = format!("/deployments/{id}/actions/get-logs");
    let answer = raw(request(&api, &api.ours.viewer, Method::GET, &path)).await;
    assert_eq!((answer.status, answer.body.len()), (200, 32 * 256));
    assert_eq!(answer.headers["canyon-next-offset"], "8192");
    assert_eq!(read(&api, &id, "log", 8_192).await, (vec![b'x'; 256], 8_448));
}

#[tokio::test]
async fn output_beyond_the_largest_stream_is_dropped_and_the_stream_notes_it() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    let end = MAX_STREAM - 4;
    for (name, stream) in [("log", Stream::Log), ("events", Stream::Events)] {
        nearly_full(&api, &job, stream, b"begin").await;
        let cut = json!([of_stream(name, end, b"kept, and dropped")]);
        for _ in 0..2 {
            let answer = job.report(&api, "apply", cut.clone()).await.1;
            assert_eq!(answer["offsets"][name], end + 17, "acknowledged: {answer}");
        }
        // A runner sends smaller pieces again when an answer was lost.
        let smaller = json!([of_stream(name, end, b"kept, an")]);
        let answer = job.report(&api, "apply", smaller).await.1;
        assert_eq!(answer["offsets"][name], end + 8, "{answer}");
        let more = json!([of_stream(name, end + 17, b"dropped")]);
        let answer = job.report(&api, "apply", more).await.1;
        assert_eq!(answer["offsets"][name], end + 24, "{answer}");
        let (said, next) = read(&api, &job.id, name, end).await;
        let said = String::from_utf8(said).unwrap();
        let (kept, line) = said.split_once('\n').unwrap();
        assert_eq!((kept, line.lines().count()), ("kept", 1), "{said}");
        assert!(line.contains("1 GiB") && line.contains("does not keep"), "{said}");
        assert_eq!(read(&api, &job.id, name, next).await, (Vec::new(), next), "nothing follows");
        if name == "events" {
            let event: Value = serde_json::from_str(line).unwrap();
            assert_eq!(event["@level"], "warn");
        }
    }
    job.succeed(&api).await;
}

#[tokio::test]
async fn an_encrypted_log_that_is_cut_has_whole_frames_and_no_plain_text() {
    let api = furnished().await;
    let job = Job::start(&api).await;
    let of = nearly_full(&api, &job, Stream::Log, &encode_frame(b"sealed")).await;
    let piece = json!([piece(MAX_STREAM - 4, b"0123456789")]);
    let answer = job.report(&api, "apply", piece).await.1;
    assert_eq!(answer["offsets"]["log"], MAX_STREAM + 6, "{answer}");
    assert_eq!(api.app.blobs.stream_end(of).await.unwrap(), MAX_STREAM);
    let begin = read(&api, &job.id, "log", 0).await.0;
    assert_eq!(decode_frames(&begin).unwrap().0, [b"sealed"]);
}
