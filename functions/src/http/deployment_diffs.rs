//! What a deployment runs differently from another one.

use super::body::Params;
use super::caller::{Ids, Member};
use super::error::ApiError;
use super::refusals::OfAction;
use super::routing::{Routes, routes};
use crate::App;
use crate::app::deployment_diffs::Diff;
use axum::Json;
use axum::extract::State;
use canyon_api::deployment::{DeploymentDiff, DeploymentDiffChange, DiffQuery};
use canyon_domain::deployment_diff::{DiffType, Difference};
use canyon_domain::ids::DeploymentId;
use sha2::{Digest as _, Sha256};

pub(super) fn routes() -> Routes<App> {
    routes![diff]
}

/// Compare what a deployment runs with what another deployment of its environment has run: the source and the version of its
/// module, or its job, and the names of inputs.
#[utoipa::path(post, path = "/orgs/{orgId}/deployments/{deploymentId}/actions/diff",
    tag = "Deployment", operation_id = "calculateDeploymentDiff",
    params(DiffQuery),
    responses((status = 200, description = "The differences.", body = DeploymentDiff), OfAction))]
async fn diff(
    State(app): State<App>,
    caller: Member,
    Ids((_, id)): Ids<(String, DeploymentId)>,
    Params(query): Params<DiffQuery>,
) -> Result<Json<DeploymentDiff>, ApiError> {
    let from = query.from_deployment_id.map(DeploymentId);
    Ok(Json(render(app.deployment_diff(&caller, id, from).await?)))
}

/// The differences on the wire.
pub(super) fn render(of: Diff) -> DeploymentDiff {
    let count = |wanted: &[DiffType]| {
        let found = of.changes.iter().filter(|change| wanted.contains(&change.diff_type));
        u32::try_from(found.count()).unwrap_or(u32::MAX)
    };
    let (added, removed) = (count(&[DiffType::Added]), count(&[DiffType::Removed]));
    // One thing may differ in two ways.
    let changed = count(&[DiffType::ModuleChanged, DiffType::ParamsChanged]).min(1);
    DeploymentDiff {
        from_deployment_id: of.from.map(|id| id.0),
        to_deployment_id: of.to.map(|id| id.0),
        num_added: added,
        num_changed: changed,
        num_removed: removed,
        changes: of.changes.into_iter().map(change).collect(),
    }
}

fn change(of: Difference) -> DeploymentDiffChange {
    let resource = of.resource.map_or_else(|| "module".to_owned(), |name| name.to_string());
    DeploymentDiffChange {
        id: hex::encode(Sha256::digest(&resource)),
        resource,
        diff_type: of.diff_type,
        summary: of.summary,
    }
}
