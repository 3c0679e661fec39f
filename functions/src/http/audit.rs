//! The audit list.

use super::body::Params;
use super::caller::Admin;
use super::error::ApiError;
use super::paging;
use super::parameters;
use super::refusals::OfClosedList;
use super::routing::{Routes, routes};
use crate::App;
use crate::app::names::Names;
use axum::Json;
use axum::extract::State;
use canyon_api::audit::{AuditQuery, AuditRecord};
use canyon_api::page::{Page, PageQuery};
use canyon_domain::audit;
use canyon_domain::audit_filter::AuditFilter;
use canyon_domain::ids::PrincipalId;

pub(super) fn routes() -> Routes<App> {
    routes![list]
}

/// List the accepted changes, newest first. With `action`, `by` or `subject`, a page may have fewer entries than requested, or
/// none, although another page follows. `since` also bounds how far back the API searches.
#[utoipa::path(get, path = "/orgs/{orgId}/audit-records", tag = "Audit",
    operation_id = "listAuditRecords",
    params(AuditQuery, PageQuery),
    responses(
        (status = 200, description = "A page of the list.", body = Page<AuditRecord>),
        OfClosedList,
    ))]
async fn list(
    State(app): State<App>,
    caller: Admin,
    Params(given): Params<Vec<(String, String)>>,
    Params(query): Params<AuditQuery>,
    Params(page): Params<PageQuery>,
) -> Result<Json<Page<AuditRecord>>, ApiError> {
    let filter = filter(&given, query)?;
    let name = name(&filter);
    let request = paging::request(&page, &name)?;
    let found = app.audit_records(&caller, &filter, &request).await?;
    let names = app.names(&caller, found.items.iter().map(|record| record.by)).await?;
    Ok(Json(paging::answer(found, &name, |record| render(record, &names))))
}

fn filter(given: &[(String, String)], query: AuditQuery) -> Result<AuditFilter, ApiError> {
    let mut faults = parameters::unknown::<AuditQuery>(given);
    let AuditQuery { action, by, subject, since, until } = query;
    let filter = AuditFilter {
        action: parameters::parsed(&mut faults, "action", action.as_deref(), str::parse),
        by: parameters::parsed(&mut faults, "by", by.as_deref(), |text| {
            text.parse().map(PrincipalId).map_err(|_| "must be a UUID, as `by` of audit records is")
        }),
        subject: parameters::parsed(&mut faults, "subject", subject.as_deref(), str::parse),
        since: parameters::time(&mut faults, "since", since.as_deref()),
        until: parameters::time(&mut faults, "until", until.as_deref()),
    };
    if let (Some(since), Some(until)) = (filter.since, filter.until)
        && until < since
    {
        faults.add("until", "is before `since`");
    }
    Ok(faults.into_result(filter)?)
}

/// The list with its filters: a page token is good for the same ones only. Without filters as earlier versions had it.
fn name(filter: &AuditFilter) -> String {
    let AuditFilter { action, by, subject, since, until } = filter;
    let filters = [
        ("action", action.as_ref().map(ToString::to_string)),
        ("by", by.map(|by| by.0.to_string())),
        ("subject", subject.as_ref().map(ToString::to_string)),
        ("since", since.map(|since| since.to_string())),
        ("until", until.map(|until| until.to_string())),
    ];
    let mut name = "audit-records".to_owned();
    for (filter, value) in filters.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        name.extend(["?", filter, "=", value.as_str()]);
    }
    name
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
