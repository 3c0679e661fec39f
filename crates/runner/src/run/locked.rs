//! Runs OpenTofu commands that take the state's lock, which another process may hold.

use super::Run;
use crate::lock::{self, LockContext, Locks};
use crate::session::ApiConnection;
use crate::tofu::{Ended, Tofu};
use canyon_api::attempt::JudgeLockBody;
use canyon_domain::failure::{Failure, Phase};

/// The placeholder for the option that sets how long OpenTofu waits for a lock.
pub(super) const LOCK_TIMEOUT: &str = "-lock-timeout";

/// `arguments` with `timeout` in place of [`LOCK_TIMEOUT`].
pub(super) fn with_timeout<'a>(arguments: &[&'a str], timeout: &'a str) -> Vec<&'a str> {
    let filled_in = arguments.iter().map(|it| if *it == LOCK_TIMEOUT { timeout } else { it });
    filled_in.collect()
}

impl Run {
    /// Runs one process of OpenTofu, and retries after each lock that it met, as long as it has changed nothing.
    pub(super) async fn step_past_locks(
        &mut self,
        tofu: &mut Tofu,
        api: &ApiConnection,
        phase: Phase,
        arguments: &[&str],
    ) -> Result<Ended, Failure> {
        let mut locks = Locks::default();
        loop {
            let arguments = with_timeout(arguments, locks.timeout());
            let ended = self.step(tofu, phase, &arguments).await?;
            let facts = &self.transcript.facts;
            let is_unchanged = ended == Ended::Exited(1) && !facts.has_begun;
            let lock = facts.error.as_ref().filter(|_| is_unchanged).and_then(lock::in_error);
            let Some(lock) = lock else { return Ok(ended) };
            self.resolve_lock(&mut locks, &lock, tofu, api).await?;
        }
    }

    /// Waits for a lock of another process, or frees it.
    pub(super) async fn resolve_lock(
        &mut self,
        locks: &mut Locks,
        lock: &JudgeLockBody,
        tofu: &Tofu,
        api: &ApiConnection,
    ) -> Result<(), Failure> {
        let context = LockContext { api, tofu, job: &self.job, stop: &self.stop };
        locks.resolve(lock, context, &mut self.transcript.log).await
    }
}
