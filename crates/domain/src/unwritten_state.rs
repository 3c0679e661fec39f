//! A state that a run could not write to its storage: what the run created is in no state.
//!
//! The run itself reports it. The storage then has the state from before that run, so another run would create
//! everything a second time. Only the state that the run could not write is right: its last write may have arrived
//! although the run received no answer.

use crate::deployment::{Deployment, Mode, Status};
use crate::state_facts::StateFacts;
pub use crate::state_facts::UnwrittenState;
use serde::{Deserialize, Serialize};

impl UnwrittenState {
    /// Whether `found` is this state, or a later version with the same resources. `before` is the state from
    /// before the run. If there was none, the storage generates its own lineage, and its serials may start again.
    pub fn has_arrived(&self, before: Option<&StateFacts>, found: Option<&StateFacts>) -> bool {
        let Some((written, found)) = self.facts.as_ref().zip(found) else { return false };
        let is_later = || found.lineage == written.lineage && found.serial >= written.serial;
        (written.digest.is_some(), &written.digest, written.resources)
            == (true, &found.digest, found.resources)
            && (before.is_none() || is_later())
    }

    /// What is unwritten after `deployment`, whose apply perhaps `began`. It `moves` if it looks for the state at
    /// another place first.
    pub(crate) fn after(
        known: Option<Self>,
        deployment: &Deployment,
        began: bool,
        moves: bool,
    ) -> Option<Self> {
        if deployment.mode == Mode::State {
            // It works on the state that is there, perhaps to import into it what is in no state.
            return known;
        }
        // A destroy run creates nothing: the next run finds what it has destroyed gone.
        let creates = deployment.mode.creates();
        let mut attempts = deployment.attempts.iter().rev();
        let reported = attempts.find_map(|attempt| attempt.unwritten.clone());
        // A run looks before its plan. A report of the state, or an apply, shows that it has found this state.
        let has_found = deployment.status == Status::Succeeded
            || deployment.state.is_some()
            || (began && !moves);
        reported.filter(|_| creates).or_else(|| known.filter(|_| !has_found))
    }
}

/// A line that the runner adds to OpenTofu's `-json` lines when an apply has ended: whether the state was written. If
/// the job dies before it can report, the launcher finds the line in its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum StateEvent {
    /// OpenTofu could not write the state; the runner pushes it.
    #[serde(rename = "canyon_state_unwritten")]
    Unwritten {
        /// What is to be written; `None` if OpenTofu has not kept it beside the module.
        state: Option<StateFacts>,
    },
    /// The runner has pushed the state since.
    #[serde(rename = "canyon_state_written")]
    Written,
}

/// The summary of OpenTofu's error about a state that it could not write.
pub const UNWRITTEN_SUMMARY: &str = "Failed to save state";

/// Whether an error of OpenTofu says that it could not write the state. `address` is that of the resource which the error
/// is about. The summaries are those of `internal/backend/local/backend_apply.go`, before and after OpenTofu writes
/// `errored.tfstate`; a provider may use the same words about a resource of its own.
pub fn is_error_of_unwritten_state(summary: &str, address: Option<&str>) -> bool {
    let summaries = [UNWRITTEN_SUMMARY, "Failed to persist state"];
    address.is_none() && summaries.iter().any(|prefix| summary.starts_with(prefix))
}

impl Deployment {
    /// Attempt `number` could not write its state so far; `facts` of that state, if they are known. Returns whether this
    /// changes anything.
    pub fn could_not_write_state(&mut self, number: u32, facts: Option<StateFacts>) -> bool {
        let unwritten = Some(UnwrittenState { by: self.id, facts });
        self.set_unwritten(number, unwritten)
    }

    /// The result of attempt `number` says nothing of an unwritten state: if there was one, the run has pushed it since.
    pub fn wrote_state(&mut self, number: u32) {
        self.set_unwritten(number, None);
    }

    fn set_unwritten(&mut self, number: u32, unwritten: Option<UnwrittenState>) -> bool {
        let mut attempts = self.attempts.iter_mut();
        let Some(attempt) = attempts.find(|attempt| attempt.number == number) else { return false };
        let is_new = attempt.unwritten != unwritten;
        attempt.unwritten = unwritten;
        is_new
    }
}
