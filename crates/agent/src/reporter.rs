//! Reports the states of jobs to Canyon: soon, several in one request, and repeated until Canyon acknowledges them.
//!
//! A gateway may refuse a request for its size, with any answer or none. So after each failure the agent sends fewer
//! reports in one request, and other reports first. It sends a single report without its piece of output, and the piece
//! by itself afterwards.

use crate::backoff::Backoff;
use crate::connection::ApiConnection;
use crate::job_name::job_name;
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
    let (mut backoff, mut order) = (Backoff::default(), Order::default());
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
        let batch = order.batch_of(&pending);
        let jobs: Vec<_> = batch.iter().map(|report| report.job).collect();
        match api.report(number, &Reports { reports: batch.clone() }).await {
            Ok(answer) => {
                backoff.reset();
                order.passed();
                for report in batch {
                    settle(&mut pending, &report);
                }
                for refused in answer.refused {
                    tracing::warn!(job = %job_name(&refused.job), reason = refused.reason, "the job is not this agent's any more");
                    // The receiver lives as long as the agent.
                    let _ = lost.send(refused.job);
                }
            }
            // One of them is what Canyon does not take: it must not hold up the others.
            Err(error) if error.is_about_the_body() && jobs.len() > 1 => order.at_once = 1,
            Err(error) if error.is_about_the_body() => {
                for job in jobs {
                    tracing::error!(%error, job = %job_name(&job), "Canyon refuses a report; it is dropped");
                    pending.remove(&job);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot report; trying again");
                order.failed(&batch);
                tokio::time::sleep(backoff.pause_of(error.pause())).await;
            }
        }
    }
}

/// What goes together, and what goes first.
struct Order {
    /// The most reports in one request.
    at_once: usize,
    /// The last report that did not arrive: those behind it go first.
    behind: Option<JobKey>,
    /// A report that did not arrive alone with its piece of output goes without it.
    without_tail: bool,
}

impl Default for Order {
    fn default() -> Self {
        Self { at_once: AT_ONCE, behind: None, without_tail: false }
    }
}

impl Order {
    /// At least one report, and of more no more than Canyon takes.
    fn batch_of(&self, pending: &BTreeMap<JobKey, JobReport>) -> Vec<JobReport> {
        let mut size = 0;
        let fits = |report: &JobReport| {
            let before = size;
            size += serde_json::to_vec(report).map_or(MAX_BYTES, |json| json.len());
            before == 0 || size <= MAX_BYTES
        };
        let is_behind = |job: &JobKey| self.behind.as_ref().is_none_or(|last| job > last);
        let (first, then): (Vec<_>, Vec<_>) =
            pending.values().partition(|report| is_behind(&report.job));
        let in_order = first.into_iter().chain(then).cloned();
        let shortened = in_order.map(|mut report| {
            if self.without_tail && says_more_than_tail(&report) {
                report.tail = None;
            }
            report
        });
        shortened.take(self.at_once).take_while(fits).collect()
    }

    fn passed(&mut self) {
        self.at_once = (self.at_once * 2).min(AT_ONCE);
        self.without_tail &= self.at_once < AT_ONCE;
    }

    fn failed(&mut self, batch: &[JobReport]) {
        self.without_tail |= self.at_once == 1;
        self.at_once = (batch.len() / 2).max(1);
        self.behind = batch.last().map(|report| report.job);
    }
}

fn says_more_than_tail(report: &JobReport) -> bool {
    JobReport { tail: None, ..report.clone() } != JobReport::new(report.job)
}

/// Forgets what has arrived: all of a report, or all but its piece of output.
fn settle(pending: &mut BTreeMap<JobKey, JobReport>, sent: &JobReport) {
    let Some(report) = pending.get_mut(&sent.job) else { return };
    if sent.tail.is_none() && report.tail.is_some() {
        let JobReport { job, tail, .. } = report.clone();
        *report = JobReport { tail, ..JobReport::new(job) };
    } else {
        pending.remove(&sent.job);
    }
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
    report.image_digest = next.image_digest.or(report.image_digest.take());
}

#[cfg(test)]
mod tests;
