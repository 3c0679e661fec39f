//! Disturbs the records of a batch before their delivery.

use super::Shared;
use super::record::Record;
use crate::chance::lock;
use std::collections::{BTreeMap, VecDeque};

/// How many old records are kept for replays.
const KEPT: usize = 1_000;

/// The same records in another order, mixed with old ones.
pub(super) fn disturbed(batch: Vec<Record>, shared: &Shared) -> Vec<Record> {
    let disturbance = shared.disturbance();
    let mut former = lock(&shared.former);
    let mut replayed = Vec::new();
    for _ in &batch {
        let again = disturbance.replay > 0.0 && shared.chance.happens(disturbance.replay);
        if again && !former.is_empty() {
            replayed.push(former[shared.chance.below(former.len())].clone());
        }
    }
    for record in &batch {
        if former.len() < KEPT {
            former.push(record.clone());
        } else {
            let place = shared.chance.below(KEPT);
            former[place] = record.clone();
        }
    }
    drop(former);
    let mut batch = if disturbance.shuffle { shuffled(batch, shared) } else { batch };
    for record in replayed {
        let place = shared.chance.below(batch.len() + 1);
        batch.insert(place, record);
    }
    batch
}

/// Each item's records keep their order, as the stream promises.
fn shuffled(batch: Vec<Record>, shared: &Shared) -> Vec<Record> {
    let mut items: BTreeMap<String, VecDeque<Record>> = BTreeMap::new();
    for record in batch {
        items.entry(record.item.clone()).or_default().push_back(record);
    }
    let mut items: Vec<_> = items.into_values().collect();
    let mut mixed = Vec::new();
    while !items.is_empty() {
        let place = shared.chance.below(items.len());
        mixed.extend(items[place].pop_front());
        if items[place].is_empty() {
            items.swap_remove(place);
        }
    }
    mixed
}
