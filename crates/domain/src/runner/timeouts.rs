//! How long a job may take in each of its phases.

use super::fields::Fields;
use jiff::SignedDuration;
use serde::Serialize;

/// `job.timeouts`: the limits as they were given, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimeoutSettings {
    /// Longest wait for a turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_seconds: Option<u32>,
    /// Longest time from the launch until the job has claimed its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_seconds: Option<u32>,
    /// Longest run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_seconds: Option<u32>,
    /// Time between the polite request to stop and the kill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_seconds: Option<u32>,
    /// Longest time from the acceptance of a deployment to its end, over all its attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_seconds: Option<u32>,
}

impl TimeoutSettings {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        Self {
            queue_seconds: fields.number("queue_seconds", 60..=604_800),
            start_seconds: fields.number("start_seconds", 10..=3_600),
            run_seconds: fields.number("run_seconds", 30..=86_400),
            // Fargate kills after 120 seconds whatever is asked of it (ECS, `stopTimeout`).
            stop_seconds: fields.number("stop_seconds", 5..=120),
            total_seconds: fields.number("total_seconds", 60..=604_800),
        }
    }
}

/// The limits that hold, with the defaults filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Longest wait for a turn; a day unless set.
    pub queue: SignedDuration,
    /// Longest time from the launch until the job has claimed its work; five minutes unless set.
    pub start: SignedDuration,
    /// Longest run; an hour unless set.
    pub run: SignedDuration,
    /// Time between the polite request to stop and the kill; 30 seconds unless set.
    pub stop: SignedDuration,
    /// Longest time from the acceptance of a deployment to its end, over all its attempts; as long as the other
    /// limits allow unless set.
    pub total: Option<SignedDuration>,
}

impl From<&TimeoutSettings> for Timeouts {
    fn from(settings: &TimeoutSettings) -> Self {
        let seconds = |given: Option<u32>, default: u32| {
            SignedDuration::from_secs(i64::from(given.unwrap_or(default)))
        };
        Self {
            queue: seconds(settings.queue_seconds, 86_400),
            start: seconds(settings.start_seconds, 300),
            run: seconds(settings.run_seconds, 3_600),
            stop: seconds(settings.stop_seconds, 30),
            total: settings.total_seconds.map(|total| SignedDuration::from_secs(total.into())),
        }
    }
}
