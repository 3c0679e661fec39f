//! OpenTofu's environment in each phase, and the credentials that it has in it.

use super::Run;
use crate::tofu::Tofu;
use crate::{environment, verdict};
use canyon_domain::failure::{Failure, Phase};
use canyon_domain::job_identity::TokenPhase;
use std::ffi::OsString;

impl Run {
    pub(super) fn environment(&self, phase: TokenPhase) -> Vec<(OsString, OsString)> {
        let read_token = self.read_token.as_ref();
        let (settings, workspace) = (&self.settings, &self.workspace);
        let mut variables = environment::of_tofu(settings, workspace, &self.job, read_token, phase);
        if let Some(access) = &self.access {
            variables.extend(access.variables(&variables));
        }
        variables
    }

    /// Takes the credentials for git away: everything is fetched, and programs of the module start from here on.
    pub(super) fn close_git(&mut self, tofu: &mut Tofu) {
        if let Some(access) = self.access.take() {
            access.remove_keys();
        }
        tofu.set_environment(self.environment(TokenPhase::Plan));
    }

    /// Writes the tokens of `phase` and sets OpenTofu's environment for it.
    pub(super) async fn identify(
        &mut self,
        tofu: &mut Tofu,
        phase: TokenPhase,
    ) -> Result<(), Failure> {
        let Some(identity) = &mut self.identity else { return Ok(()) };
        let log = &mut self.transcript.log;
        if let Err(failure) = identity.enter(phase, &self.stop, log).await {
            let stopped = self.stop.is_requested();
            return Err(if stopped { verdict::cancelled(Phase::Plan, false) } else { failure });
        }
        tofu.set_environment(self.environment(phase));
        Ok(())
    }
}
