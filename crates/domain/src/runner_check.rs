//! A check of a runner: its steps, their order, and the result of each.
//!
//! A check starts nothing and leaves nothing behind, so an administrator can request one at any time. The
//! launcher reports the steps that it has reached; [`RunnerCheck::end`] records why the others were left out.

use crate::failure::shortened;
use crate::ids::{RunnerCheckId, RunnerId};
use crate::runner::RunnerDefinition;
pub use crate::runner::check_step::CheckStep;
use crate::runner::string_enum::string_enum;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Deadline of a check, from the request to its end: a user waits for it.
pub const DEADLINE: SignedDuration = SignedDuration::from_mins(2);

string_enum! {
    /// The result of a step. The names are part of the API.
    StepResult {
        /// The step succeeded.
        Ok = "ok",
        /// The step failed.
        Failed = "failed",
        /// The step was not tried, because an earlier one failed.
        Skipped = "skipped",
    }
}

/// A step and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReport {
    /// The step.
    pub step: CheckStep,
    /// The result.
    pub result: StepResult,
    /// What was found; for a failure, what is missing and what to change. Never contains a secret.
    pub message: String,
}

/// The steps of a check of this runner, in order.
pub fn steps_of(definition: &RunnerDefinition) -> Vec<CheckStep> {
    let steps = definition.configuration.check_steps();
    std::iter::once(CheckStep::Definition).chain(steps.iter().copied()).collect()
}

string_enum! {
    /// The status of a check. The names are part of the API.
    CheckStatus {
        /// No launcher has started it yet.
        Waiting = "waiting",
        /// A launcher runs it.
        Running = "running",
        /// Every step has its result.
        Done = "done",
        /// [`DEADLINE`] has passed without a result.
        Expired = "expired",
    }
}

/// The last check of a runner. There is at most one at a time: a request meanwhile returns that one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerCheck {
    /// Its id.
    pub id: RunnerCheckId,
    /// The runner.
    pub runner: RunnerId,
    /// When it was requested.
    pub asked_at: Timestamp,
    /// When a launcher started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_at: Option<Timestamp>,
    /// When every step had its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The results so far, in the order of the steps.
    #[serde(default)]
    pub steps: Vec<StepReport>,
    /// Increases with each write.
    pub version: u64,
}

impl RunnerCheck {
    /// A check that is requested now.
    pub fn new(id: RunnerCheckId, runner: RunnerId, now: Timestamp) -> Self {
        let (begun_at, ended_at, steps) = (None, None, Vec::new());
        Self { id, runner, asked_at: now, begun_at, ended_at, steps, version: 1 }
    }

    /// Its status.
    pub fn status(&self, now: Timestamp) -> CheckStatus {
        if self.ended_at.is_some() {
            CheckStatus::Done
        } else if now >= self.asked_at + DEADLINE {
            CheckStatus::Expired
        } else if self.begun_at.is_some() {
            CheckStatus::Running
        } else {
            CheckStatus::Waiting
        }
    }

    /// Whether a request now returns this check instead of a new one.
    pub fn is_open(&self, now: Timestamp) -> bool {
        matches!(self.status(now), CheckStatus::Waiting | CheckStatus::Running)
    }

    /// Whether all steps succeeded; `None` while that is not known.
    pub fn succeeded(&self) -> Option<bool> {
        self.ended_at?;
        Some(self.steps.iter().all(|step| step.result == StepResult::Ok))
    }

    /// A launcher starts the check. `false` if another launcher has, or the check has expired.
    #[must_use]
    pub fn begin(&mut self, now: Timestamp) -> bool {
        let first = self.status(now) == CheckStatus::Waiting;
        if first {
            self.begun_at = Some(now);
        }
        first
    }

    /// Records a step's result; the first result of a step counts. A long message is shortened.
    pub fn record(&mut self, mut report: StepReport) {
        if self.steps.iter().any(|known| known.step == report.step) {
            return;
        }
        report.message = shortened(report.message);
        self.steps.push(report);
    }

