//! How long an organization keeps ended deployments, their logs, and audit records.
//!
//! Without a setting Canyon keeps everything. [`crate::deployment_expiry`] decides about each deployment.

use crate::field_error::FieldErrors;
use crate::ids::DeploymentId;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Most days of each kind: ten years.
pub const MAX_DAYS: u32 = 3_650;

/// Fewest days of deployments and of audit records. Canyon remembers for 16 days which deployment an event has led to, so
/// that the event does not lead to another one; and an administrator cannot remove the trace of a change before others may
/// look for it.
pub const MIN_DAYS: u32 = 30;

/// For how many days an organization keeps what it no longer needs; `None` is for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// Deployments, from their end, with all that Canyon stores of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployments_days: Option<u32>,
    /// Logs and events of deployments, from the deployment's end. Without it they are kept as long as their deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs_days: Option<u32>,
    /// Audit records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_days: Option<u32>,
}

impl Retention {
    /// The values by their names in the API.
    pub fn by_name(&self) -> [(&'static str, Option<u32>); 3] {
        [
            ("deployments_days", self.deployments_days),
            ("logs_days", self.logs_days),
            ("audit_days", self.audit_days),
        ]
    }

    /// Whether nothing is ever removed.
    pub fn keeps_all(&self) -> bool {
        self.by_name().iter().all(|(_, days)| days.is_none())
    }

    /// Every value that is out of bounds.
    pub fn faults(&self) -> FieldErrors {
        let mut faults = FieldErrors::default();
        for (name, days) in self.by_name() {
            let least = if name == "logs_days" { 1 } else { MIN_DAYS };
            if days.is_some_and(|days| !(least..=MAX_DAYS).contains(&days)) {
                faults.add(name, format!("is from {least} to {MAX_DAYS} days"));
            }
        }
        if let (Some(logs), Some(deployments)) = (self.logs_days, self.deployments_days)
            && logs > deployments
        {
            faults
                .add("logs_days", "is at most `deployments_days`: a log goes with its deployment");
        }
        faults
    }

    /// Logs of deployments that ended before this time are removed, alone or with their deployment.
    pub fn logs_before(&self, now: Timestamp) -> Option<Timestamp> {
        let days = self.logs_days.into_iter().chain(self.deployments_days).min()?;
        days_before(now, days)
    }

    /// Deployments that ended before this time are removed.
    pub fn deployments_before(&self, now: Timestamp) -> Option<Timestamp> {
        days_before(now, self.deployments_days?)
    }

    /// Audit records from before this time are removed.
    pub fn audit_before(&self, now: Timestamp) -> Option<Timestamp> {
        days_before(now, self.audit_days?)
    }

    /// What differs from `before`, for an audit record.
    pub fn changes_from(&self, before: &Self) -> Vec<String> {
        let text = |days: Option<u32>| days.map_or("for ever".to_owned(), |days| days.to_string());
        let pairs = before.by_name().into_iter().zip(self.by_name());
        let changed = pairs.filter(|(old, new)| old != new);
        changed
            .map(|((name, old), (_, new))| format!("{name}: {} -> {}", text(old), text(new)))
            .collect()
    }
}

fn days_before(now: Timestamp, days: u32) -> Option<Timestamp> {
    now.checked_sub(SignedDuration::from_hours(i64::from(days) * 24)).ok()
}

/// The setting of an organization, and how far the launcher is with applying it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionSetting {
    /// The days.
    #[serde(flatten)]
    pub retention: Retention,
    /// When it was first set.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// When the launcher continues.
    pub due_at: Timestamp,
    /// How far this round is.
    #[serde(default)]
    pub progress: Progress,
    /// Increases with every write; each write is conditional on the version that was read.
    pub version: u64,
}

/// How far a round is: the launcher walks the organization's deployments from the oldest on, a bounded number at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The last deployment that this round has looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walked_to: Option<DeploymentId>,
    /// The same of the checks for drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks_walked_to: Option<DeploymentId>,
    /// No audit record is older: the months before are not searched again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_from: Option<Timestamp>,
    /// What this round has removed.
    #[serde(default)]
    pub removed: RemovedCounts,
}

/// What a round has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedCounts {
    /// Deployments.
    pub deployments: u64,
    /// Logs of deployments that stay.
    pub logs: u64,
    /// Audit records.
    pub audit_records: u64,
}

impl RemovedCounts {
    /// What was removed, for an audit record; empty if nothing was.
    pub fn details(&self) -> Vec<String> {
        let all = [
            ("deployments", self.deployments),
            ("logs", self.logs),
            ("audit_records", self.audit_records),
        ];
        let some = all.into_iter().filter(|(_, count)| *count > 0);
        some.map(|(name, count)| format!("{name}: {count}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retention(deployments: Option<u32>, logs: Option<u32>, audit: Option<u32>) -> Retention {
        Retention { deployments_days: deployments, logs_days: logs, audit_days: audit }
    }

    fn faulty(of: Retention) -> Vec<String> {
        of.faults().iter().map(|fault| fault.path.clone()).collect()
    }

    #[test]
    fn every_value_out_of_bounds_is_named_at_once() {
        assert!(faulty(retention(Some(30), Some(1), Some(30))).is_empty());
        assert!(faulty(retention(Some(3_650), None, Some(3_650))).is_empty());
        assert!(faulty(retention(None, Some(3_650), None)).is_empty());
        let all = retention(Some(29), Some(3_651), Some(29));
        assert_eq!(
            faulty(all),
            ["deployments_days", "logs_days", "audit_days", "logs_days"],
            "{:?}",
            all.faults()
        );
        assert_eq!(faulty(retention(Some(30), Some(31), None)), ["logs_days"]);
    }

    #[test]
    fn a_log_goes_with_its_deployment_or_earlier() {
        let now: Timestamp = "2026-03-31T12:00:00Z".parse().unwrap();
        let before =
            |days: Option<&str>| days.map(|day| format!("{day}T12:00:00Z").parse().unwrap());
        for (deployments, logs, logs_before) in [
            (None, None, None),
            (Some(30), None, Some("2026-03-01")),
            (None, Some(10), Some("2026-03-21")),
            (Some(30), Some(10), Some("2026-03-21")),
        ] {
            let of = retention(deployments, logs, None);
            assert_eq!(of.logs_before(now), before(logs_before), "{of:?}");
            let deployments_before = deployments.map(|_| "2026-03-01");
            assert_eq!(of.deployments_before(now), before(deployments_before), "{of:?}");
            assert_eq!(of.audit_before(now), None);
        }
    }

    #[test]
    fn an_audit_record_names_what_changed_from_what_to_what() {
        let (old, new) = (retention(Some(30), None, None), retention(None, Some(7), None));
        assert_eq!(
            new.changes_from(&old),
            ["deployments_days: 30 -> for ever", "logs_days: for ever -> 7"]
        );
        assert!(new.changes_from(&new).is_empty());
    }
}
