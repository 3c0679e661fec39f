use super::request::RequestedSchedule;
use super::*;
use crate::field_error::FieldErrors;
use proptest::prelude::*;
use uuid::Uuid;

const NOW: &str = "2026-11-27T13:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn settings(times: Times, on_missed: OnMissed) -> ScheduleSettings {
    ScheduleSettings { work: ScheduledWork::Deploy { spec: None }, times, enabled: true, on_missed }
}

fn schedule(settings: ScheduleSettings) -> Schedule {
    let (org, project, env) = ("acme", "shop", "dev");
    let uuid = EnvUuid(Uuid::from_u128(1));
    let place = (org.parse().unwrap(), project.parse().unwrap(), env.parse().unwrap(), uuid);
    let author =
        Author { id: PrincipalId(Uuid::from_u128(2)), role: Role::None, scoped_roles: Vec::new() };
    Schedule::new("nightly".parse().unwrap(), place, settings, author, at(NOW))
}

fn hourly(on_missed: OnMissed) -> Schedule {
    schedule(settings(Times::Cron(Cron::parse("@hourly", "UTC").unwrap()), on_missed))
}

fn faults(of: RequestedSchedule<'_>) -> String {
    let mut faults = FieldErrors::default();
    of.parse(at(NOW), &mut faults);
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_schedule_waits_runs_and_skips_what_it_has_missed() {
    let due = at("2026-11-27T14:00:00Z");
    for (on_missed, now, expected) in [
        (OnMissed::Skip, "2026-11-27T13:59:59.999Z", Decision::Wait),
        (OnMissed::Skip, "2026-11-27T14:00:00Z", Decision::Run(due)),
        (OnMissed::Skip, "2026-11-27T14:10:00Z", Decision::Run(due)),
        (OnMissed::Skip, "2026-11-27T14:10:00.001Z", Decision::SkipMissed(due)),
        (OnMissed::RunOnce, "2026-11-27T14:10:00.001Z", Decision::Run(due)),
        (OnMissed::RunOnce, "2026-12-27T14:10:00Z", Decision::Run(due)),
    ] {
        assert_eq!(hourly(on_missed).decide(at(now)), expected, "{on_missed:?} {now}");
    }
}

#[test]
fn however_many_times_were_missed_the_next_due_time_is_after_now() {
    let mut schedule = hourly(OnMissed::RunOnce);
    let (due, now) = (at("2026-11-27T14:00:00Z"), at("2026-11-29T10:30:00Z"));
    schedule.record(due, RunResult::Missed, now);
    assert_eq!(schedule.due_at, Some(at("2026-11-29T11:00:00Z")));
    let run = schedule.history.first().unwrap();
    assert_eq!((run.due_at, run.at, run.skipped.as_deref()), (due, now, Some("missed")));
}

#[test]
fn a_single_time_ends_the_schedule_and_a_disabled_one_is_never_due() {
    let due = at("2026-11-27T15:00:00Z");
    let mut once = schedule(settings(Times::At(due), OnMissed::Skip));
    assert_eq!(once.next_times(3), [due]);
    let id = DeploymentId(Uuid::from_u128(9));
    once.record(due, RunResult::Requested(id), due);
    assert_eq!((once.due_at, once.settings.enabled), (None, false));
    assert_eq!(once.last_deployment, Some(id));
    let off = ScheduleSettings { enabled: false, ..hourly(OnMissed::Skip).settings };
    let off = schedule(off);
    assert_eq!((off.due_at, off.next_times(3).len()), (None, 0));
    assert_eq!(off.decide(at("2030-01-01T00:00:00Z")), Decision::Wait);
}

#[test]
fn the_history_has_the_last_twenty_runs_and_the_last_deployment_outlives_it() {
    let mut schedule = hourly(OnMissed::Skip);
    let id = DeploymentId(Uuid::from_u128(9));
    let mut due = schedule.due_at.unwrap();
    schedule.record(due, RunResult::Requested(id), due);
    for _ in 0..30 {
        due = schedule.due_at.unwrap();
        schedule.record(due, RunResult::PreviousStillRunning, due);
    }
    schedule.record(due, RunResult::Refused("x".repeat(1_000)), due);
    assert_eq!(schedule.history.len(), 20);
    assert_eq!(schedule.history[0].skipped.as_ref().unwrap().len(), 300);
    assert_eq!(schedule.history[1].skipped.as_deref(), Some("previous_still_running"));
    assert_eq!(schedule.last_deployment, Some(id));
}

#[test]
fn a_replacement_keeps_the_due_time_if_the_times_stay() {
    let every = |seconds| settings(Times::Every { seconds, from: at(NOW) }, OnMissed::Skip);
    let before = schedule(every(3_600));
    let author = before.author.clone();
    let now = at("2026-11-27T13:40:00Z");
    let given = |seconds| ScheduleSettings {
        on_missed: OnMissed::RunOnce,
        ..settings(Times::Every { seconds, from: now }, OnMissed::Skip)
    };
    let same = before.replaced(given(3_600), author.clone(), now);
    assert_eq!(same.due_at, Some(at("2026-11-27T14:00:00Z")));
    assert_eq!((same.version, same.created_at), (2, before.created_at));
    let other = before.replaced(given(7_200), author.clone(), now);
    assert_eq!(other.due_at, Some(at("2026-11-27T15:40:00Z")));
    let off = before.replaced(ScheduleSettings { enabled: false, ..given(3_600) }, author, now);
    assert_eq!(off.due_at, None);
}

#[test]
fn its_principal_deploys_to_its_environment_alone_and_reads_what_its_author_read() {
    let mut schedule = hourly(OnMissed::Skip);
    let reads = ScopedRole::new(Role::Viewer).in_project("tools".parse().unwrap());
    schedule.author.scoped_roles = vec![reads.clone()];
    let by = schedule.principal(OrgUuid(Uuid::from_u128(3)));
    assert_eq!(by.id, schedule.author.id);
    let role = |project: &str, env: &str| {
        let (project, env) = (project.parse().unwrap(), env.parse().unwrap());
        let target = crate::scoped_role::Target::Environment {
            project: &project,
            env: &env,
            env_type: None,
        };
        by.role_in(target)
    };
    assert_eq!(role("shop", "dev"), Role::Deployer);
    assert_eq!(role("shop", "prod"), Role::None);
    assert_eq!(role("tools", "dev"), Role::Viewer);
}

#[test]
fn a_stored_schedule_reads_back() {
    let schedules = [
        hourly(OnMissed::RunOnce),
        schedule(settings(Times::At(at("2027-01-01T00:00:00Z")), OnMissed::Skip)),
        schedule(ScheduleSettings {
            work: ScheduledWork::Destroy,
            ..settings(Times::Every { seconds: 300, from: at(NOW) }, OnMissed::Skip)
        }),
        schedule(ScheduleSettings {
            work: ScheduledWork::Drift { reconcile: true },
            ..settings(Times::Every { seconds: 900, from: at(NOW) }, OnMissed::Skip)
        }),
        schedule(ScheduleSettings {
            work: ScheduledWork::ContainerCheck { resource: "s3#photos".parse().unwrap() },
            ..settings(Times::Every { seconds: 300, from: at(NOW) }, OnMissed::Skip)
        }),
    ];
    for schedule in schedules {
        let stored = serde_json::to_string(&schedule).unwrap();
        assert_eq!(serde_json::from_str::<Schedule>(&stored).unwrap(), schedule, "{stored}");
    }
}

#[test]
fn one_answer_names_every_fault() {
    let deploy = || RequestedSchedule { kind: "deploy", ..RequestedSchedule::default() };
    let cases = [
        deploy(),
        RequestedSchedule {
            kind: "action",
            cron: Some("* * * * * *"),
            timezone: Some("Mars"),
            on_missed: Some("never"),
            reconcile: Some(true),
            spec: Some("{}".into()),
            ..deploy()
        },
        RequestedSchedule { at: Some("2026-11-27T13:00:00Z"), ..deploy() },
        RequestedSchedule { at: Some("2026-11-27T14:00:00+02:00"), ..deploy() },
        RequestedSchedule { at: Some("tomorrow"), timezone: Some("UTC"), ..deploy() },
        RequestedSchedule { at: Some("2036-11-27T13:00:00Z"), ..deploy() },
        RequestedSchedule { every_seconds: Some(299), ..deploy() },
        RequestedSchedule { kind: "drift", every_seconds: Some(300), ..deploy() },
        RequestedSchedule { every_seconds: Some(u32::MAX), kind: "", ..deploy() },
        RequestedSchedule { kind: "drift", cron: Some("*/10 * * * *"), ..deploy() },
        RequestedSchedule { every_seconds: Some(300), cron: Some("@daily"), ..deploy() },
        RequestedSchedule { every_seconds: Some(300), spec: Some(" ".repeat(65_537)), ..deploy() },
    ];
    insta::assert_snapshot!(cases.map(faults).join("\n"));
}

#[test]
fn a_good_request_is_parsed() {
    let mut faults = FieldErrors::default();
    let given = RequestedSchedule {
        kind: "drift",
        cron: Some("0 4 * * MON-FRI"),
        timezone: Some("europe/berlin"),
        reconcile: Some(true),
        on_missed: Some("run_once"),
        enabled: Some(false),
        ..RequestedSchedule::default()
    };
    let parsed = given.parse(at(NOW), &mut faults).unwrap();
    assert!(faults.is_empty());
    assert_eq!(parsed.work, ScheduledWork::Drift { reconcile: true });
    let Times::Cron(cron) = &parsed.times else { panic!("{parsed:?}") };
    assert_eq!((cron.expression(), cron.timezone()), ("0 4 * * MON-FRI", "Europe/Berlin"));
    assert_eq!((parsed.enabled, parsed.on_missed), (false, OnMissed::RunOnce));
}

#[test]
fn a_check_of_a_resource_names_it_in_its_spec_and_nothing_else() {
    let parse = |spec: Option<&str>| {
        let mut faults = FieldErrors::default();
        let spec = spec.map(str::to_owned);
        let given = RequestedSchedule {
            kind: "container-check",
            every_seconds: Some(300),
            spec,
            ..RequestedSchedule::default()
        };
        let work = given.parse(at(NOW), &mut faults).map(|settings| settings.work);
        let faults: Vec<_> = faults.iter().map(|fault| fault.path.clone()).collect();
        (work, faults.join(" "))
    };
    let resource = "s3.default#photos".parse().unwrap();
    let expected = Some(ScheduledWork::ContainerCheck { resource });
    assert_eq!(parse(Some(r#"{"resource": "s3#photos"}"#)), (expected, String::new()));
    for (spec, paths) in [
        (None, "spec.resource"),
        (Some("{}"), "spec.resource"),
        (Some("[]"), "spec"),
        (Some(r#"{"resource": 1}"#), "spec.resource"),
        (Some(r#"{"resource": "S3"}"#), "spec.resource"),
    ] {
        assert_eq!(parse(spec), (None, paths.to_owned()), "{spec:?}");
    }
    let unknown = parse(Some(r#"{"resource": "s3#photos", "container": {}}"#));
    assert_eq!(unknown.1, "spec.container");
}

proptest! {
    #[test]
    fn even_distances_stay_even(seconds in 1..40_000_u32, milli in 0..1_000_i64, ahead in 0..9_000_000_i64) {
        let from = at(NOW) + SignedDuration::from_millis(milli);
        let times = Times::Every { seconds, from };
        let after = at(NOW) + SignedDuration::from_millis(ahead);
        let next = times.next_after(after).unwrap();
        let distance = next.duration_since(from).as_millis();
        prop_assert!(next > after && distance % (i128::from(seconds) * 1_000) == 0);
        let before = next - SignedDuration::from_secs(seconds.into());
        prop_assert!(before <= after || before == from, "{} {}", before, after);
    }
}
