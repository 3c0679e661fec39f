use super::*;

const GOOD: &[u8] = include_bytes!("../../tests/fixtures/events-ok.jsonl");
const BAD: &[u8] = include_bytes!("../../tests/fixtures/events-failed.jsonl");

#[test]
fn a_recorded_run_is_told_resource_by_resource() {
    let mut progress = Progress::default();
    let news = progress.feed(GOOD);
    insta::assert_debug_snapshot!(news);
    assert_eq!(progress.steps(), (3, Some(3)));
    assert_eq!(progress.running().count(), 0);
}

#[test]
fn a_failed_run_says_which_resource_and_why() {
    let mut progress = Progress::default();
    insta::assert_debug_snapshot!(progress.feed(BAD));
    assert_eq!(progress.steps(), (1, Some(2)));
}

#[test]
fn the_stream_may_be_cut_anywhere() {
    let whole = Progress::default().feed(GOOD);
    for size in [1, 7, 1000] {
        let mut progress = Progress::default();
        let news: Vec<News> = GOOD.chunks(size).flat_map(|part| progress.feed(part)).collect();
        assert_eq!(news, whole, "in parts of {size}");
    }
}

#[test]
fn what_is_no_event_is_skipped() {
    let mut progress = Progress::default();
    let noise: [&[u8]; 5] = [
        b"\xff\xfe\n",
        b"{}\n",
        b"[1]\n",
        b"{\"type\":\"new\"}\n",
        b"{\"type\":\"apply_start\"}\n",
    ];
    assert_eq!(progress.feed(&noise.concat()), []);
    assert_eq!(progress.feed(&vec![b'x'; MAX_LINE + 1]), []);
    assert!(progress.rest.is_empty());
}