    /// Ends the check. Steps in `planned` without a result are skipped because of the failed step; if none
    /// has failed, the first of them fails with `reason`.
    pub fn end(&mut self, planned: &[CheckStep], reason: &str, now: Timestamp) {
        let failed = |steps: &[StepReport]| {
            steps.iter().find(|step| step.result == StepResult::Failed).map(|step| step.step)
        };
        let known: Vec<_> = self.steps.iter().map(|report| report.step).collect();
        for step in planned.iter().copied().filter(|step| !known.contains(step)) {
            let (result, message) = match failed(&self.steps) {
                Some(before) => (StepResult::Skipped, format!("`{before}` failed")),
                None => (StepResult::Failed, reason.to_owned()),
            };
            self.steps.push(StepReport { step, result, message });
        }
        self.ended_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn check() -> RunnerCheck {
        RunnerCheck::new(RunnerCheckId(uuid::Uuid::nil()), "ab".parse().unwrap(), at(0))
    }

    fn report(step: CheckStep, result: StepResult) -> StepReport {
        StepReport { step, result, message: String::new() }
    }

    #[test]
    fn the_steps_after_a_failed_one_are_skipped_because_of_it() {
        let mut check = check();
        assert!(check.begin(at(1)));
        check.record(report(CheckStep::Definition, StepResult::Ok));
        check.record(report(CheckStep::Assertion, StepResult::Ok));
        check.record(report(CheckStep::Exchange, StepResult::Failed));
        check.record(report(CheckStep::Exchange, StepResult::Ok));
        assert_eq!(check.succeeded(), None);
        check.end(&[CheckStep::Exchange, CheckStep::Cluster, CheckStep::DryRun], "late", at(2));
        let lines: Vec<_> = check
            .steps
            .iter()
            .map(|s| format!("{} {} {}", s.step, s.result.as_str(), s.message))
            .collect();
        assert_eq!(
            lines,
            [
                "definition ok ",
                "assertion ok ",
                "exchange failed ",
                "cluster skipped `exchange` failed",
                "dry_run skipped `exchange` failed",
            ]
        );
        assert_eq!((check.status(at(900)), check.succeeded()), (CheckStatus::Done, Some(false)));
    }

    #[test]
    fn a_step_that_never_answers_fails_and_the_rest_is_skipped() {
        let mut check = check();
        check.end(&[CheckStep::Connect, CheckStep::DryRun], "late", at(1));
        let results: Vec<_> = check.steps.iter().map(|step| step.result).collect();
        assert_eq!(results, [StepResult::Failed, StepResult::Skipped]);
    }

    #[test]
    fn one_launcher_starts_a_check_and_after_two_minutes_none_does() {
        let mut first = check();
        assert!(first.begin(at(1)) && !first.begin(at(2)));
        assert_eq!(first.status(at(119)), CheckStatus::Running);
        assert_eq!(first.status(at(120)), CheckStatus::Expired);
        let mut late = check();
        assert!(late.is_open(at(119)) && !late.is_open(at(120)) && !late.begin(at(120)));
    }

    #[test]
    fn a_stored_secret_needs_no_assertion_and_an_agent_has_steps_of_its_own() {
        let job = json!({ "namespace": "ns", "service_account": "sa" });
        let data = json!({ "server": "https://a", "certificate_authority_data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==" });
        let steps = |configuration: serde_json::Value| {
            let storage = json!({ "type": "kubernetes", "namespace": "ns" });
            let value = json!({ "runner_configuration": configuration, "state_storage_configuration": storage });
            steps_of(&RunnerDefinition::parse(value).unwrap())
        };
        let kubernetes = |auth: serde_json::Value| {
            steps(
                json!({ "type": "kubernetes", "job": job, "cluster": { "cluster_data": data, "auth": auth } }),
            )
        };
        assert!(kubernetes(json!({ "oidc": { "audience": "a" } })).contains(&CheckStep::Assertion));
        assert!(
            !kubernetes(json!({ "service_account_token": "t" })).contains(&CheckStep::Assertion)
        );
    }
}
