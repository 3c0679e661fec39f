//! A state that a run could not write to its storage: what the run created is in no state.
//!
//! The run itself reports it. Whatever lies in the storage then is of before that run, so another run would create
//! everything a second time. Only the state that was to be written is right: its last write may have arrived
//! although no answer came back.

use crate::deployment::{Deployment, Mode, Status};
use crate::environment_state::StateFacts;
use crate::ids::DeploymentId;
use serde::{Deserialize, Serialize};

/// A state that a run could not write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnwrittenState {
    /// The deployment.
    pub by: DeploymentId,
    /// What it was to write; `None` if OpenTofu could not save it beside the module either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<StateFacts>,
}

impl UnwrittenState {
    /// Whether `found` is this state, or a later version with the same resources. `before` is what lay there before
    /// the run: where there was none, the storage draws a lineage of its own, and may begin to count anew.
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
        // A destroy run creates nothing: the next run finds what it has destroyed gone.
        let creates = deployment.mode != Mode::Destroy;
        let mut attempts = deployment.attempts.iter().rev();
        let reported = attempts.find_map(|attempt| attempt.unwritten.clone());
        // A run looks before its plan. A report of the state, or an apply, shows that it has found this state.
        let has_found = deployment.status == Status::Succeeded
            || deployment.state.is_some()
            || (began && !moves);
        reported.filter(|_| creates).or_else(|| known.filter(|_| !has_found))
    }
}

impl Deployment {
    /// The result of attempt `number` says that it could not write its state; `facts` of it, if they are known.
    pub fn could_not_write_state(&mut self, number: u32, facts: Option<StateFacts>) {
        let by = self.id;
        let mut attempts = self.attempts.iter_mut();
        if let Some(attempt) = attempts.find(|attempt| attempt.number == number) {
            attempt.unwritten = Some(UnwrittenState { by, facts });
        }
    }
}
