use super::*;

const GOOD: &[u8] = include_bytes!("../../tests/fixtures/events-ok.jsonl");
const BAD: &[u8] = include_bytes!("../../tests/fixtures/events-failed.jsonl");

#[test]
fn a_recorded_run_is_reported_resource_by_resource() {
    let mut progress = Progress::default();
    let notices = progress.feed(GOOD);
    insta::assert_debug_snapshot!(notices);
    assert_eq!(progress.steps(), (3, Some(3)));
    assert_eq!(progress.running().count(), 0);
}

#[test]
fn a_failed_run_names_the_resource_and_the_reason() {
    let mut progress = Progress::default();
    insta::assert_debug_snapshot!(progress.feed(BAD));
    assert_eq!(progress.steps(), (1, Some(2)));
}

/// OpenTofu 1.12 prints a summary of a plan whose precondition failed: without changes, or with others'.
const FAILED_PLAN: &[u8] = include_bytes!("../../tests/fixtures/events-plan-failed.jsonl");

#[test]
fn a_failed_plan_is_not_summed_up() {
    for changes in ["\"add\":0", "\"add\":2"] {
        let text = String::from_utf8(FAILED_PLAN.to_vec()).unwrap().replace("\"add\":0", changes);
        let mut progress = Progress::default();
        let mut notices = progress.feed(text.as_bytes());
        notices.extend(progress.end());
        let [Notice::Diagnostic(error)] = notices.as_slice() else { panic!("{notices:?}") };
        assert!(error.contains("Resource precondition failed"), "{error}");
        assert_eq!(progress.steps(), (0, None));
    }
    // An error of an encrypted run has only its severity.
    let mut progress = Progress::default();
    let lines: [&[u8]; 2] = [
        b"{\"type\":\"change_summary\",\"changes\":{\"add\":0,\"change\":0,\"remove\":0,\"operation\":\"plan\"}}\n",
        b"{\"type\":\"diagnostic\",\"diagnostic\":{\"severity\":\"error\"}}\n",
    ];
    assert_eq!((progress.feed(&lines.concat()), progress.end()), (vec![], vec![]));
    assert_eq!(progress.feed(lines[0]), []);
    assert_eq!(progress.end(), [Notice::Planned("plan: no changes".to_owned())]);
}

#[test]
fn a_plan_counts_imported_and_forgotten_resources_as_changes() {
    let mut progress = Progress::default();
    let line = br#"{"type":"change_summary","changes":{"add":0,"change":0,"import":1,"remove":0,"forget":2,"operation":"plan"}}"#;
    let mut notices = progress.feed(&[line.as_slice(), b"\n"].concat());
    notices.extend(progress.end());
    let plan = "plan: 0 to add, 0 to change, 0 to destroy, 1 to import, 2 to forget";
    assert_eq!(notices, [Notice::Planned(plan.to_owned())]);
}

#[test]
fn the_stream_may_be_cut_anywhere() {
    let whole = Progress::default().feed(GOOD);
    for size in [1, 7, 1000] {
        let mut progress = Progress::default();
        let notices: Vec<Notice> = GOOD.chunks(size).flat_map(|part| progress.feed(part)).collect();
        assert_eq!(notices, whole, "in parts of {size}");
    }
}

#[test]
fn lines_that_are_not_events_are_skipped() {
    let mut progress = Progress::default();
    let noise: [&[u8]; 5] = [
        b"\xff\xfe\n",
        b"{}\n",
        b"[1]\n",
        b"{\"type\":\"new\"}\n",
        b"{\"type\":\"apply_start\"}\n",
    ];
    assert_eq!(progress.feed(&noise.concat()), []);
}

#[test]
fn a_message_of_a_module_begins_no_line_as_canyon_does() {
    let forged = r#"{"type":"diagnostic","diagnostic":{"severity":"warning","summary":"no","detail":"\nerror: deployment failed\nstatus succeeded"}}"#;
    let mut progress = Progress::default();
    let notices = progress.feed(format!("{forged}\n").as_bytes());
    let [Notice::Diagnostic(text)] = notices.as_slice() else { panic!("{notices:?}") };
    assert!(text.lines().skip(1).all(|line| line.starts_with("  ")), "{text}");
    let own = r#"{"@module":"canyon.runner","type":"diagnostic","diagnostic":{"severity":"warning","summary":"own"}}"#;
    let notices = progress.feed(format!("{own}\n").as_bytes());
    assert_eq!(notices, [Notice::Diagnostic("warning: own".to_owned())]);
}
