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

/// A running deployment whose last phase that the server has stored is `phase`.
fn running(attempt: u32, phase: &str) -> Deployment {
    let id = "01970000-0000-7000-8000-000000000001";
    let attempt = serde_json::json!({
        "number": attempt, "status": "running", "phase": phase, "launched_at": "2026-01-01T00:00:00Z",
    });
    serde_json::from_value(serde_json::json!({
        "org_id": "local", "project_id": "shop", "env_id": "dev", "id": id, "created_at": "2026-01-01T00:00:00Z",
        "created_by": id, "mode": "deploy", "plan_only": false, "status": "running", "status_message": "",
        "runner_id": "laptop", "metrics": {"num_workloads": 0, "num_resource_nodes": 0}, "attempts": [attempt],
    }))
    .unwrap()
}

#[test]
fn the_stage_follows_the_events_where_the_server_stores_no_phase() {
    let lines: Vec<&[u8]> = GOOD.split_inclusive(|byte| *byte == b'\n').collect();
    let mut progress = Progress::default();
    progress.update_status(&running(1, "fetch"));
    let mut stages = vec![progress.stage().to_owned()];
    for line in lines {
        progress.feed(line);
        progress.update_status(&running(1, "fetch"));
        if stages.last().unwrap() != progress.stage() {
            stages.push(progress.stage().to_owned());
        }
    }
    assert_eq!(stages, ["fetching the module", "initializing", "planning", "applying"]);
    progress.update_status(&running(2, "fetch"));
    assert_eq!(progress.stage(), "attempt 2: fetching the module");
}

#[test]
fn a_container_job_prepares_and_runs_its_program() {
    let mut progress = Progress::default();
    let stage = |progress: &mut Progress, phase: &str| {
        progress.update_status(&Deployment { kind: "container".to_owned(), ..running(1, phase) });
        progress.stage().to_owned()
    };
    assert_eq!(stage(&mut progress, "fetch"), "preparing the container");
    assert_eq!(stage(&mut progress, "apply"), "running the program");
}

#[test]
fn the_plan_is_shown_before_the_apply_that_the_server_tells_of_sooner() {
    let mut progress = Progress::default();
    progress.update_status(&running(1, "fetch"));
    let shown = progress.update_status(&running(1, "apply"));
    assert_eq!(shown, [Notice::Stage("planning".to_owned())]);
    let mut lines = GOOD.split_inclusive(|byte| *byte == b'\n');
    let notices: Vec<_> = lines.by_ref().flat_map(|line| progress.feed(line)).collect();
    let at = |wanted: &Notice| notices.iter().position(|notice| notice == wanted).unwrap();
    let plan = Notice::Planned("plan: 3 to add, 0 to change, 0 to destroy".to_owned());
    assert!(at(&plan) < at(&Notice::Stage("applying".to_owned())), "{notices:?}");
    // An apply whose plan is not in the events, as of an import, is shown soon too.
    let mut progress = Progress::default();
    progress.update_status(&running(1, "apply"));
    let shown = progress.update_status(&running(1, "apply"));
    assert_eq!(shown, [Notice::Stage("applying".to_owned())]);
}
