//! Setting limits on how many jobs run at once.

use super::App;
use crate::http::error::ApiError;
use canyon_domain::concurrency::{ConcurrencyLimit, LimitScope};
use canyon_domain::principal::Principal;
use canyon_store::outcome::Deleted;

impl App {
    /// Sets a limit, in the place of what there was.
    pub(crate) async fn set_limit(
        &self,
        by: &Principal,
        scope: LimitScope,
        max_jobs: u32,
    ) -> Result<ConcurrencyLimit, ApiError> {
        // A misspelt runner would be limited by nobody's notice. Of projects there may be groups.
        if let LimitScope::Runner(id) = &scope {
            self.runner(by, id).await?;
        }
        let record = self.record(by, "limit.set", format!("concurrency-limits/{scope}"));
        let limit = ConcurrencyLimit { scope, max_jobs, updated_at: record.at };
        self.table.set_limit(by.org, &limit, &record).await?;
        Ok(limit)
    }

    /// Takes a limit away.
    pub(crate) async fn delete_limit(
        &self,
        by: &Principal,
        scope: &LimitScope,
    ) -> Result<Deleted, ApiError> {
        let record = self.record(by, "limit.delete", format!("concurrency-limits/{scope}"));
        Ok(self.table.delete_limit(by.org, scope, &record).await?)
    }
}
