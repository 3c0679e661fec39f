//! OpenTofu's processes that take the state's lock, which may be another's.

use super::Run;
use crate::lock::{self, Bench, Locks};
use crate::session::Line;
use crate::tofu::{Ended, Tofu};
use canyon_api::attempt::JudgeLockBody;
use canyon_domain::failure::{Failure, Phase};

/// Stands for how long OpenTofu waits for a lock.
pub(super) const LOCK_TIMEOUT: &str = "-lock-timeout";

/// `arguments` with this time to wait for a lock.
pub(super) fn with_timeout<'a>(arguments: &[&'a str], timeout: &'a str) -> Vec<&'a str> {
    let filled_in = arguments.iter().map(|it| if *it == LOCK_TIMEOUT { timeout } else { it });
    filled_in.collect()
}

impl Run {
    /// One process of OpenTofu, again after each lock that was in its way, as long as it has changed nothing.
    pub(super) async fn step_past_locks(
        &mut self,
        tofu: &mut Tofu,
        line: &Line,
        phase: Phase,
        arguments: &[&str],
    ) -> Result<Ended, Failure> {
        let mut locks = Locks::default();
        loop {
            let arguments = with_timeout(arguments, locks.timeout());
            let ended = self.step(tofu, phase, &arguments).await?;
            let facts = &self.transcript.facts;
            let is_kept_out = ended == Ended::Exited(1) && !facts.has_begun;
            let lock = facts.error.as_ref().filter(|_| is_kept_out).and_then(lock::in_error);
            let Some(lock) = lock else { return Ok(ended) };
            self.pass(&mut locks, &lock, tofu, line).await?;
        }
    }

    /// Waits for a lock that is in the way, or frees it.
    pub(super) async fn pass(
        &mut self,
        locks: &mut Locks,
        lock: &JudgeLockBody,
        tofu: &Tofu,
        line: &Line,
    ) -> Result<(), Failure> {
        let bench = Bench {
            line,
            tofu,
            workspace: &self.workspace,
            environment: self.job.env_uuid,
            stop: &self.stop,
        };
        locks.pass(lock, bench, &mut self.transcript.log).await
    }
}
