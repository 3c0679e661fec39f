//! One lane: collects batches, one after the other, and has each delivered.

use super::order;
use super::record::Record;
use super::{Shared, batch, deliver};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

pub(super) async fn run(mut records: UnboundedReceiver<Record>, shared: Arc<Shared>) {
    // The record that did not fit into the previous batch.
    let mut left = None;
    while let Some(first) = match left.take() {
        Some(record) => Some(record),
        None => records.recv().await,
    } {
        let (batch, over) = gather(first, &mut records, &shared).await;
        left = over;
        let count = u64::try_from(batch.len()).unwrap_or_default();
        let batch = order::disturbed(batch, &shared);
        deliver::deliver(batch, &shared).await;
        shared.pending.fetch_sub(count, Ordering::SeqCst);
    }
}

/// As many records as fit, or as arrive within the window. The second value is the one that did not
/// fit.
async fn gather(
    first: Record,
    records: &mut UnboundedReceiver<Record>,
    shared: &Shared,
) -> (Vec<Record>, Option<Record>) {
    let rules = &shared.rules;
    let window = Instant::now() + shared.scaled(rules.window);
    let mut size = batch::FRAME + first.length;
    let mut batch = vec![first];
    while batch.len() < rules.batch_size {
        let next = match records.try_recv() {
            Ok(next) => Some(next),
            Err(_) if rules.window > Duration::ZERO => {
                timeout_at(window, records.recv()).await.ok().flatten()
            }
            Err(_) => None,
        };
        let Some(next) = next else { break };
        size += next.length + 1;
        if size > batch::PAYLOAD {
            return (batch, Some(next));
        }
        batch.push(next);
    }
    (batch, None)
}
