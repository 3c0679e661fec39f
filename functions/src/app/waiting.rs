//! What a deployment waits for, as its reader may know it.

use crate::App;
use crate::app::error::AppError;
use canyon_domain::concurrency::{LimitScope, MAX_NAMED_HOLDERS, held_by};
use canyon_domain::deployment::{Deployment, Status};
use canyon_domain::deployment_queue::DeploymentQueue;
use canyon_domain::ids::DeploymentId;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::waiting::{Hold, Waiting, WaitingCode};

/// Number of holders of a limit's slots that one answer checks for its reader.
const MAX_CHECKED_HOLDERS: usize = 10;

impl App {
    /// A deployment and what it waits for.
    pub(crate) async fn deployment_and_wait(
        &self,
        caller: &Principal,
        id: DeploymentId,
    ) -> Result<(Deployment, Option<Waiting>), AppError> {
        let found = self.readable_deployment(caller, id).await?;
        let turns = self.turns_of(caller, &found).await?;
        let mut waiting = Waiting::of(&found, &turns);
        if let (Some(waiting), Some(Hold::Limit(limit))) = (&mut waiting, &found.hold)
            && waiting.code == WaitingCode::ConcurrencyLimit
        {
            waiting.reason.push_str(&self.named_holders(caller, limit).await?);
        }
        Ok((found, waiting))
    }

    /// Only a queued deployment waits for others of its environment, or one that has given up its turn for a time.
    async fn turns_of(
        &self,
        caller: &Principal,
        of: &Deployment,
    ) -> Result<DeploymentQueue, AppError> {
        let has_left = of.releases_turn() && of.status == Status::Launching;
        if of.status != Status::Queued && !has_left {
            return Ok(DeploymentQueue::default());
        }
        let environment = self.table.environment(caller.org, &of.project, &of.env).await?;
        Ok(environment.map(|environment| environment.queue).unwrap_or_default())
    }

    /// The holders of a limit's slots. It names those that the caller may read, and counts the others.
    async fn named_holders(
        &self,
        caller: &Principal,
        limit: &LimitScope,
    ) -> Result<String, AppError> {
        let held = self.table.held_slots(caller.org, limit).await?;
        let mut named = Vec::new();
        for place in held.iter().take(MAX_CHECKED_HOLDERS) {
            let id = place.holder.deployment;
            if named.len() < MAX_NAMED_HOLDERS && self.may_read(caller, id).await? {
                named.push(id);
            }
        }
        let others = held.len() - named.len();
        Ok(held_by(&named, others))
    }

    async fn may_read(&self, caller: &Principal, id: DeploymentId) -> Result<bool, AppError> {
        // A viewer of the organization reads all of its deployments.
        if caller.role >= Role::Viewer {
            return Ok(true);
        }
        let found = self.table.deployment(caller.org, id).await?;
        Ok(found.is_some_and(|found| caller.role_in((&found).into()) >= Role::Viewer))
    }
}
