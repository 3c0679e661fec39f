use super::*;
use crate::cron::Cron;
use crate::ids::{DeploymentId, EnvUuid};
use crate::principal::Role;
use crate::schedule::{Author, Decision, OnMissed, RunResult, ScheduleSettings, Times};
use uuid::Uuid;

const NOW: &str = "2026-11-27T13:00:00Z";
/// 30 hours after [`NOW`].
const DUE: &str = "2026-11-28T19:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn settings(work: ScheduledWork, times: Times) -> ScheduleSettings {
    ScheduleSettings { work, times, enabled: true, on_missed: OnMissed::Skip }
}

fn schedule(work: ScheduledWork, times: Times) -> Schedule {
    let uuid = EnvUuid(Uuid::from_u128(1));
    let place = ("acme".parse().unwrap(), "shop".parse().unwrap(), "dev".parse().unwrap(), uuid);
    let id = PrincipalId(Uuid::from_u128(2));
    let author = Author { id, role: Role::None, scoped_roles: Vec::new() };
    let settings = settings(work, times);
    Schedule::new("friday".parse().unwrap(), place, settings, author, at(NOW))
}

fn destroy_at(due: &str) -> Schedule {
    schedule(ScheduledWork::Destroy, Times::At(at(due)))
}

fn announce(due_at: &str, lead: Lead) -> Decision {
    Decision::Announce(Announcement { due_at: at(due_at), lead })
}

#[test]
fn a_destruction_is_announced_a_day_and_an_hour_before_each_once_and_then_it_runs() {
    let mut schedule = destroy_at(DUE);
    for (now, expected) in [
        ("2026-11-27T18:59:59.999Z", Decision::Wait),
        ("2026-11-27T19:00:00Z", announce(DUE, Lead::Day)),
        ("2026-11-27T19:00:01Z", Decision::Wait),
        ("2026-11-28T17:59:59Z", Decision::Wait),
        ("2026-11-28T18:00:30Z", announce(DUE, Lead::Hour)),
        ("2026-11-28T18:00:31Z", Decision::Wait),
        (DUE, Decision::Run(at(DUE))),
    ] {
        let now = at(now);
        let decision = schedule.decide(now);
        assert_eq!(decision, expected, "at {now}");
        let is_due = schedule.wakes_at().is_some_and(|wakes_at| wakes_at <= now);
        assert_eq!(is_due, expected != Decision::Wait, "the index at {now}");
        if matches!(decision, Decision::Announce(_)) {
            schedule.record_announcement(now);
        }
    }
}

#[test]
fn a_new_schedule_announces_what_is_left_and_only_one_that_destroys() {
    for (due, expected) in [
        ("2026-11-29T13:00:00Z", Some("2026-11-28T13:00:00Z")),
        ("2026-11-28T13:00:00Z", Some(NOW)),
        ("2026-11-28T12:59:59Z", Some("2026-11-28T11:59:59Z")),
        ("2026-11-27T13:59:59Z", None),
    ] {
        let schedule = destroy_at(due);
        assert_eq!(schedule.next_announcement, expected.map(at), "{due}");
        assert_eq!(schedule.wakes_at(), Some(expected.map_or(at(due), at)), "{due}");
    }
    let others = [
        ScheduledWork::Drift { reconcile: false },
        ScheduledWork::Deploy { spec: None },
        ScheduledWork::ContainerCheck { resource: "s3#photos".parse().unwrap() },
    ];
    for work in others {
        assert_eq!(schedule(work, Times::At(at(DUE))).wakes_at(), Some(at(DUE)));
    }
}

#[test]
fn of_missed_announcements_the_last_is_made_and_a_due_time_comes_first() {
    for (now, expected) in [
        ("2026-11-28T09:00:00Z", announce(DUE, Lead::Day)),
        ("2026-11-28T18:30:00Z", announce(DUE, Lead::Hour)),
        ("2026-11-28T19:05:00Z", Decision::Run(at(DUE))),
    ] {
        assert_eq!(destroy_at(DUE).decide(at(now)), expected, "{now}");
    }
}

