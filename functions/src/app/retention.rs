//! How long an organization keeps deployments, logs and audit records.

use super::App;
use crate::app::error::AppError;
use canyon_domain::principal::Principal;
use canyon_domain::retention::{Progress, Retention, RetentionSetting};
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::{Deleted, Saved};

impl App {
    /// The setting of the caller's organization; `None` if it keeps everything.
    pub(crate) async fn retention(
        &self,
        by: &Principal,
    ) -> Result<Option<RetentionSetting>, AppError> {
        Ok(self.table.retention(by.org).await?)
    }

    /// Creates or replaces the setting. The launcher applies it at once.
    pub(crate) async fn set_retention(
        &self,
        by: &Principal,
        retention: Retention,
    ) -> Result<RetentionSetting, AppError> {
        for _ in 0..MAX_TRIES {
            let found = self.table.retention(by.org).await?;
            if let Some(found) = found.as_ref().filter(|found| found.retention == retention) {
                return Ok(found.clone());
            }
            let mut record = self.record(by, "retention.set", "retention".to_owned());
            let now = record.at;
            let before = found.as_ref().map(|found| found.retention).unwrap_or_default();
            record.details = retention.changes_from(&before);
            let setting = RetentionSetting {
                retention,
                created_at: found.as_ref().map_or(now, |found| found.created_at),
                updated_at: now,
                due_at: now,
                version: found.as_ref().map_or(1, |found| found.version + 1),
                // The walk begins again; what it has removed is still to be recorded.
                progress: found.map_or_else(Progress::default, |found| Progress {
                    walked_to: None,
                    checks_walked_to: None,
                    ..found.progress
                }),
            };
            if self.table.save_retention(by.org, &setting, Some(&record)).await? == Saved::Yes {
                return Ok(setting);
            }
        }
        Err(AppError::contended("the retention"))
    }

    /// Deletes the setting: from then on the organization keeps everything that is left.
    pub(crate) async fn delete_retention(&self, by: &Principal) -> Result<Deleted, AppError> {
        let mut record = self.record(by, "retention.delete", "retention".to_owned());
        if let Some(found) = self.table.retention(by.org).await? {
            record.details = Retention::default().changes_from(&found.retention);
            record.details.extend(found.progress.removed.details());
        }
        Ok(self.table.delete_retention(by.org, &record).await?)
    }
}
