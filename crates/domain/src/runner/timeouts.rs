//! Timeouts of a job's phases.

use super::properties::properties;
use jiff::SignedDuration;
use serde::Serialize;

properties! {
    /// `job.timeouts`: the given limits, in seconds.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct TimeoutSettings {
        /// Maximum wait for a turn.
        pub queue_seconds: Option<u32> = number(60..=604_800),
        /// Maximum time from the launch until a runner has claimed the attempt.
        pub start_seconds: Option<u32> = number(10..=3_600),
        /// Maximum duration of the run.
        pub run_seconds: Option<u32> = number(30..=86_400),
        /// Time from the request to stop until the kill.
        pub stop_seconds: Option<u32> = number(5..=120),
        /// Maximum time from the acceptance of a deployment to its end, over all its attempts.
        pub total_seconds: Option<u32> = number(60..=604_800),
    }
}

/// The effective limits, with defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum wait for a turn. Default: one day.
    pub queue: SignedDuration,
    /// Maximum time from the launch until a runner has claimed the attempt. Default: five minutes.
    pub start: SignedDuration,
    /// Maximum duration of the run. Default: one hour.
    pub run: SignedDuration,
    /// Time from the request to stop until the kill. Default: 30 seconds.
    pub stop: SignedDuration,
    /// Maximum time from the acceptance of a deployment to its end, over all its attempts. Default: none
    /// beyond the other limits.
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
