//! Handles a state lock that another process holds: asks Canyon who holds it and whether the runner may break it.
//!
//! OpenTofu describes a lock with the template of `LockInfo.String` in its `statemgr/locker.go`
//! (1.12), the same for each kind of storage. Canyon decides; the runner does what the decision says.

use crate::event::Diagnostic;
use crate::host_processes;
use crate::session::ApiConnection;
use crate::stop::{Stop, StopRequest};
use crate::{backoff::Backoff, log::Log, tofu::Tofu};
use canyon_api::attempt::{JudgeLockAnswer, JudgeLockBody, LockDecision};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::job::Job;
use jiff::Timestamp;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the runner waits for a lock that another process holds.
pub const LOCK_WAIT: Duration = Duration::from_mins(1);
/// How long the runner waits for the proof that an earlier attempt's job has ended.
const PROOF_WAIT: Duration = Duration::from_mins(5);
/// The pause between two tries of a command that does not itself wait for a lock.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The lock that an error of OpenTofu reports, if it reports one. An error about a resource is ignored: it repeats
/// the text of a provider or a provisioner, which may be about the lock of another state.
pub fn in_error(error: &Diagnostic) -> Option<JudgeLockBody> {
    if error.address.is_some() {
        return None;
    }
    // Some commands report the lock in the summary only.
    let texts = [&error.detail, &error.summary];
    let info = texts.iter().find_map(|text| text.split_once("Lock Info:"))?.1;
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.trim_start().strip_prefix(name));
        line.and_then(|line| line.strip_prefix(':')).map(|value| value.trim().to_owned())
    };
    let id = field("ID").filter(|id| !id.is_empty())?;
    let created = parse_time(&field("Created")?)?;
    Some(JudgeLockBody {
        id,
        who: field("Who").unwrap_or_default(),
        created,
        operation: field("Operation").unwrap_or_default(),
        host_process: None,
    })
}

/// Go's `time.Time.String`: `2026-11-21 10:04:47.123456789 +0000 UTC`.
fn parse_time(text: &str) -> Option<Timestamp> {
    let mut parts = text.split_whitespace();
    let (date, time, offset) = (parts.next()?, parts.next()?, parts.next()?);
    let (hours, minutes) = offset.split_at_checked(3)?;
    format!("{date}T{time}{hours}:{minutes}").parse().ok()
}

/// The locks that a run has met.
#[derive(Debug, Default)]
pub struct Locks {
    /// The ids of the locks that the runner has freed.
    freed: HashSet<String>,
    /// When the wait for locks of other processes ends; set at the first such lock.
    wait_until: Option<Instant>,
    /// The last text about a lock in the log.
    logged: Option<String>,
}

/// What [`Locks::resolve`] works with.
#[derive(Clone, Copy, Debug)]
pub struct LockContext<'a> {
    /// Canyon, which decides about the lock.
    pub api: &'a ApiConnection,
    /// OpenTofu, which frees the lock.
    pub tofu: &'a Tofu,
    /// The job. The location of the state contains the uuid of its environment.
    pub job: &'a Job,
    /// Whether the run is to stop.
    pub stop: &'a Stop,
}

impl Locks {
    /// Waits for the lock or frees it. Returns when the command may be retried, or when the run is to stop.
    ///
    /// # Errors
    ///
    /// The failure of the run, if the lock remains.
    pub async fn resolve(
        &mut self,
        lock: &JudgeLockBody,
        context: LockContext<'_>,
        log: &mut Log,
    ) -> Result<(), Failure> {
        self.refuse_again(lock)?;
        let started = Instant::now();
        let mut backoff = Backoff::default();
        while !context.stop.is_requested() {
            let host_process = host_processes::possible_holder(lock, context.job.env_uuid).await;
            let asked = JudgeLockBody { host_process, ..lock.clone() };
            let (reason, class, limit) = match context.api.judge_lock(&asked).await {
                Ok(answer) => match answer.decision {
                    LockDecision::Keep => return self.wait(lock, &answer, context, log).await,
                    LockDecision::Wait => (answer.reason, FailureClass::Timeout, PROOF_WAIT),
                    LockDecision::Break => {
                        return self.free(lock, &answer.reason, context, log).await;
                    }
                },
                Err(error) if error.is_final() => {
                    (format!("cannot ask about it: {error}"), FailureClass::User, Duration::ZERO)
                }
                Err(error) => (error.to_string(), FailureClass::Timeout, PROOF_WAIT),
            };
            if started.elapsed() >= limit {
                return Err(lock_failure(class, lock, &reason, Some(context.job)));
            }
            self.log_once(format!("{}: {reason}", describe(lock)), log);
            tokio::select! {
                () = sleep(backoff.pause()) => {}
                () = context.stop.reached(StopRequest::Stop) => {}
            }
        }
        Ok(())
    }

    /// Frees the lock if its holder is proved dead.
    ///
    /// # Errors
    ///
    /// The failure of the run, if Canyon keeps the lock.
    pub async fn free_if_dead(
        &mut self,
        lock: &JudgeLockBody,
        context: LockContext<'_>,
        log: &mut Log,
    ) -> Result<(), Failure> {
        // As if it had waited for the holder already.
        self.wait_until = Some(Instant::now());
        self.resolve(lock, context, log).await
    }

