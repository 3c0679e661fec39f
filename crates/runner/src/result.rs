//! The result of a run, and its delivery.

mod size;

use crate::facts::Facts;
use crate::outputs::Outputs;
use crate::session::ApiConnection;
use crate::shipper::DELIVERY_TIMEOUT;
use crate::{backoff::Backoff, exit::Exit, log::Log, stop::Stop, stop::StopRequest, verdict};
use canyon_api::attempt::{DeploymentResultsUpdateBody, ResultStatus, TfResourceCounts};
use canyon_api::deployment::Orphan;
use canyon_domain::causes::Causes;
use canyon_domain::failure::{Failure, FailureClass, shortened_to};
use size::{Unanswered, leave_out, leave_out_largest};
use tokio::time::{Instant, sleep};

/// The longest message of a failure, in characters.
const LONGEST_MESSAGE: usize = 1_000;
/// How often something that is not Canyon must have found a result too large, or Canyon found it faulty.
const MIN_REFUSALS: u32 = 3;

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// The module's outputs.
    pub outputs: Box<Outputs>,
    /// Resources that may exist although the state does not list them.
    pub orphans: Vec<Orphan>,
    /// How many resources the plan would have deleted or replaced, when that ended the run.
    pub refused_deletions: Option<u32>,
    /// Whether the failure is a stop. Canyon knows the reason, such as a cancel, a deadline or a node that is drained,
    /// and decides the failure's class.
    pub stopped: bool,
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }
}

impl Outcome {
    /// The outcome for the log and the delivery: with the reason of a stop, and without secrets.
    pub async fn for_delivery(mut self, stop: &Stop, log: &Log) -> Self {
        for orphan in &mut self.orphans {
            orphan.address = log.masked(&orphan.address);
        }
        let Some(failure) = &mut self.failure else { return self };
        if failure.class == FailureClass::Cancelled {
            *failure = verdict::because(&stop.reason().await, failure);
            self.stopped = true;
        }
        failure.message = log.masked(&failure.message);
        self
    }

    /// The body to deliver. `facts` is `None` if OpenTofu has not planned.
    pub fn into_body(self, facts: Option<&Facts>) -> DeploymentResultsUpdateBody {
        let stopped = self.stopped;
        let failure = self.failure.map(|failure| Failure {
            class: if stopped { FailureClass::Cancelled } else { failure.class },
            message: shortened_to(&failure.message, LONGEST_MESSAGE),
        });
        let tf_resource_counts = facts.map(|facts| {
            let changed = facts.changed();
            TfResourceCounts {
                num_resources: facts.total(),
                num_resources_added: changed.add,
                num_resources_removed: changed.remove,
                num_resources_changed: changed.change,
            }
        });
        let Outputs { plain, secret, encrypted } = *self.outputs;
        let status = if failure.is_none() { ResultStatus::Success } else { ResultStatus::Failure };
        DeploymentResultsUpdateBody {
            status,
            outputs: encrypted,
            error: None,
            tf_resource_counts,
            metadata: None,
            phase: None,
            fetched: None,
            untouched: false,
            failure,
            plain_outputs: plain,
            secret_outputs: secret,
            orphans: self.orphans,
            state: None,
            unwritten: None,
            refused_deletions: self.refused_deletions,
            plan: None,
            stale_plan: false,
            drift: None,
            policy: None,
            chunks: Vec::new(),
        }
    }
}

/// Delivers the `failure` of a run that has not begun.
pub async fn refuse(api: &ApiConnection, failure: Failure, stop: &Stop) -> Exit {
    let body = Outcome::from(failure).into_body(None);
    deliver(api, body, stop.is_requested()).await
}

/// Delivers `body`, unless the attempt is over: `what` was stopped then.
pub async fn conclude(
    api: &ApiConnection,
    body: DeploymentResultsUpdateBody,
    stop: &Stop,
    what: &str,
) -> Exit {
    if stop.requested() == StopRequest::StopWithoutResult {
        return Exit::Over(format!("the attempt is over; {what} was stopped"));
    }
    deliver(api, body, stop.is_requested()).await
}

/// Delivers `body`, and tries for [`DELIVERY_TIMEOUT`] until Canyon itself says that it has taken it. Between
/// two tries it says that the run lives: an attempt that is silent for minutes is stopped.
///
/// Where Canyon, or a proxy before it, finds it too large, what became of the run is delivered without its outputs, and at
/// last without the end of its log. So it is where small reports pass for a while and it does not, for whatever reason;
/// the job `must_end` soon if it was to stop.
pub async fn deliver(
    api: &ApiConnection,
    body: DeploymentResultsUpdateBody,
    must_end: bool,
) -> Exit {
    let mut body = body;
    let (mut refusals, mut unanswered) = (0, Unanswered::new(must_end));
    let delivered = match body.status {
        ResultStatus::Success => Exit::Succeeded,
        ResultStatus::Failure => Exit::Failed,
    };
    let deadline = Instant::now() + DELIVERY_TIMEOUT;
    let mut backoff = Backoff::default();
    loop {
        let error = match api.post_result(&body).await {
            Ok(()) => return delivered,
            // An earlier try may have ended the attempt although its answer was lost.
            Err(error) if api.is_over(&error) && backoff.is_failing() => return delivered,
            Err(error) if api.is_over(&error) => return Exit::Over(error.to_string()),
            Err(error) => error,
        };
        // Canyon may find a body invalid because the network has changed it, or because of its outputs.
        let is_canyons = api.is_answer_of_canyon(&error);
        let is_faulty = error.status() == Some(400) && is_canyons;
        refusals += u32::from(error.is_too_large() || is_faulty);
        // One answer of Canyon that the body is too large suffices. The answer of a gateway may be a temporary fault, or
        // may belong to another request.
        let is_sure = error.is_too_large() && is_canyons || refusals >= MIN_REFUSALS;
        if (error.is_too_large() || is_faulty) && is_sure && leave_out(&mut body) {
            continue;
        }
        let is_size = error.status().is_none() && unanswered.shows_size(&body, Instant::now());
        if is_size && leave_out_largest(&mut body) {
            unanswered.again(Instant::now());
            continue;
        }
        // Whatever else refuses it: the run is over, and only its result is left to save.
        if Instant::now() >= deadline {
            let causes = Causes(&error);
            return Exit::undelivered(format!("could not deliver the result: {causes}"));
        }
        sleep(backoff.pause()).await;
        // If Canyon refuses the report, an earlier try has ended the attempt.
        match api.report_alive().await {
            Ok(_) if error.status().is_none() => unanswered.add(Instant::now()),
            Ok(_) => {}
            Err(error) if api.is_over(&error) => return delivered,
            Err(_) => unanswered = Unanswered::new(must_end),
        }
    }
}