#[test]
fn an_announcement_that_cannot_be_published_is_given_up_after_ten_minutes() {
    let announcement = Announcement { due_at: at(DUE), lead: Lead::Hour };
    assert!(!announcement.is_overdue(at("2026-11-28T18:10:00Z")));
    assert!(announcement.is_overdue(at("2026-11-28T18:10:00.001Z")));
}

#[test]
fn a_daily_destruction_is_announced_a_day_before_right_after_the_one_before() {
    let daily = Times::Cron(Cron::parse("0 20 * * *", "UTC").unwrap());
    let mut schedule = schedule(ScheduledWork::Destroy, daily);
    let due = at("2026-11-27T20:00:00Z");
    assert_eq!(schedule.next_announcement, Some(at("2026-11-27T19:00:00Z")));
    let id = DeploymentId(Uuid::from_u128(9));
    schedule.record(due, RunResult::Requested(id), at("2026-11-27T20:00:20Z"));
    let next = "2026-11-28T20:00:00Z";
    assert_eq!(schedule.decide(at("2026-11-27T20:00:21Z")), announce(next, Lead::Day));
    // After an outage it is too late to say that a day is left.
    schedule.record(at(next), RunResult::Missed, at("2026-11-29T09:00:00Z"));
    assert_eq!(schedule.next_announcement, Some(at("2026-11-29T19:00:00Z")));
}

#[test]
fn a_replacement_announces_what_is_left_of_its_own_time_and_repeats_nothing() {
    let mut before = destroy_at(DUE);
    let now = at("2026-11-27T19:00:10Z");
    let to = |of: &Schedule, work, due: &str| {
        of.replaced(settings(work, Times::At(at(due))), of.author.clone(), now).next_announcement
    };
    let (destroy, deploy) = (ScheduledWork::Destroy, ScheduledWork::Deploy { spec: None });
    let late = Some(at("2026-11-27T19:00:00Z"));
    assert_eq!(to(&before, destroy.clone(), DUE), late, "a pass has not come yet");
    before.record_announcement(now);
    let hour = Some(at("2026-11-28T18:00:00Z"));
    assert_eq!(to(&before, destroy.clone(), DUE), hour);
    assert_eq!(
        to(&before, destroy.clone(), "2026-12-01T00:00:00Z"),
        Some(at("2026-11-30T00:00:00Z"))
    );
    assert_eq!(to(&before, deploy.clone(), DUE), None);
    let was_deploy = schedule(deploy, Times::At(at(DUE)));
    assert_eq!(to(&was_deploy, destroy, DUE), hour);
    let settings = ScheduleSettings { enabled: false, ..before.settings.clone() };
    let off = before.replaced(settings, before.author.clone(), now);
    assert_eq!((off.next_announcement, off.wakes_at()), (None, None));
}

#[test]
fn a_schedule_of_an_earlier_version_is_read_and_announces_from_its_next_due_time_on() {
    let weekly = Times::Cron(Cron::parse("0 20 * * FRI", "UTC").unwrap());
    let new = schedule(ScheduledWork::Destroy, weekly);
    let mut stored = serde_json::to_value(&new).unwrap();
    assert!(stored.as_object_mut().unwrap().remove("next_announcement").is_some());
    let mut old: Schedule = serde_json::from_value(stored).unwrap();
    let due = at("2026-11-27T20:00:00Z");
    assert_eq!((old.wakes_at(), old.next_announcement), (Some(due), None));
    old.record(due, RunResult::Missed, due);
    assert_eq!(old.next_announcement, Some(at("2026-12-03T20:00:00Z")));
}

#[test]
fn an_event_has_the_same_id_each_time_and_another_for_each_announcement() {
    let schedule = destroy_at(DUE);
    let event = |lead, now: &str| {
        DestroyAnnounced::new(&schedule, Announcement { due_at: at(DUE), lead }, at(now))
    };
    let day = event(Lead::Day, NOW);
    let expected = "00000000-0000-0000-0000-000000000001.friday.1795892400.announced.86400";
    assert_eq!(day.id, expected);
    assert_eq!(event(Lead::Day, DUE).id, expected);
    assert_ne!(event(Lead::Hour, NOW).id, expected);
    assert_eq!((day.due_at, day.lead_seconds, day.at), (at(DUE), 86_400, at(NOW)));
}
