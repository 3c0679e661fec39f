//! Waits for the end of a deployment.

use super::App;
use super::permissions::of_caller;
use crate::app::error::AppError;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::DeploymentId;
use canyon_domain::principal::{Principal, Role};
use std::sync::Arc;
use std::time::Duration;

impl App {
    /// The deployment once it has ended; `None` if it has not ended within `longest`, or if the caller has used up its
    /// waiting time.
    pub(crate) async fn wait_for_end(
        &self,
        by: &Principal,
        id: DeploymentId,
        longest: Duration,
    ) -> Result<Option<Arc<Deployment>>, AppError> {
        let waiting = self.changes.wait_for(by, by.org, id);
        let read = async || -> Result<Option<_>, AppError> {
            let found = waiting.deployment(&self.table).await?;
            let found = of_caller(by, Role::Viewer, id, found)?;
            Ok(Some(found).filter(|deployment| deployment.status.is_terminal()))
        };
        self.bounded_wait(by, longest, async |longest| waiting.until(longest, read).await).await
    }
}
