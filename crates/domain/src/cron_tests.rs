use super::*;
use jiff::ToSpan as _;
use jiff::civil::date;
use proptest::prelude::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn times(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let cron = Cron::parse(expression, zone).unwrap();
    let next = |before: &Timestamp| cron.next_after(*before);
    std::iter::successors(next(&at(after)), next).take(count).map(|at| at.to_string()).collect()
}

#[test]
fn a_time_that_the_clock_skips_runs_at_the_moment_of_the_change_and_once() {
    for (expression, zone, after, expected) in [
        // 2026-03-29: Berlin's clock goes from 02:00 to 03:00.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-27T12:00:00Z",
            ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
        ),
        (
            "*/30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T01:15:00Z",
            ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"],
        ),
        (
            "59 2,3 29 3 *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            ["2026-03-29T01:00:00Z", "2026-03-29T01:59:00Z", "2027-03-29T00:59:00Z"],
        ),
        // 2026-03-08: New York's clock goes from 02:00 to 03:00.
        (
            "0 2 * * SUN",
            "America/New_York",
            "2026-03-02T00:00:00Z",
            ["2026-03-08T07:00:00Z", "2026-03-15T06:00:00Z", "2026-03-22T06:00:00Z"],
        ),
        // 2026-10-04: Lord Howe's clock goes from 02:00 to 02:30.
        (
            "0,15,45 2 4 10 *",
            "Australia/Lord_Howe",
            "2026-10-01T00:00:00Z",
            ["2026-10-03T15:30:00Z", "2026-10-03T15:45:00Z", "2027-10-03T15:00:00Z"],
        ),
    ] {
        assert_eq!(times(expression, zone, after, 3), expected, "{expression} {zone}");
    }
}

#[test]
fn a_time_that_the_clock_shows_twice_runs_the_first_time_alone() {
    for (expression, zone, after, expected) in [
        // 2026-10-25: Berlin's clock goes from 03:00 back to 02:00.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        ),
        // Asked between the two, and after the second.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-25T01:10:00Z",
            ["2026-10-26T01:30:00Z", "2026-10-27T01:30:00Z"],
        ),
        (
            "*/20 * * * *",
            "Europe/Berlin",
            "2026-10-25T00:30:00Z",
            ["2026-10-25T00:40:00Z", "2026-10-25T02:00:00Z"],
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "2026-11-01T00:00:00Z",
            ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
        ),
        // 2026-04-05: Lord Howe's clock goes from 02:00 back to 01:30.
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T00:00:00Z",
            ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"],
        ),
    ] {
        assert_eq!(times(expression, zone, after, 2), expected, "{expression} {zone} {after}");
    }
}

#[test]
fn names_of_months_days_and_intervals_are_known() {
    for (expression, expected) in [
        ("@hourly", "2026-01-01T01:00:00Z"),
        ("@DAILY", "2026-01-02T00:00:00Z"),
        ("@weekly", "2026-01-04T00:00:00Z"),
        ("@monthly", "2026-02-01T00:00:00Z"),
        ("@yearly", "2027-01-01T00:00:00Z"),
        ("5 4 * feb-MAR Mon,wed", "2026-02-02T04:05:00Z"),
        ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
        ("0 12 1 * 7", "2026-01-01T12:00:00Z"),
        ("  0\t12 * * 1-5 ", "2026-01-01T12:00:00Z"),
    ] {
        assert_eq!(times(expression, "UTC", "2026-01-01T00:00:00Z", 1), [expected], "{expression}");
    }
    // In the crate's month check, December's last day comes before no month: it has no `L` here.
    assert_eq!(times("0 0 31 12 *", "UTC", "2026-01-01T00:00:00Z", 1), ["2026-12-31T00:00:00Z"]);
}

