//! Drift: what an environment has differs from what was deployed last.
//!
//! A check is a deployment of [`Mode::Drift`](crate::mode::Mode::Drift) beside the environment's queue. It may begin while nothing runs or waits there, and
//! a deployment that comes meanwhile ends it. Canyon keeps addresses and names of attributes, and never a value.

mod ignore;

pub use ignore::{IgnoreRule, MAX_IGNORED};

use crate::ids::DeploymentId;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Maximum number of changed resources that a check reports.
pub const MAX_CHANGES: usize = 500;
/// Maximum number of attributes that it names of each.
pub const MAX_ATTRIBUTES: usize = 20;
/// How many checks of one runner run at once: many become due at the same time, and none is urgent.
pub const MAX_CHECKS_AT_ONCE: u32 = 4;

/// How many deployments undo drift within [`RECONCILE_WINDOW`]: another program may change the same resources again and again.
pub const MAX_RECONCILED: usize = 2;
/// See [`MAX_RECONCILED`].
pub const RECONCILE_WINDOW: SignedDuration = SignedDuration::from_hours(24);

/// Why a resource would be changed by a deployment of the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftKind {
    /// It was changed outside of Canyon.
    Outside,
    /// What the module reads has changed: a data source, a variable's value, a provider.
    Configuration,
}

/// What is known of the drift of an environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftStatus {
    /// Nothing: no check has ended, or a deployment has failed since.
    #[default]
    Unknown,
    /// A deployment of the same thing would change nothing.
    InSync,
    /// It would change something.
    Drifted,
    /// The last check has failed.
    Failed,
}

impl DriftStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::InSync, Self::Drifted, Self::Failed];

    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::InSync => "in_sync",
            Self::Drifted => "drifted",
            Self::Failed => "failed",
        }
    }
}

/// What a check has found, as its deployment has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftFinding {
    /// How many resources the state has.
    pub num_resources: u32,
    /// How many of them differ, without those that the environment ignores.
    pub num_drifted: u32,
    /// How many differ that the environment ignores.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub num_ignored: u32,
    /// A digest of the addresses that differ, and of what would happen to each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<String>,
    /// What is new since the check before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub news: Option<DriftNews>,
}

/// What is new about the drift of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftNews {
    /// Other resources differ than before.
    Detected,
    /// None differs any more.
    Resolved,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// What an environment knows of its drift.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftRecord {
    /// The result of what was last.
    #[serde(default)]
    pub status: DriftStatus,
    /// Since when it is that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When the last check ended that has found something out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<Timestamp>,
    /// That check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<DeploymentId>,
    /// What it has found.
    #[serde(default)]
    pub found: DriftFinding,
    /// The check that waits or runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checking: Option<DeploymentId>,
    /// When the last deployments were requested that undo drift.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reconciled: Vec<Timestamp>,
    /// What counts for nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<IgnoreRule>,
}

impl DriftRecord {
    pub(crate) fn becomes(&mut self, status: DriftStatus, at: Option<Timestamp>) {
        if self.status != status {
            (self.status, self.since) = (status, at);
        }
    }

    /// Records that a deployment is requested which undoes the drift. `false` if there were too many: none is requested then.
    pub fn begin_reconciliation(&mut self, now: Timestamp) -> bool {
        self.reconciled.retain(|at| now.duration_since(*at) < RECONCILE_WINDOW);
        let may = self.reconciled.len() < MAX_RECONCILED;
        if may {
            self.reconciled.push(now);
        }
        may
    }

    /// Until when drift leads to no deployment, because it came back too often.
    pub fn suspended_until(&self) -> Option<Timestamp> {
        let first = self.reconciled.first().filter(|_| self.reconciled.len() >= MAX_RECONCILED)?;
        first.checked_add(RECONCILE_WINDOW).ok()
    }
}

/// Why no check may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCheck {
    /// Another one is open.
    #[error("deployment {0} is a check of this environment already")]
    Checking(DeploymentId),
    /// A deployment runs or waits.
    #[error(
        "deployment {0} runs or waits in this environment, and comes first; check again when it has ended"
    )]
    Busy(DeploymentId),
}