    /// Whether it has freed a lock.
    pub fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    fn refuse_again(&self, lock: &JudgeLockBody) -> Result<(), Failure> {
        if !self.freed.contains(&lock.id) {
            return Ok(());
        }
        let text = format!("{}; it could not be freed: see the log", describe(lock));
        Err(Failure::new(FailureClass::Config, text))
    }

    /// Waits a moment: another process holds the lock and may release it soon.
    async fn wait(
        &mut self,
        lock: &JudgeLockBody,
        answer: &JudgeLockAnswer,
        context: LockContext<'_>,
        log: &mut Log,
    ) -> Result<(), Failure> {
        let until = *self.wait_until.get_or_insert_with(|| Instant::now() + LOCK_WAIT);
        if Instant::now() >= until {
            let free = Some(context.job).filter(|_| !answer.must_stay);
            return Err(lock_failure(FailureClass::User, lock, &answer.reason, free));
        }
        self.log_once(format!("{}: {}; waiting for it", describe(lock), answer.reason), log);
        tokio::select! {
            () = sleep(RETRY_PAUSE) => {}
            () = context.stop.reached(StopRequest::Stop) => {}
        }
        Ok(())
    }

    /// How long OpenTofu itself waits for a lock: not at all at first, because the lock's owner may have died
    /// without freeing it.
    pub fn timeout(&self) -> &'static str {
        if self.wait_until.is_some() { "-lock-timeout=15s" } else { "-lock-timeout=0s" }
    }

    /// Frees the lock, once.
    ///
    /// # Errors
    ///
    /// The failure of the run, if the lock was freed before and is still there.
    pub async fn free(
        &mut self,
        lock: &JudgeLockBody,
        proof: &str,
        context: LockContext<'_>,
        log: &mut Log,
    ) -> Result<(), Failure> {
        self.refuse_again(lock)?;
        log.warn(&format!("breaking the lock {} of `{}`: {proof}", lock.id, lock.who));
        log.flush();
        // The command names the lock's id, so it does not free a newer lock. Whether it freed this one, the next try
        // shows.
        if context.tofu.ask(&["force-unlock", "-force", &lock.id]).await.is_none() {
            log.warn("`force-unlock` failed; trying again without it");
        }
        self.freed.insert(lock.id.clone());
        Ok(())
    }

    fn log_once(&mut self, text: String, log: &mut Log) {
        if self.logged.as_ref() != Some(&text) {
            log.step(&text);
            log.flush();
            self.logged = Some(text);
        }
    }
}

/// A text that says who holds the lock, and since when.
pub fn describe(lock: &JudgeLockBody) -> String {
    let operation = lock.operation.trim_start_matches("OperationType").to_lowercase();
    let doing = if operation.is_empty() { String::new() } else { format!(" for `{operation}`") };
    format!(
        "the state is locked by `{}` since {:.0}{doing} (lock {})",
        lock.who, lock.created, lock.id
    )
}

/// The failure of a run that ends because the lock remains. `free` is the job for whose environment a person may free it.
fn lock_failure(
    class: FailureClass,
    lock: &JudgeLockBody,
    reason: &str,
    free: Option<&Job>,
) -> Failure {
    let advice = free.map_or_else(String::new, |job| {
        format!(
            ". If you know that no process works on this state, have an administrator free it: `canyon force-unlock {} {} \
             {} --force`",
            job.project_id, job.env_id, lock.id
        )
    });
    Failure::new(class, format!("{}: {reason}{advice}", describe(lock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(summary: &str, detail: &str) -> Diagnostic {
        Diagnostic { summary: summary.into(), detail: detail.into(), ..Diagnostic::default() }
    }

    /// The text of OpenTofu 1.12.6.
    fn detail(id: &str, who: &str, created: &str) -> String {
        format!(
            "Error message: writing \"gs://states/a/default.tflock\" failed: googleapi: Error 412\n\
             Lock Info:\n  ID:        {id}\n  Path:      gs://states/a/default.tflock\n  \
             Operation: OperationTypeApply\n  Who:       {who}\n  Version:   1.12.6\n  \
             Created:   {created}\n  Info:      \n\n\nOpenTofu acquires a state lock"
        )
    }

    #[test]
    fn a_lock_is_read_from_an_error_of_opentofu() {
        let created = "2026-11-21 10:04:47.123456789 +0000 UTC";
        let text = detail("1732183487123456", "@canyon-0192-1-x7k2p", created);
        for error in [error("Error acquiring the state lock", &text), error(&text, "")] {
            let lock = in_error(&error).unwrap();
            assert_eq!(lock.id, "1732183487123456");
            assert_eq!(lock.who, "@canyon-0192-1-x7k2p");
            assert_eq!(lock.operation, "OperationTypeApply");
            assert_eq!(lock.created, "2026-11-21T10:04:47.123456789Z".parse().unwrap());
        }
        for (id, created) in [("", created), ("1", ""), ("1", "yesterday"), ("1", "a b +1é")] {
            assert_eq!(in_error(&error("locked", &detail(id, "root@x", created))), None);
        }
        assert_eq!(in_error(&error("Error acquiring the state lock", "it is locked")), None);
        let nested = Diagnostic {
            address: Some("terraform_data.nested".to_owned()),
            ..error("local-exec provisioner error", &text)
        };
        assert_eq!(in_error(&nested), None, "the lock is one that a provisioner reported");
    }
}