#[test]
fn each_refusal_names_its_reason() {
    let now = at("2026-11-27T13:06:30Z");
    let refusal = |(expression, zone, least): (&str, &str, i64)| {
        let refused = match Cron::parse(expression, zone) {
            Err(faults) => faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            Ok(cron) => cron.check(SignedDuration::from_mins(least), now).unwrap_err(),
        };
        format!("{expression} {zone}: {refused}")
    };
    let long = "0,".repeat(120);
    let cases = [
        ("* * * *", "UTC", 5),
        ("0 0 0 * * *", "UTC", 5),
        ("0 0 0 * * * 2027", "UTC", 5),
        ("", "UTC", 5),
        ("@reboot", "UTC", 5),
        ("60 * * * *", "UTC", 5),
        ("0 24 * * *", "UTC", 5),
        ("0 0 0 * *", "UTC", 5),
        ("0 0 * 13 *", "UTC", 5),
        ("0 0 * * 8", "UTC", 5),
        ("5-1 * * * *", "UTC", 5),
        ("*/0 * * * *", "UTC", 5),
        ("0 0 L * *", "UTC", 5),
        ("0 0 * * MON#2", "UTC", 5),
        ("H * * * *", "UTC", 5),
        ("0 0 ? * *", "UTC", 5),
        ("0 MON * * *", "UTC", 5),
        ("1,,2 * * * *", "UTC", 5),
        (long.as_str(), "UTC", 5),
        ("0 0 * * *", "Mars/Olympus", 5),
        ("0 0 * * *", "", 5),
        ("0 0 * * *", "+02:00", 5),
        ("x", "y", 5),
        ("0 0 31 2 *", "UTC", 5),
        ("0 0 30 2 *", "Europe/Berlin", 5),
        ("* * * * *", "UTC", 5),
        ("*/14 * * * *", "UTC", 5),
        ("2,59 0,23 1,28 2,3 *", "UTC", 5),
        ("*/5 * * * *", "UTC", 15),
    ];
    insta::assert_snapshot!(cases.map(refusal).join("\n"));
}

#[test]
fn the_least_distance_is_allowed_in_every_zone_and_season() {
    for zone in ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
        for week in 0..52 {
            let now = at("2026-01-03T12:00:00Z") + SignedDuration::from_hours(24 * 14 * week);
            let every = |expression| Cron::parse(expression, zone).unwrap();
            assert_eq!(every("*/5 * * * *").check(SignedDuration::from_mins(5), now), Ok(()));
            assert_eq!(every("*/15 * * * *").check(SignedDuration::from_mins(15), now), Ok(()));
        }
    }
}

#[test]
fn a_day_has_each_daily_time_exactly_once_in_two_years_of_changes_of_the_clock() {
    for zone in ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
        for (hour, minute) in [(0, 0), (1, 30), (1, 45), (2, 0), (2, 15), (2, 30), (2, 59), (3, 0)]
        {
            let cron = Cron::parse(&format!("{minute} {hour} * * *"), zone).unwrap();
            let rules = find_zone(zone).unwrap().1;
            let mut last = rules.to_timestamp(date(2026, 1, 1).at(12, 0, 0, 0)).unwrap();
            let mut day = date(2026, 1, 1);
            for _ in 0..730 {
                last = cron.next_after(last).unwrap();
                day = day.tomorrow().unwrap();
                assert_eq!(rules.to_datetime(last).date(), day, "{zone} {hour}:{minute}");
            }
        }
    }
}

fn zones() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
}

fn minutes() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..60_u8).prop_map(|minute| minute.to_string()),
        (1..60_u8).prop_map(|step| format!("*/{step}")),
        (0..30_u8, 30..60_u8).prop_map(|(from, to)| format!("{from}-{to}/7")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn times_ascend_and_none_is_left_out_or_doubled(
        zone in zones(),
        minute in minutes(),
        hour in prop_oneof![Just("*".to_owned()), (0..24_u8).prop_map(|hour| hour.to_string())],
        second in 0..63_072_000_i64,
    ) {
        let cron = Cron::parse(&format!("{minute} {hour} * * *"), zone).unwrap();
        let start = at("2026-01-01T00:00:00Z").checked_add(second.seconds()).unwrap();
        let mut last = start;
        for _ in 0..12 {
            let next = cron.next_after(last).unwrap();
            prop_assert!(next > last);
            // Any moment in between has the same next time.
            let between = last + (next.duration_since(last) / 2);
            prop_assert_eq!(cron.next_after(between), Some(next));
            last = next;
        }
    }

    #[test]
    fn any_text_is_parsed_or_refused(expression in "\\PC{0,40}", zone in "\\PC{0,20}") {
        let _ = Cron::parse(&expression, &zone);
    }

    #[test]
    fn any_five_fields_are_parsed_or_refused(expression in "([0-9*/,A-Z-]{1,5} ){4}[0-9*/,A-Z-]{1,5}") {
        if let Ok(cron) = Cron::parse(&expression, "UTC") {
            let _ = cron.check(SignedDuration::from_mins(5), at("2026-11-27T13:06:30Z"));
        }
    }
}
