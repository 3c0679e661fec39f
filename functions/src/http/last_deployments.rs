//! The last deployment of each environment.

use super::caller::Member;
use super::error::ApiError;
use super::list_query::ListQuery;
use super::refusals::OfList;
use super::routing::{Routes, routes};
use super::{fields, paging, render};
use crate::App;
use crate::app::last_deployments::LastDeployments;
use axum::Json;
use axum::extract::State;
use canyon_api::deployment::{Deployment, LastDeploymentQuery};
use canyon_api::page::{Page, PageQuery};
use canyon_domain::deployment;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{EnvId, ProjectId};

pub(super) fn routes() -> Routes<App> {
    routes![list]
}

/// List the last deployment of each environment, in the order of projects and environments. A page has as many environments as
/// requested, and no entry for one without a deployment; so it may have fewer entries, or none, although another page follows.
#[utoipa::path(get, path = "/orgs/{orgId}/last-deployments", tag = "Deployment",
    operation_id = "listLastDeployments",
    params(LastDeploymentQuery, PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<Deployment>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Member,
    ListQuery { filter, page }: ListQuery<LastDeploymentQuery>,
) -> Result<Json<Page<Deployment>>, ApiError> {
    let mut faults = FieldErrors::default();
    let project = filter.project_id.as_deref();
    let project: Option<ProjectId> =
        project.and_then(|text| fields::id(&mut faults, "project_id", text));
    let env = filter.env_id.as_deref();
    let env: Option<EnvId> = env.and_then(|text| fields::id(&mut faults, "env_id", text));
    faults.into_result(())?;
    let state_change_only = filter.state_change_only.unwrap_or(false);
    let name = format!(
        "last-deployments?project={}&env={}&state_change_only={state_change_only}",
        project.as_ref().map_or("*", ProjectId::as_str),
        env.as_ref().map_or("*", EnvId::as_str),
    );
    let request = paging::request_of_visible(&app, caller.org, &page, &name).await?;
    let wanted =
        LastDeployments { project: project.as_ref(), env: env.as_ref(), state_change_only };
    let found = app.last_deployments(&caller, wanted, &request).await?;
    let names = app.names(&caller, found.items.iter().map(|found| found.created_by)).await?;
    let render = |of: deployment::Deployment| Deployment {
        created_by_name: names.of(of.created_by),
        ..render::summary(&caller.org_id, &of)
    };
    paging::answer_visible(&app, caller.org, found, &name, render).await.map(Json)
}
