//! The apply, and what it leaves.

use super::Run;
use super::locked::LOCK_TIMEOUT;
use crate::applying::Applying;
use crate::facts::StateSize;
use crate::orphans;
use crate::result::Outcome;
use crate::session::ApiConnection;
use crate::tofu::{Ended, Tofu};
use crate::{verdict, workspace};
use canyon_domain::deployment::Mode;
use canyon_domain::failure::{FailureClass, Phase};
use canyon_domain::job_identity::TokenPhase;
use jiff::Timestamp;

impl Run {
    /// Applies the plan, once Canyon knows of it.
    pub(super) async fn apply(
        &mut self,
        tofu: &mut Tofu,
        api: &ApiConnection,
    ) -> Result<(), Outcome> {
        // From here on the world may change, so Canyon must know before.
        self.applying = Applying::Announced;
        let forgets = self.transcript.facts.planned.is_some_and(|planned| planned.forget > 0);
        if !self.progress.ask_to_apply(forgets, &self.stop).await {
            self.progress.enter(Phase::Plan);
            return Err(verdict::cancelled(Phase::Plan, false).into());
        }
        self.identify(tofu, TokenPhase::Apply).await?;
        let plan_file = self.workspace.path(workspace::PLAN).display().to_string();
        let options = self.job.bundle.options.of_apply();
        let mut arguments = vec!["apply", "-json", "-input=false", LOCK_TIMEOUT];
        arguments.extend(options.as_deref());
        arguments.push(&plan_file);
        let since = Timestamp::now();
        let ended = self.step_past_locks(tofu, api, Phase::Apply, &arguments).await?;
        if ended != Ended::NotStarted {
            self.applying = Applying::Begun;
        }
        // Judged now: to push the state may take until the run is to stop.
        let judged = self.expect(tofu, Phase::Apply, ended, &[0]);
        let saved = self.save_errored_state(tofu, api, since).await;
        let is_lost = self.state.unwritten.is_some();
        let in_doubt = is_lost || self.transcript.facts.cut_off || ended.is_crash();
        self.state.incomplete = if self.job.mode == Mode::Destroy {
            // A destroy run creates nothing. It forgets the resources that the module keeps (`lifecycle.destroy`).
            forgets
        } else {
            in_doubt
        };
        let Err(mut failure) = judged else { return Ok(()) };
        self.name_stale_plan(&mut failure);
        if is_lost && failure.class == FailureClass::Cancelled {
            "stopped during the apply".clone_into(&mut failure.message);
        }
        if let Some(said) = saved {
            failure.message = format!("{}; {said}", failure.message);
        }
        // The runner does not read from an unavailable storage again: the job may have to end. Reading takes no lock.
        let state = if is_lost { None } else { tofu.ask(&["state", "pull"]).await };
        let facts = &mut self.transcript.facts;
        facts.state = StateSize::of_pulled(state.as_deref());
        let orphans = match (is_lost, in_doubt) {
            (true, _) => orphans::all(facts),
            (false, true) => orphans::find(tofu, facts).await,
            (false, false) => Vec::new(),
        };
        Err(Outcome { orphans, ..failure.into() })
    }
}
