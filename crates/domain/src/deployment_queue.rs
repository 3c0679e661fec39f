//! The deployment queue of an environment: one deployment runs at a time, the others wait in order.
//!
//! The [`DeploymentQueue`] of an environment are stored with it and change only under its version, so two launchers can
//! never both give out the turn. The order is the order of acceptance: the transaction that accepts a
//! deployment appends it.

use crate::ids::DeploymentId;
use serde::{Deserialize, Serialize};

/// Maximum number of deployments that wait in one environment. It bounds the size of the item in the table.
pub const MAX_WAITING: usize = 100;

/// The deployment that has the turn in an environment, and the waiting ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentQueue {
    /// The deployment that has the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<DeploymentId>,
    /// The waiting deployments, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<DeploymentId>,
    /// Those that have given up their turn while their plans wait for approval, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<DeploymentId>,
    /// Increases with every attempt in this environment. A request of an attempt with an older fence is
    /// refused, so that a runner that was declared dead cannot act for a later attempt.
    pub fence: u64,
}

/// The environment's queue is full.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{MAX_WAITING} deployments already wait in this environment; cancel some, or wait for them"
)]
pub struct QueueFull;

impl DeploymentQueue {
    /// Appends `deployment`. Idempotent.
    ///
    /// # Errors
    ///
    /// [`QueueFull`] if [`MAX_WAITING`] deployments already wait.
    pub fn join(&mut self, deployment: DeploymentId) -> Result<(), QueueFull> {
        if self.waiting.len() >= MAX_WAITING && !self.has(deployment) {
            return Err(QueueFull);
        }
        self.append(deployment);
        Ok(())
    }

    /// Appends a run of the deletion of the environment. There are no more of them than resources, and one for the module.
    pub fn append(&mut self, deployment: DeploymentId) {
        if !self.has(deployment) {
            self.waiting.push(deployment);
        }
    }

    /// `deployment` gives up its turn for a time. Returns the deployment that may start now, if that has changed. If
    /// [`MAX_WAITING`] have done so already, it stays.
    pub fn step_aside(&mut self, deployment: DeploymentId) -> Option<DeploymentId> {
        if self.away.len() >= MAX_WAITING {
            return None;
        }
        let next = self.leave(deployment);
        self.away.push(deployment);
        next
    }

    /// Puts `deployment`, which has given up its turn for a time, back at its place in the order of acceptance. Idempotent.
    ///
    /// # Errors
    ///
    /// [`QueueFull`] if [`MAX_WAITING`] deployments already wait.
    pub fn rejoin(&mut self, deployment: DeploymentId) -> Result<(), QueueFull> {
        if self.has(deployment) {
            return Ok(());
        }
        if self.waiting.len() >= MAX_WAITING {
            return Err(QueueFull);
        }
        // Their ids are in the order of their creation (UUID version 7).
        self.away.retain(|id| *id != deployment);
        let later = self.waiting.iter().position(|other| other.0 > deployment.0);
        self.waiting.insert(later.unwrap_or(self.waiting.len()), deployment);
        Ok(())
    }

    fn has(&self, deployment: DeploymentId) -> bool {
        self.current == Some(deployment) || self.waiting.contains(&deployment)
    }

    /// Whether `deployment` may start: it has the turn, or the turn is free and it is the first in the queue.
    pub fn is_next(&self, deployment: DeploymentId) -> bool {
        match self.current {
            Some(current) => current == deployment,
            None => self.waiting.first() == Some(&deployment),
        }
    }

    /// Gives the turn to `deployment` and allocates the fence of its next attempt; `None` if it must wait.
    pub fn take(&mut self, deployment: DeploymentId) -> Option<u64> {
        if !self.is_next(deployment) {
            return None;
        }
        self.waiting.retain(|id| *id != deployment);
        self.current = Some(deployment);
        self.fence += 1;
        Some(self.fence)
    }

    /// Removes `deployment`, whether it had the turn or waited. Returns the deployment that may start now, if
    /// that has changed.
    pub fn leave(&mut self, deployment: DeploymentId) -> Option<DeploymentId> {
        let before = self.head();
        if self.current == Some(deployment) {
            self.current = None;
        }
        self.waiting.retain(|id| *id != deployment);
        self.away.retain(|id| *id != deployment);
        let after = self.head();
        after.filter(|_| after != before)
    }

    /// The deployment that has the turn, or may take it.
    pub fn head(&self) -> Option<DeploymentId> {
        self.current.or_else(|| self.waiting.first().copied())
    }

    /// The deployment that `deployment` waits for: its predecessor.
    pub fn blocked_by(&self, deployment: DeploymentId) -> Option<DeploymentId> {
        if self.current == Some(deployment) {
            return None;
        }
        let place = self.waiting.iter().position(|id| *id == deployment)?;
        if place == 0 { self.current } else { self.waiting.get(place - 1).copied() }
    }

