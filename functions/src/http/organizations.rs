//! Organizations.

use super::body::Body;
use super::caller::{Admin, Member, Viewer};
use super::error::ApiError;
use super::refusals::{OfMaking, OfRead, OfWrite};
use super::routing::{Routes, routes};
use crate::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::organization::{NewOrganization, Organization, OrganizationUpdateBody};
use canyon_domain::inventory;
use secrecy::ExposeSecret;

pub(super) fn routes() -> Routes<App> {
    routes![create, get, update]
}

/// Create an organization with a random name. Only the operator of this installation may.
#[utoipa::path(post, path = "/orgs", tag = "Organization", operation_id = "createOrganization",
    responses(
        (status = 201, description = "Created. The token is shown only in this answer.",
         body = NewOrganization),
        OfMaking,
    ))]
async fn create(
    State(app): State<App>,
    caller: Viewer,
) -> Result<(StatusCode, Json<NewOrganization>), ApiError> {
    if !caller.operator {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "only the operator of this Canyon may create organizations",
        ));
    }
    let (organization, token) = app.create_organization(&caller).await?;
    let answer = NewOrganization {
        organization: render(organization),
        admin_token: token.expose_secret().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(answer)))
}

/// Read the organization.
#[utoipa::path(get, path = "/orgs/{orgId}", tag = "Organization",
    operation_id = "getOrganization",
    responses((status = 200, description = "The organization.", body = Organization), OfRead))]
async fn get(State(app): State<App>, caller: Member) -> Result<Json<Organization>, ApiError> {
    Ok(Json(render(app.organization(&caller).await?)))
}

/// Change the settings of the organization.
#[utoipa::path(patch, path = "/orgs/{orgId}", tag = "Organization",
    operation_id = "updateOrganization",
    request_body = OrganizationUpdateBody,
    responses((status = 200, description = "Changed.", body = Organization), OfWrite))]
async fn update(
    State(app): State<App>,
    caller: Admin,
    body: Body<OrganizationUpdateBody>,
) -> Result<Json<Organization>, ApiError> {
    Ok(Json(render(app.update_organization(&caller, &body.value).await?)))
}

fn render(of: inventory::Organization) -> Organization {
    Organization {
        id: of.id.into(),
        uuid: of.uuid.0,
        created_at: of.created_at,
        created_by: of.created_by.0,
        plan: "open-source".to_owned(),
        agent_requests: of.agent_requests,
    }
}
