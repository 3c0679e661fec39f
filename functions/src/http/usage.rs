//! What the organization stores.

use super::body::Params;
use super::caller::Viewer;
use super::error::ApiError;
use super::parameters;
use super::refusals::OfClosedList;
use super::retention::parsed;
use super::routing::{Routes, routes};
use crate::App;
use crate::app::usage;
use axum::Json;
use axum::extract::State;
use canyon_api::retention::{Amount, LogAmount, RetentionBody, Usage, UsageQuery};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::retention::Retention;
use canyon_store::usage::Counted;

pub(super) fn routes() -> Routes<App> {
    routes![get]
}

/// Count what the organization stores, and estimate what a retention would remove of it now: the current one, or the one
/// that the parameters name. The estimate knows the deployments that environments need, and not what is still to be done
/// for a deployment.
#[utoipa::path(get, path = "/orgs/{orgId}/usage", tag = "Retention", operation_id = "getUsage",
    params(UsageQuery),
    responses((status = 200, description = "What it stores.", body = Usage), OfClosedList))]
async fn get(
    State(app): State<App>,
    caller: Viewer,
    Params(given): Params<Vec<(String, String)>>,
    Params(query): Params<UsageQuery>,
) -> Result<Json<Usage>, ApiError> {
    let mut faults = parameters::unknown::<UsageQuery>(&given);
    let wanted = parsed(RetentionBody {
        deployments_days: days(&mut faults, "deployments_days", query.deployments_days.as_deref()),
        logs_days: days(&mut faults, "logs_days", query.logs_days.as_deref()),
        audit_days: days(&mut faults, "audit_days", query.audit_days.as_deref()),
    });
    faults.add_under("", wanted.faults());
    faults.into_result(())?;
    let wanted = Some(wanted).filter(|wanted| !wanted.keeps_all());
    Ok(Json(render(&Box::pin(app.usage(&caller, wanted)).await?)))
}

fn days(faults: &mut FieldErrors, name: &str, text: Option<&str>) -> Option<u32> {
    parameters::parsed(faults, name, text, |text| text.parse().map_err(|_| "is a number of days"))
}

fn render(of: &usage::Usage) -> Usage {
    let Retention { deployments_days, logs_days, audit_days } = of.retention;
    let mut deployments = amount(of.deployments);
    deployments.removable = deployments.removable.saturating_sub(of.needed);
    let (removable, removable_bytes) = of.removable_logs;
    Usage {
        deployments,
        logs: LogAmount {
            amount: Amount {
                count: of.logs.bytes.len() as u64,
                at_least: !of.logs.is_complete,
                removable,
                oldest_at: of.logs.bytes.keys().next().and_then(|id| id.accepted_at()),
            },
            bytes: of.logs.bytes.values().sum(),
            removable_bytes,
        },
        audit_records: amount(of.audit_records),
        environments: amount(of.environments),
        retention: RetentionBody { deployments_days, logs_days, audit_days },
    }
}

fn amount(of: Counted) -> Amount {
    Amount { count: of.count, at_least: !of.is_complete, removable: of.older, oldest_at: of.oldest }
}
