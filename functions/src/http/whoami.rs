//! The caller itself.

use super::caller::AnyRole;
use super::error::ApiError;
use super::refusals::OfRead;
use super::routing::{Routes, routes};
use super::scoped_roles;
use crate::App;
use axum::Json;
use axum::extract::State;
use canyon_api::caller::{Caller, CallerKind};
use canyon_domain::grant::GrantedBy;
use canyon_domain::provider_group::Membership;

pub(super) fn routes() -> Routes<App> {
    routes![whoami]
}

/// Read who the caller is, and what it may do.
#[utoipa::path(get, path = "/orgs/{orgId}/caller", tag = "Sign-in", operation_id = "getCaller",
    responses((status = 200, description = "The caller.", body = Caller), OfRead))]
async fn whoami(State(app): State<App>, caller: AnyRole) -> Result<Json<Caller>, ApiError> {
    let known = app.names(&caller, [caller.id]).await?.of(caller.id);
    let (kind, name, identity_provider) = match &caller.sign_in.by {
        Some(GrantedBy::ServiceAccount(id)) => {
            (CallerKind::ServiceAccount, Some(id.to_string()), None)
        }
        Some(GrantedBy::IdentityProvider(id)) => (CallerKind::Person, known, Some(id.to_string())),
        None => (CallerKind::Token, known, None),
    };
    let membership = caller.sign_in.membership();
    let groups = membership.iter().flat_map(Membership::names).map(|group| group.to_string());
    Ok(Json(Caller {
        id: caller.id.0,
        org_id: caller.org_id.to_string(),
        kind,
        name,
        identity_provider,
        groups: groups.collect(),
        role: caller.role,
        scoped_roles: scoped_roles::render(caller.scoped_roles.clone()),
        expires_at: caller.sign_in.until,
    }))
}
