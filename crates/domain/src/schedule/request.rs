//! Parses what a request says of a schedule.

use super::{OnMissed, ScheduleSettings, ScheduledWork, Times};
use crate::cron::Cron;
use crate::field_error::FieldErrors;
use crate::resource_name::InvalidResourceName;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

/// The time zone of a cron expression without one.
const DEFAULT_ZONE: &str = "UTC";
/// The longest distance, and how far ahead a time may be.
const MAX_EVERY_SECONDS: u32 = 366 * 24 * 3600;
const MAX_AHEAD: SignedDuration = SignedDuration::from_hours(5 * 366 * 24);
/// The most bytes of `spec`: the schedule is written as a whole at each run.
const MAX_SPEC_BYTES: usize = 64 * 1024;
/// The most characters of an unknown member's name that an answer repeats.
const MAX_SHOWN_NAME: usize = 60;

/// The fields of a request, as they were given.
#[derive(Clone, Debug, Default)]
pub struct RequestedSchedule<'a> {
    /// `kind`.
    pub kind: &'a str,
    /// `cron`.
    pub cron: Option<&'a str>,
    /// `timezone`.
    pub timezone: Option<&'a str>,
    /// `at`.
    pub at: Option<&'a str>,
    /// `every_seconds`.
    pub every_seconds: Option<u32>,
    /// `enabled`.
    pub enabled: Option<bool>,
    /// `on_missed`.
    pub on_missed: Option<&'a str>,
    /// `reconcile`.
    pub reconcile: Option<bool>,
    /// `spec`, as JSON text.
    pub spec: Option<String>,
}

impl RequestedSchedule<'_> {
    /// The settings. Notes every fault.
    pub fn parse(self, now: Timestamp, faults: &mut FieldErrors) -> Option<ScheduleSettings> {
        let on_missed = match self.on_missed {
            None | Some("skip") => OnMissed::Skip,
            Some("run_once") => OnMissed::RunOnce,
            Some(_) => {
                faults.add("on_missed", "is `skip` or `run_once`");
                OnMissed::Skip
            }
        };
        let enabled = self.enabled.unwrap_or(true);
        let work = self.work(faults);
        let times = self.times(work.as_ref(), now, faults);
        Some(ScheduleSettings { work: work?, times: times?, enabled, on_missed })
    }

    fn work(&self, faults: &mut FieldErrors) -> Option<ScheduledWork> {
        if self.reconcile == Some(true) && self.kind != "drift" {
            faults.add("reconcile", "goes only with `kind: drift`");
        }
        if self.spec.is_some() && !matches!(self.kind, "deploy" | "container-check") {
            faults.add("spec", "goes only with `kind: deploy` and `kind: container-check`");
        }
        if self.spec.as_ref().is_some_and(|text| text.len() > MAX_SPEC_BYTES) {
            faults.add("spec", format!("has at most {MAX_SPEC_BYTES} bytes"));
        }
        match self.kind {
            "drift" => Some(ScheduledWork::Drift { reconcile: self.reconcile.unwrap_or(false) }),
            "deploy" => Some(ScheduledWork::Deploy { spec: self.spec.clone() }),
            "destroy" => Some(ScheduledWork::Destroy),
            "container-check" => self.container_check(faults),
            _ => {
                faults.add("kind", "is `drift`, `deploy`, `destroy` or `container-check`");
                None
            }
        }
    }

    /// `spec` of a check: `{resource: NAME}`.
    fn container_check(&self, faults: &mut FieldErrors) -> Option<ScheduledWork> {
        const MISSING: &str = "is required with `kind: container-check`, such as `s3#photos`";
        let Some(spec) = &self.spec else {
            faults.add("spec.resource", MISSING);
            return None;
        };
        let Ok(members) = serde_json::from_str::<Map<String, Value>>(spec) else {
            faults.add("spec", "must be an object");
            return None;
        };
        for name in members.keys().filter(|name| *name != "resource") {
            let name: String = name.chars().take(MAX_SHOWN_NAME).collect();
            faults.add(
                format!("spec.{name}"),
                "is unknown: with `kind: container-check`, `spec` has `resource` alone",
            );
        }
        let named = match members.get("resource") {
            None => Err(MISSING.to_owned()),
            Some(Value::String(text)) => {
                text.parse().map_err(|error: InvalidResourceName| error.to_string())
            }
            Some(_) => Err("must be a text".to_owned()),
        };
        match named {
            Ok(resource) => Some(ScheduledWork::ContainerCheck { resource }),
            Err(reason) => {
                faults.add("spec.resource", reason);
                None
            }
        }
    }

    fn times(
        &self,
        work: Option<&ScheduledWork>,
        now: Timestamp,
        faults: &mut FieldErrors,
    ) -> Option<Times> {
        let least = work.map_or(SignedDuration::ZERO, ScheduledWork::least_distance);
        if self.timezone.is_some() && self.cron.is_none() {
            faults.add("timezone", "goes only with `cron`; write the offset into `at`");
        }
        let of_kind = work.map_or("", ScheduledWork::kind);
        match (self.cron, self.at, self.every_seconds) {
            (Some(cron), None, None) => {
                let parsed = Cron::parse(cron, self.timezone.unwrap_or(DEFAULT_ZONE));
                let cron = parsed.map_err(|more| faults.add_under("", more)).ok()?;
                if let Err(reason) = cron.check(least, now) {
                    faults.add("cron", reason);
                }
                Some(Times::Cron(cron))
            }
            (None, Some(at), None) => {
                let Ok(at) = at.parse::<Timestamp>() else {
                    let reason = "is a time with its offset, such as 2027-01-31T04:00:00+01:00";
                    faults.add("at", reason);
                    return None;
                };
                if at <= now {
                    faults.add("at", "is in the past");
                } else if at.duration_since(now) > MAX_AHEAD {
                    faults.add("at", "is more than 5 years ahead");
                }
                Some(Times::At(at))
            }
            (None, None, Some(seconds)) => {
                let least = u32::try_from(least.as_secs()).unwrap_or(1);
                if !(least..=MAX_EVERY_SECONDS).contains(&seconds) {
                    let reason = if work.is_some() {
                        format!("is from {least} to {MAX_EVERY_SECONDS} for `kind: {of_kind}`")
                    } else {
                        format!("is at most {MAX_EVERY_SECONDS}")
                    };
                    faults.add("every_seconds", reason);
                }
                Some(Times::Every { seconds, from: now })
            }
            (None, None, None) => {
                faults.add("", "needs a time: give one of `cron`, `at` and `every_seconds`");
                None
            }
            _ => {
                faults.add(
                    "",
                    "has more than one time: give one of `cron`, `at` and `every_seconds`",
                );
                None
            }
        }
    }
}
