//! The digest of the image that a container job has run, where only its platform knows it: a rollback and a destroy run that
//! image again, wherever its tag has moved.

use crate::commit::Commit;
use crate::deployment::Deployment;
use crate::fetched_module::FetchedModule;

impl Deployment {
    /// Whether it names an image by a tag, and it is not recorded yet which image that was.
    pub fn lacks_image_digest(&self) -> bool {
        let by_tag = self
            .container
            .as_ref()
            .is_some_and(|run| run.digest.is_none() && !run.image.contains('@'));
        by_tag && self.fetched().is_none()
    }

    /// Records which image the attempt `number` has run, also after its end. Returns whether that was not known before.
    pub fn record_image_digest(&mut self, number: u32, digest: Commit) -> bool {
        if !self.lacks_image_digest() {
            return false;
        }
        let last = self.attempts.last_mut().filter(|attempt| attempt.number == number);
        let Some(attempt) = last else { return false };
        attempt.fetched = Some(FetchedModule::new(Some(digest), None));
        true
    }
}
