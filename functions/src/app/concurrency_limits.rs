//! Limits on the number of concurrent jobs.

use super::App;
use crate::app::error::AppError;
use canyon_domain::concurrency::{ConcurrencyLimit, LimitScope};
use canyon_domain::ids::DeploymentId;
use canyon_domain::principal::Principal;
use canyon_store::outcome::Deleted;
use canyon_store::page::{Page, PageRequest};

/// A limit, and the deployments that hold its slots.
pub(crate) struct HeldLimit {
    pub(crate) limit: ConcurrencyLimit,
    pub(crate) held_by: Vec<DeploymentId>,
}

impl App {
    /// A page of the limits, each with the deployments that hold its slots.
    pub(crate) async fn limits(
        &self,
        by: &Principal,
        page: &PageRequest,
    ) -> Result<Page<HeldLimit>, AppError> {
        let found = self.table.limits(by.org, page).await?;
        let mut items = Vec::with_capacity(found.items.len());
        for limit in found.items {
            items.push(self.held(by, limit).await?);
        }
        Ok(Page { items, next: found.next })
    }

    /// One limit, with the deployments that hold its slots.
    pub(crate) async fn limit(
        &self,
        by: &Principal,
        scope: &LimitScope,
    ) -> Result<HeldLimit, AppError> {
        let found = self.table.limit(by.org, scope).await?;
        let found = found.ok_or_else(|| AppError::not_found("concurrency limit", scope))?;
        self.held(by, found).await
    }

    /// `limit` with the deployments that hold its slots.
    pub(crate) async fn held(
        &self,
        by: &Principal,
        limit: ConcurrencyLimit,
    ) -> Result<HeldLimit, AppError> {
        let held = self.table.held_slots(by.org, &limit.scope).await?;
        let held_by = held.into_iter().map(|slot| slot.holder.deployment).collect();
        Ok(HeldLimit { limit, held_by })
    }

    /// Creates or replaces a limit.
    pub(crate) async fn set_limit(
        &self,
        by: &Principal,
        scope: LimitScope,
        max_jobs: u32,
    ) -> Result<ConcurrencyLimit, AppError> {
        // For a misspelt runner, the limit would have no effect and no error. A project id may be that of a group.
        if let LimitScope::Runner(id) | LimitScope::Checks(id) = &scope {
            self.runner(by, id).await?;
        }
        let record = self.record(by, "limit.set", format!("concurrency-limits/{scope}"));
        let limit = ConcurrencyLimit { scope, max_jobs, updated_at: record.at };
        self.table.set_limit(by.org, &limit, &record).await?;
        Ok(limit)
    }

    /// Deletes a limit.
    pub(crate) async fn delete_limit(
        &self,
        by: &Principal,
        scope: &LimitScope,
    ) -> Result<Deleted, AppError> {
        let record = self.record(by, "limit.delete", format!("concurrency-limits/{scope}"));
        Ok(self.table.delete_limit(by.org, scope, &record).await?)
    }
}
