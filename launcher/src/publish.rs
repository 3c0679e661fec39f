//! Publishes the events of deployments.
//!
//! Each record of the table's stream is published as it arrives. After its end a deployment stays
//! due until the end was published: if the stream lost the record, the sweep publishes the whole
//! history, because it cannot know which events were published before. So delivery is at least
//! once; a repeated event has the same id.

use crate::{LaunchError, Launcher};
use async_trait::async_trait;
use canyon_domain::deployment::Deployment;
use canyon_domain::events::DeploymentEvent;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_store::deployment_lists::Due;
use canyon_store::error::BoxError;

/// Publishes events to the event bus.
#[async_trait]
pub trait Publish: Send + Sync {
    /// Publishes events. On an error, some may have been published; the caller sends all of them
    /// again.
    ///
    /// # Errors
    ///
    /// If any event was not accepted.
    async fn publish(&self, events: &[DeploymentEvent]) -> Result<(), BoxError>;
}

impl Launcher {
    /// Publishes the event of a write, from its record of the stream.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Store`] if the organization cannot be read, [`LaunchError::Publish`] if the
    /// bus did not accept the event. The record is then delivered again.
    pub async fn publish_write(&self, org: OrgUuid, image: &Deployment) -> Result<(), LaunchError> {
        let Some(name) = self.organization(org).await? else { return Ok(()) };
        self.publish(image.id, &DeploymentEvent::of_write(&name, image)).await
    }

    /// Publishes the whole history of a deployment whose end was not published in time.
    pub(crate) async fn publish_history(
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
        let Some(publisher) = self.publisher.as_ref().filter(|_| !events.is_empty()) else {
            return Ok(());
        };
        let failed = |source| LaunchError::Publish { deployment, source };
        publisher.publish(events).await.map_err(failed)
    }
}
