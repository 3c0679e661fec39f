//! A lock on the state in the way of OpenTofu: who holds it, and whether it may be broken.
//!
//! OpenTofu's words for a lock are the template of `LockInfo.String` in its `statemgr/locker.go`
//! (1.12), the same for each kind of storage. Canyon judges it; this obeys.

use crate::event::Diagnostic;
use crate::neighbours;
use crate::session::Line;
use crate::stop::{Stop, Wish};
use crate::{backoff::Backoff, log::Log, tofu::Tofu, workspace::Workspace};
use canyon_api::attempt::{JudgeLockBody, LockVerdict};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::ids::EnvUuid;
use jiff::Timestamp;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a lock of somebody else is waited for.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// How long the proof that an earlier attempt's job is gone is waited for.
const PROOF_TIME: Duration = Duration::from_mins(5);
/// Between two tries of a command that does not wait for a lock by itself.
const PAUSE: Duration = Duration::from_secs(5);

/// The lock that an error of OpenTofu tells of, if it does. An error about a resource repeats what its provider or its
/// provisioner said, and that may be of the lock of another state.
pub fn in_error(error: &Diagnostic) -> Option<JudgeLockBody> {
    if error.address.is_some() {
        return None;
    }
    // Some commands tell it in the summary alone.
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
        neighbour: None,
    })
}

/// Go's `time.Time.String`: `2026-11-21 10:04:47.123456789 +0000 UTC`.
fn parse_time(text: &str) -> Option<Timestamp> {
    let mut parts = text.split_whitespace();
    let (date, time, offset) = (parts.next()?, parts.next()?, parts.next()?);
    let (hours, minutes) = offset.split_at_checked(3)?;
    format!("{date}T{time}{hours}:{minutes}").parse().ok()
}

/// What a run has been through with locks in its way.
#[derive(Debug, Default)]
pub struct Locks {
    /// The locks that were freed.
    freed: HashSet<String>,
    /// Until when somebody else's lock is waited for.
    patience: Option<Instant>,
    /// What was last said of the lock.
    said: Option<String>,
}

/// What a judge needs at hand.
#[derive(Clone, Copy, Debug)]
pub struct Bench<'a> {
    /// Who judges.
    pub line: &'a Line,
    /// What frees.
    pub tofu: &'a Tofu,
    /// Where the run works.
    pub workspace: &'a Workspace,
    /// The environment whose state it is: where the state lies is named for it.
    pub environment: EnvUuid,
    /// Whether the run shall go on.
    pub stop: &'a Stop,
}

impl Locks {
    /// A lock is in the way. Returns when the command may be tried again, or the run shall stop.
    ///
    /// # Errors
    ///
    /// The failure of the run, when the lock stays.
    pub async fn pass(
        &mut self,
        lock: &JudgeLockBody,
        bench: Bench<'_>,
        log: &mut Log,
    ) -> Result<(), Failure> {
        if self.freed.contains(&lock.id) {
            let text = format!("{}; it could not be freed: see the log", told(lock));
            return Err(Failure::new(FailureClass::Config, text));
        }
        let met = Instant::now();
        let mut backoff = Backoff::default();
        while bench.stop.wish() == Wish::Run {
            let neighbour = neighbours::possible_holder(lock, bench.workspace, bench.environment);
            let asked = JudgeLockBody { neighbour, ..lock.clone() };
            let (reason, class, limit) = match bench.line.judge_lock(&asked).await {
                Ok(answer) => match answer.verdict {
                    LockVerdict::Keep => return self.wait(lock, &answer.reason, bench, log).await,
                    LockVerdict::Wait => (answer.reason, FailureClass::Timeout, PROOF_TIME),
                    LockVerdict::Break => {
                        self.free(lock, &answer.reason, bench, log).await;
                        return Ok(());
                    }
                },
                Err(error) if error.is_final() => {
                    (format!("cannot ask about it: {error}"), FailureClass::User, Duration::ZERO)
                }
                Err(error) => (error.to_string(), FailureClass::Timeout, PROOF_TIME),
            };
            if met.elapsed() >= limit {
                return Err(stays(class, lock, &reason));
            }
            self.say(format!("{}: {reason}", told(lock)), log);
            tokio::select! {
                () = sleep(backoff.pause()) => {}
                () = bench.stop.reached(Wish::Stop) => {}
            }
        }
        Ok(())
    }

    /// It is somebody else's, who may need it for a moment only.
    async fn wait(
        &mut self,
        lock: &JudgeLockBody,
        reason: &str,
        bench: Bench<'_>,
        log: &mut Log,
    ) -> Result<(), Failure> {
        let until = *self.patience.get_or_insert_with(|| Instant::now() + PATIENCE);
        if Instant::now() >= until {
            return Err(stays(FailureClass::User, lock, reason));
        }
        self.say(format!("{}: {reason}; waiting for it", told(lock)), log);
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = bench.stop.reached(Wish::Stop) => {}
        }
        Ok(())
    }

    /// How long OpenTofu itself is to wait for a lock: not at all at first, since nobody may live to
    /// free it.
    pub fn timeout(&self) -> &'static str {
        if self.patience.is_some() { "-lock-timeout=15s" } else { "-lock-timeout=0s" }
    }

    async fn free(&mut self, lock: &JudgeLockBody, proof: &str, bench: Bench<'_>, log: &mut Log) {
        log.warn(&format!("breaking the lock {} of `{}`: {proof}", lock.id, lock.who));
        log.flush();
        // It names the lock: one that somebody has made meanwhile is not freed. Whether it was
        // freed, the next try shows.
        if bench.tofu.ask(&["force-unlock", "-force", &lock.id]).await.is_none() {
            log.warn("`force-unlock` failed; trying again without it");
        }
        self.freed.insert(lock.id.clone());
    }

    fn say(&mut self, text: String, log: &mut Log) {
        if self.said.as_ref() != Some(&text) {
            log.step(&text);
            log.flush();
            self.said = Some(text);
        }
    }
}

/// Who holds the lock, and since when.
fn told(lock: &JudgeLockBody) -> String {
    let operation = lock.operation.trim_start_matches("OperationType").to_lowercase();
    let doing = if operation.is_empty() { String::new() } else { format!(" for `{operation}`") };
    format!(
        "the state is locked by `{}` since {:.0}{doing} (lock {})",
        lock.who, lock.created, lock.id
    )
}

/// The lock stays, and with it the run ends.
fn stays(class: FailureClass, lock: &JudgeLockBody, reason: &str) -> Failure {
    let text = format!(
        "{}: {reason}. If you know that nobody works on this state, free it: `tofu force-unlock {}` \
         in a folder with this backend",
        told(lock),
        lock.id
    );
    Failure::new(class, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(summary: &str, detail: &str) -> Diagnostic {
        Diagnostic { summary: summary.into(), detail: detail.into(), ..Diagnostic::default() }
    }

    /// As OpenTofu 1.12.6 says it.
    fn detail(id: &str, who: &str, created: &str) -> String {
        format!(
            "Error message: writing \"gs://states/a/default.tflock\" failed: googleapi: Error 412\n\
             Lock Info:\n  ID:        {id}\n  Path:      gs://states/a/default.tflock\n  \
             Operation: OperationTypeApply\n  Who:       {who}\n  Version:   1.12.6\n  \
             Created:   {created}\n  Info:      \n\n\nOpenTofu acquires a state lock"
        )
    }

    #[test]
    fn a_lock_is_read_from_the_words_of_opentofu() {
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
        assert_eq!(in_error(&nested), None, "a provisioner has met a lock of its own");
    }
}
