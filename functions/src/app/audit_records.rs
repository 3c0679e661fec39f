//! The audit records of an organization.

use super::App;
use crate::app::error::AppError;
use canyon_domain::audit::AuditRecord;
use canyon_domain::audit_filter::AuditFilter;
use canyon_domain::principal::Principal;
use canyon_store::page::{Page, PageRequest};

impl App {
    /// A page of the audit records that match, the newest first.
    pub(crate) async fn audit_records(
        &self,
        by: &Principal,
        filter: &AuditFilter,
        page: &PageRequest,
    ) -> Result<Page<AuditRecord>, AppError> {
        let created_at = self.organization(by).await?.created_at;
        Ok(self.table.audit_records(by.org, created_at, self.now(), filter, page).await?)
    }
}
