//! The run's result, and its delivery.

use crate::facts::Facts;
use crate::outputs::Outputs;
use crate::session::{Line, is_over};
use crate::{backoff::Backoff, exit::Exit, shipper::AFTERWARDS};
use canyon_api::attempt::{DeploymentResultsUpdateBody, ResultStatus, TfResourceCounts};
use canyon_api::deployment::Orphan;
use canyon_domain::failure::Failure;
use tokio::time::{Instant, sleep};

/// The longest message of a failure, in characters.
const LONGEST_MESSAGE: usize = 1_000;

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// What it leaves.
    pub outputs: Outputs,
    /// What it may have left behind.
    pub orphans: Vec<Orphan>,
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }
}

impl Outcome {
    /// The body to deliver; `facts` when OpenTofu has run.
    pub fn into_body(self, facts: Option<&Facts>) -> DeploymentResultsUpdateBody {
        let failure =
            self.failure.map(|failure| Failure { message: shorten(&failure.message), ..failure });
        let tf_resource_counts = facts.map(|facts| {
            let changed = facts.changed();
            TfResourceCounts {
                num_resources: facts.total(),
                num_resources_added: changed.add,
                num_resources_removed: changed.remove,
                num_resources_changed: changed.change,
            }
        });
        let status = if failure.is_none() { ResultStatus::Success } else { ResultStatus::Failure };
        DeploymentResultsUpdateBody {
            status,
            outputs: self.outputs.encrypted,
            error: None,
            tf_resource_counts,
            metadata: None,
            failure,
            plain_outputs: self.outputs.plain,
            orphans: self.orphans,
            chunks: Vec::new(),
        }
    }
}

fn shorten(message: &str) -> String {
    if message.chars().count() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    message.chars().take(LONGEST_MESSAGE - 1).chain(['…']).collect()
}

/// Delivers `body`, and tries for [`AFTERWARDS`] when Canyon does not answer.
pub async fn deliver(line: &Line, body: &DeploymentResultsUpdateBody) -> Exit {
    let delivered = match body.status {
        ResultStatus::Success => Exit::Succeeded,
        ResultStatus::Failure => Exit::Failed,
    };
    let deadline = Instant::now() + AFTERWARDS;
    let mut backoff = Backoff::default();
    loop {
        let error = match line.post_result(body).await {
            Ok(()) => return delivered,
            // An earlier try, whose answer was lost, may have ended the attempt.
            Err(error) if is_over(&error) && backoff.is_failing() => return delivered,
            Err(error) if is_over(&error) => return Exit::Over(error.to_string()),
            Err(error) => error,
        };
        if !error.is_retryable() || Instant::now() >= deadline {
            return Exit::undelivered(format!("could not deliver the result: {error}"));
        }
        sleep(backoff.pause()).await;
    }
}
