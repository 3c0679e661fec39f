//! The audit list.

use super::body::Params;
use super::caller::Admin;
use super::error::ApiError;
use super::paging;
use super::refusals::OfClosedList;
use crate::App;
use crate::app::names::Names;
use axum::Json;
use axum::extract::State;
use canyon_api::audit::AuditRecord;
use canyon_api::page::{Page, PageQuery};
use canyon_domain::audit;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// List the accepted changes, newest first.
#[utoipa::path(get, path = "/orgs/{orgId}/audit-records", tag = "Audit",
    operation_id = "listAuditRecords",
    params(PageQuery),
    responses(
        (status = 200, description = "A page of the list.", body = Page<AuditRecord>),
        OfClosedList,
    ))]
async fn list(
    State(app): State<App>,
    caller: Admin,
    Params(page): Params<PageQuery>,
) -> Result<Json<Page<AuditRecord>>, ApiError> {
    let name = "audit-records".to_owned();
    let request = paging::request(&page, &name)?;
    let found = app.audit_records(&caller, &request).await?;
    let names = app.names(&caller, found.items.iter().map(|record| record.by)).await?;
    Ok(Json(paging::answer(found, &name, |record| render(record, &names))))
}

fn render(of: audit::AuditRecord, names: &Names) -> AuditRecord {
    AuditRecord {
        id: of.id,
        at: of.at,
        by: of.by.0,
        by_name: names.of(of.by),
        action: of.action,
        subject: of.subject,
        by_right: of.by_right,
        details: of.details,
    }
}
