//! How a dispatcher tells what it found while it checked its runner.

use canyon_domain::runner_check::{CheckStep, StepReport, StepResult};
use std::fmt::Display;
use tokio::sync::mpsc::UnboundedSender;

/// Takes the reports of one check, each as soon as it is known. The steps of each type of runner,
/// and their order, are in [`canyon_domain::runner_check::steps_of`]; one that is not reported counts
/// as skipped because of the last failure.
#[derive(Clone, Debug)]
pub struct Steps {
    reports: UnboundedSender<StepReport>,
}

impl Steps {
    /// Sends the reports to `reports`.
    pub fn new(reports: UnboundedSender<StepReport>) -> Self {
        Self { reports }
    }

    /// The step works; `found` says what was seen, such as the cluster's address.
    pub fn ok(&self, step: CheckStep, found: impl Into<String>) {
        self.report(step, StepResult::Ok, found.into());
    }

    /// The step does not work; `reason` names what is missing and what to change.
    pub fn failed(&self, step: CheckStep, reason: impl Into<String>) {
        self.report(step, StepResult::Failed, reason.into());
    }

    /// Does one step and reports it: with the text beside what it came to, or with the error. `None`
    /// after a failure: what builds on it cannot be tried.
    pub async fn take<T, E: Display>(
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
        // Nobody listens any more once the check's time is over.
        let _ = self.reports.send(StepReport { step, result, message });
    }
}
