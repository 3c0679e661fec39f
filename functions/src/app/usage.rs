//! What an organization stores, and what a retention would remove of it.

use super::App;
use crate::app::error::AppError;
use canyon_domain::ids::DeploymentId;
use canyon_domain::inventory::Environment;
use canyon_domain::principal::Principal;
use canyon_domain::retention::Retention;
use canyon_store::Table;
use canyon_store::usage::{Counted, StoredLogs};
use std::collections::HashSet;

/// What an organization stores.
pub(crate) struct Usage {
    /// The deployments.
    pub(crate) deployments: Counted,
    /// How many of them are older than the retention, and are not removed: environments need them.
    pub(crate) needed: u64,
    /// The logs.
    pub(crate) logs: StoredLogs,
    /// The number of logs that the retention removes, and their bytes.
    pub(crate) removable_logs: (u64, u64),
    /// The audit records.
    pub(crate) audit_records: Counted,
    /// The environments.
    pub(crate) environments: Counted,
    /// The retention that the estimates are for.
    pub(crate) retention: Retention,
}

impl App {
    /// Counts what the caller's organization stores, and estimates what `retention` would remove of it now; without one,
    /// what the current setting would.
    pub(crate) async fn usage(
        &self,
        by: &Principal,
        retention: Option<Retention>,
    ) -> Result<Usage, AppError> {
        let now = self.now();
        let retention = match retention {
            Some(retention) => retention,
            None => self.retention(by).await?.map(|found| found.retention).unwrap_or_default(),
        };
        let created_at = self.organization(by).await?.created_at;
        let (table, audit_before) = (&self.table, retention.audit_before(now));
        let before = retention.deployments_before(now);
        let (deployments, audit_records, environments, logs) = tokio::try_join!(
            table.count_deployments(by.org, before),
            table.count_audit_records(by.org, created_at, now, audit_before),
            table.first_environments(by.org),
            self.blobs.stored_logs(by.org),
        )?;
        let needed: HashSet<DeploymentId> =
            environments.iter().flat_map(Environment::needed_deployments).collect();
        let older = |id: &&DeploymentId| before.is_some_and(|before| id.accepted_before(before));
        Ok(Usage {
            deployments,
            needed: needed.iter().filter(older).count() as u64,
            removable_logs: logs.older(retention.logs_before(now), &needed),
            logs,
            audit_records,
            environments: Counted {
                count: environments.len() as u64,
                older: 0,
                oldest: environments.iter().map(|found| found.created_at).min(),
                is_complete: !Table::may_have_more(&environments),
            },
            retention,
        })
    }
}
