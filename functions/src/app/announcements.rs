//! Publishes the announcements of schedules that destroy.

use canyon_domain::schedule::announcement::DestroyAnnounced;
use canyon_store::error::BoxError;

/// Publishes announcements.
pub trait PublishAnnouncement: Sync {
    /// Publishes an announcement. Canyon may publish it again, with the same id.
    ///
    /// # Errors
    ///
    /// If it may not have been published. The schedule stays due then.
    fn publish(
        &self,
        event: &DestroyAnnounced,
    ) -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// Where there is no event bus, as on a laptop: the log alone has announcements.
#[derive(Clone, Copy, Debug)]
pub struct NoBus;

impl PublishAnnouncement for NoBus {
    async fn publish(&self, _: &DestroyAnnounced) -> Result<(), BoxError> {
        Ok(())
    }
}
