//! Telling the world what became of deployments.
//!
//! Each record of the table's stream is told as it comes. After its end a deployment stays due until
//! the end was told: so what the stream lost, the sweeper tells, with all that went before, because
//! nobody knows then what was told. That is at least once; the ids of events tell repetitions.

use crate::{LaunchError, Launcher};
use async_trait::async_trait;
use canyon_domain::deployment::Deployment;
use canyon_domain::events::DeploymentEvent;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_store::deployment_lists::Due;
use canyon_store::error::BoxError;

/// Where events go.
#[async_trait]
pub trait Publish: Send + Sync {
    /// Publishes events, all or an error; then all are sent again.
    ///
    /// # Errors
    ///
    /// If any was not taken.
    async fn publish(&self, events: &[DeploymentEvent]) -> Result<(), BoxError>;
}

impl Launcher {
    /// Tells what a write has left, as a record of the stream shows it.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]; the record is then delivered again.
    pub async fn tell(&self, org: OrgUuid, image: &Deployment) -> Result<(), LaunchError> {
        let Some(name) = self.organization(org).await? else { return Ok(()) };
        let Some(event) = DeploymentEvent::of_write(&name, image) else { return Ok(()) };
        self.publish(image.id, &[event]).await
    }

    /// Tells all that has happened to a deployment whose end nobody has told in time.
    pub(crate) async fn tell_history(
        &self,
        due: Due,
        deployment: &Deployment,
    ) -> Result<(), LaunchError> {
        let Some(name) = self.organization(due.org).await? else { return Ok(()) };
        self.publish(due.id, &DeploymentEvent::history(&name, deployment)).await
    }

    async fn publish(
        &self,
        deployment: DeploymentId,
        events: &[DeploymentEvent],
    ) -> Result<(), LaunchError> {
        let Some(publisher) = &self.publisher else { return Ok(()) };
        let failed = |source| LaunchError::Publish { deployment, source };
        publisher.publish(events).await.map_err(failed)
    }
}
