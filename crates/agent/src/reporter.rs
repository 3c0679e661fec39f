//! Reports the states of jobs to Canyon: soon, in batches, and repeated until Canyon acknowledges them.

use crate::backoff::Backoff;
use crate::connection::ApiConnection;
use crate::status::Status;
use canyon_api::agent::{JobKey, JobReport, Reports};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Reports that come within this time go into one request.
const BATCH_DELAY: Duration = Duration::from_millis(20);
/// The most reports in one request.
const AT_ONCE: usize = 100;
/// The most bytes of reports in one request. Canyon accepts 256 KiB.
const MAX_BYTES: usize = 200 * 1024;

/// The handle with which jobs report. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reporter {
    reports: mpsc::UnboundedSender<JobReport>,
    status: Arc<Status>,
}

impl Reporter {
    /// The handle, and the receiver for [`deliver`].
    pub(crate) fn new(status: Arc<Status>) -> (Self, mpsc::UnboundedReceiver<JobReport>) {
        let (reports, receiver) = mpsc::unbounded_channel();
        (Self { reports, status }, receiver)
    }

    pub(crate) fn report(&self, report: JobReport) {
        // The receiver lives as long as the agent.
        let _ = self.reports.send(report);
    }

    /// Records an error that an administrator should see.
    pub(crate) fn record_error(&self, what: &str) {
        self.status.record_error(what);
    }
}

/// Delivers reports in the current session. Jobs that Canyon reports as not this agent's any more go to `lost`.
pub(crate) async fn deliver(
    api: Arc<ApiConnection>,
    mut reports: mpsc::UnboundedReceiver<JobReport>,
    mut session: watch::Receiver<Option<u64>>,
    lost: mpsc::UnboundedSender<JobKey>,
    waiting: watch::Sender<usize>,
) {
    let mut pending: BTreeMap<JobKey, JobReport> = BTreeMap::new();
    let (mut backoff, mut at_once) = (Backoff::default(), AT_ONCE);
    loop {
        if pending.is_empty() {
            waiting.send_replace(0);
            let Some(first) = reports.recv().await else { return };
            merge(&mut pending, first);
            waiting.send_replace(pending.len());
            tokio::time::sleep(BATCH_DELAY).await;
        }
        while let Ok(next) = reports.try_recv() {
            merge(&mut pending, next);
        }
        waiting.send_replace(pending.len());
        let Ok(number) = session.wait_for(Option::is_some).await.map(|number| *number) else {
            return;
        };
        let Some(number) = number else { continue };
        let batch = batch_of(&pending, at_once);
        let jobs: Vec<_> = batch.iter().map(|report| report.job).collect();
        match api.report(number, &Reports { reports: batch }).await {
            Ok(answer) => {
                backoff.reset();
                at_once = AT_ONCE;
                for job in jobs {
                    pending.remove(&job);
                }
                for refused in answer.refused {
                    tracing::warn!(job = %crate::job::name(&refused.job), reason = refused.reason, "the job is not this agent's any more");
                    // The receiver lives as long as the agent.
                    let _ = lost.send(refused.job);
                }
            }
            // One of these reports is invalid: it must not block the others.
            Err(error) if error.is_about_the_body() && jobs.len() > 1 => at_once = 1,
            Err(error) if error.is_about_the_body() => {
                for job in jobs {
                    tracing::error!(%error, job = %crate::job::name(&job), "Canyon refuses a report; it is dropped");
                    pending.remove(&job);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot deliver reports; retrying");
                tokio::time::sleep(backoff.pause_of(error.pause())).await;
            }
        }
    }
}

/// The reports for one request: at least one, and not more than Canyon accepts.
fn batch_of(pending: &BTreeMap<JobKey, JobReport>, at_once: usize) -> Vec<JobReport> {
    let mut size = 0;
    let fits = |report: &&JobReport| {
        let before = size;
        size += serde_json::to_vec(report).map_or(MAX_BYTES, |json| json.len());
        before == 0 || size <= MAX_BYTES
    };
    pending.values().take(at_once).take_while(fits).cloned().collect()
}

/// Merges a report into the pending one of the same job: of each field, the newest value counts.
fn merge(pending: &mut BTreeMap<JobKey, JobReport>, next: JobReport) {
    let Some(report) = pending.get_mut(&next.job) else {
        pending.insert(next.job, next);
        return;
    };
    report.observation = next.observation.or(report.observation.take());
    report.handle = next.handle.or(report.handle.take());
    report.done = next.done.or(report.done);
    report.tail = next.tail.or(report.tail.take());
}
