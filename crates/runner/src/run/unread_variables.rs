//! Variables whose secrets could not be read: they end a run whose module declares them.

use super::Run;
use crate::declared_variables;
use crate::secret_stores::Unread;
use canyon_domain::failure::Failure;
use std::path::Path;

impl Run {
    /// Fails if `module` needs a variable whose secret could not be read.
    pub(super) fn check_unread(&mut self, module: &Path) -> Result<(), Failure> {
        let declared = declared_variables::of(module);
        let is_declared =
            |name: &str| declared.as_ref().is_none_or(|declared| declared.contains_key(name));
        for Unread { variable, failure } in std::mem::take(&mut self.unread) {
            if self.job.bundle.state_command.is_none() && is_declared(&variable.name) {
                return Err(failure);
            }
            self.warn(&format!("not needed here: {}", failure.message));
        }
        Ok(())
    }
}
