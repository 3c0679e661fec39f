//! Reports of a runner's check, step by step.

use canyon_domain::runner_check::{CheckStep, StepReport, StepResult};
use std::fmt::Display;
use tokio::sync::mpsc::UnboundedSender;

/// Collects the reports of one check, each as soon as it is known. The steps of each type of runner
/// and their order are in [`canyon_domain::runner_check::steps_of`]; a step without a report counts
/// as skipped because of the last failure.
#[derive(Clone, Debug)]
pub struct CheckReports {
    reports: UnboundedSender<StepReport>,
}

impl CheckReports {
    /// Creates a collector that sends the reports to `reports`.
    pub fn new(reports: UnboundedSender<StepReport>) -> Self {
        Self { reports }
    }

    /// Reports that the step works; `found` describes the result, such as the cluster's address.
    pub fn ok(&self, step: CheckStep, found: impl Into<String>) {
        self.report(step, StepResult::Ok, found.into());
    }

    /// Reports that the step does not work; `reason` names what is missing and what to change.
    pub fn failed(&self, step: CheckStep, reason: impl Into<String>) {
        self.report(step, StepResult::Failed, reason.into());
    }

    /// Runs one step and reports it: with the text beside its value, or with the error. Returns
    /// `None` after a failure, because the steps that need the value cannot be tried.
    pub async fn run_step<T, E: Display>(
        &self,
        step: CheckStep,
        work: impl Future<Output = Result<(T, String), E>>,
    ) -> Option<T> {
        match work.await {
            Ok((value, found)) => {
                self.ok(step, found);
                Some(value)
            }
            Err(error) => {
                self.failed(step, error.to_string());
                None
            }
        }
    }

    fn report(&self, step: CheckStep, result: StepResult, message: String) {
        // The receiver is gone once the check's time limit has passed.
        let _ = self.reports.send(StepReport { step, result, message });
    }
}
