//! Runners that an administrator has disabled.

use crate::{LaunchError, Launcher};
use canyon_dispatch::ChosenAgent;
use canyon_domain::ids::OrgUuid;
use canyon_store::runners::RunnerRecord;

impl Launcher {
    /// Why the launcher starts no job with the runner, if an administrator has disabled it.
    ///
    /// A deployment that names the machine of its own requester is started nevertheless (`canyon deploy --local`):
    /// to adopt that machine, the requester had to be an administrator, who may enable the runner too.
    pub(crate) async fn disabled_reason(
        &self,
        org: OrgUuid,
        runner: &RunnerRecord,
        agent: Option<&ChosenAgent>,
    ) -> Result<Option<String>, LaunchError> {
        if !runner.disabled {
            return Ok(None);
        }
        if let Some(chosen) = agent
            && let Some(found) = self.table.agent(org, &chosen.id).await?
            && found.reserved
            && found.may_serve_alone(&runner.id, None)
            && found.launches_for(chosen.by)
        {
            return Ok(None);
        }
        Ok(Some(format!("runner `{}` is disabled", runner.id)))
    }
}
