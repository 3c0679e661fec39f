//! What became of jobs, told to Canyon: soon, together, and again until it is heard.

use crate::backoff::Backoff;
use crate::line::Line;
use crate::status::Status;
use canyon_api::agent::{JobKey, JobReport, Reports};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// What comes within this time goes together.
const GATHER: Duration = Duration::from_millis(20);
/// The most in one request, and its size in bytes: Canyon takes 256 KiB.
const AT_ONCE: usize = 100;
const SIZE: usize = 200 * 1024;

/// Where jobs say what became of them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reporter {
    reports: mpsc::UnboundedSender<JobReport>,
    status: Arc<Status>,
}

impl Reporter {
    /// To whom the reports go in the end.
    pub(crate) fn new(status: Arc<Status>) -> (Self, mpsc::UnboundedReceiver<JobReport>) {
        let (reports, receiver) = mpsc::unbounded_channel();
        (Self { reports, status }, receiver)
    }

    pub(crate) fn tell(&self, report: JobReport) {
        // The receiver lives as long as the agent.
        let _ = self.reports.send(report);
    }

    /// Something went wrong that the operator should see.
    pub(crate) fn trouble(&self, what: &str) {
        self.status.trouble(what);
    }
}

/// Delivers reports in whichever session there is, and sends on whatever is not this agent's any more.
pub(crate) async fn deliver(
    line: Arc<Line>,
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
            tokio::time::sleep(GATHER).await;
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
        match line.report(number, &Reports { reports: batch }).await {
            Ok(answer) => {
                backoff.reset();
                at_once = AT_ONCE;
                for job in jobs {
                    pending.remove(&job);
                }
                for refused in answer.refused {
                    tracing::warn!(job = %crate::job::name(&refused.job), reason = refused.reason, "not ours any more");
                    // Whoever listens lives as long as the agent.
                    let _ = lost.send(refused.job);
                }
            }
            // One of them is what Canyon does not take: it must not hold up the others.
            Err(error) if error.is_about_the_body() && jobs.len() > 1 => at_once = 1,
            Err(error) if error.is_about_the_body() => {
                for job in jobs {
                    tracing::error!(%error, job = %crate::job::name(&job), "a report is not taken, and dropped");
                    pending.remove(&job);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot report; trying again");
                tokio::time::sleep(backoff.pause_of(error.pause())).await;
            }
        }
    }
}

/// What goes together: at least one report, and of more no more than Canyon takes.
fn batch_of(pending: &BTreeMap<JobKey, JobReport>, at_once: usize) -> Vec<JobReport> {
    let mut size = 0;
    let fits = |report: &&JobReport| {
        let before = size;
        size += serde_json::to_vec(report).map_or(SIZE, |json| json.len());
        before == 0 || size <= SIZE
    };
    pending.values().take(at_once).take_while(fits).cloned().collect()
}

/// The newest word counts, for each thing that there is to say.
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
