//! The slots of ended attempts, which a write releases.

use canyon_domain::deployment::Deployment;

/// The deployment without the slots of its ended attempts, as it is stored once they are released.
pub(crate) fn without_released_slots(deployment: &Deployment) -> Deployment {
    let mut deployment = deployment.clone();
    for attempt in &mut deployment.attempts {
        if attempt.ended.is_some() {
            attempt.slots.clear();
        }
    }
    deployment
}

/// Whether an ended attempt still holds slots.
pub(crate) fn has_slots_to_release(deployment: &Deployment) -> bool {
    deployment.attempts.iter().any(|attempt| attempt.ended.is_some() && !attempt.slots.is_empty())
}