    /// Whether nothing runs and nothing waits, also not for approval.
    pub fn is_idle(&self) -> bool {
        self.current.is_none() && self.waiting.is_empty() && self.away.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use uuid::Uuid;

    fn id(n: u128) -> DeploymentId {
        DeploymentId(Uuid::from_u128(n))
    }

    #[test]
    fn a_full_queue_takes_the_runs_of_a_deletion_and_no_others() {
        let mut queue = DeploymentQueue::default();
        for n in 0..100 {
            queue.join(id(n)).unwrap();
        }
        assert_eq!(queue.join(id(100)), Err(QueueFull));
        assert_eq!(queue.join(id(99)), Ok(()), "it is there already");
        for _ in 0..2 {
            queue.append(id(100));
        }
        assert_eq!(queue.waiting.len(), 101);
    }

    #[test]
    fn one_deployment_has_the_turn_and_the_others_follow_in_order() {
        let mut queue = DeploymentQueue::default();
        assert!(queue.is_idle());
        for n in 1..=3 {
            queue.join(id(n)).unwrap();
        }
        assert!(!queue.is_idle(), "they wait");
        assert_eq!(queue.take(id(2)), None);
        assert_eq!(queue.take(id(1)), Some(1));
        assert_eq!(queue.blocked_by(id(2)), Some(id(1)));
        assert_eq!(queue.blocked_by(id(3)), Some(id(2)));
        assert_eq!(queue.take(id(1)), Some(2), "a second attempt keeps the turn, with a new fence");
        assert_eq!(queue.leave(id(1)), Some(id(2)));
        assert_eq!(queue.take(id(2)), Some(3));
        queue.leave(id(3));
        assert!(!queue.is_idle(), "one has the turn");
        queue.leave(id(2));
        assert!(queue.is_idle());
    }

    #[test]
    fn a_deployment_that_leaves_the_middle_of_the_queue_releases_no_other() {
        let mut queue = DeploymentQueue::default();
        for n in 1..=3 {
            queue.join(id(n)).unwrap();
        }
        queue.take(id(1));
        assert_eq!(queue.leave(id(2)), None);
        assert_eq!(queue.blocked_by(id(3)), Some(id(1)));
    }

    #[test]
    fn a_deployment_that_gave_up_its_turn_comes_back_at_its_place() {
        let mut queue = DeploymentQueue::default();
        for n in [1, 3, 5] {
            queue.join(id(n)).unwrap();
        }
        queue.take(id(1));
        assert_eq!(queue.step_aside(id(1)), Some(id(3)), "the next one may start");
        assert_eq!(queue.away, [id(1)]);
        queue.take(id(3));
        for n in [4, 1, 1] {
            queue.rejoin(id(n)).unwrap();
        }
        assert_eq!(
            (queue.waiting.as_slice(), queue.away.len()),
            ([id(1), id(4), id(5)].as_slice(), 0)
        );
        assert_eq!(queue.current, Some(id(3)), "it interrupts none");
        for n in 6..103 {
            queue.join(id(n)).unwrap();
        }
        assert_eq!(queue.rejoin(id(2)), Err(QueueFull));
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut queue = DeploymentQueue::default();
        for n in 0..MAX_WAITING as u128 {
            queue.join(id(n)).unwrap();
        }
        assert_eq!(queue.join(id(1_000)), Err(QueueFull));
    }

    proptest! {
        /// Against a plain first-in-first-out queue: never two at once, never out of order.
        #[test]
        fn turns_agree_with_a_queue(steps in prop::collection::vec((0..3_u8, 0..6_u128), 0..60)) {
            let mut turns = DeploymentQueue::default();
            let mut queue: VecDeque<u128> = VecDeque::new();
            let mut running = None;
            let mut fence = 0;
            for (step, n) in steps {
                match step {
                    0 => {
                        turns.join(id(n)).unwrap();
                        if running != Some(n) && !queue.contains(&n) { queue.push_back(n); }
                    }
                    1 => {
                        let may = running == Some(n) || (running.is_none() && queue.front() == Some(&n));
                        let drawn = turns.take(id(n));
                        prop_assert_eq!(drawn.is_some(), may);
                        if may {
                            queue.retain(|m| *m != n);
                            running = Some(n);
                            prop_assert!(drawn > Some(fence));
                            fence = drawn.unwrap();
                        }
                    }
                    _ => {
                        turns.leave(id(n));
                        if running == Some(n) { running = None; }
                        queue.retain(|m| *m != n);
                    }
                }
                prop_assert_eq!(turns.current, running.map(id));
                prop_assert_eq!(&turns.waiting, &queue.iter().map(|n| id(*n)).collect::<Vec<_>>());
            }
        }
    }
}
