//! Identity providers: issuers whose people sign in.

use super::body::Body;
use super::caller::{Admin, Ids, Viewer};
use super::error::ApiError;
use super::list_query::ListQuery;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use super::{fields, paging, scoped_roles};
use crate::App;
use crate::app::identity_providers::{IdentityProviderChange, IdentityProviderRequest};
use crate::app::narrowing::Narrowing;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use canyon_api::identity_provider::{
    GroupRule, IdentityProvider, IdentityProviderCreateBody, IdentityProviderUpdateBody,
    SignInChoice, SignInChoices,
};
use canyon_api::page::{Page, PageQuery};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::identity_provider::{self, GroupRole, MAX_RULES, check_claim, check_scopes};
use canyon_domain::ids::{IdentityProviderId, OrgId};
use canyon_domain::trust_policy::{IssuerUrl, check_audience, check_issuer};
use canyon_identity::verify::KeySet;
use serde_json::Value;

pub(super) fn routes() -> Routes<App> {
    routes![list, create, get, update, delete, choices]
}

/// Create an identity provider: its people may sign in, with the roles of their groups.
#[utoipa::path(post, path = "/orgs/{orgId}/identity-providers", tag = "Sign-in",
    operation_id = "createIdentityProvider",
    request_body = IdentityProviderCreateBody,
    responses((status = 201, description = "Created.", body = IdentityProvider), OfWrite))]
async fn create(
    State(app): State<App>,
    caller: Admin,
    body: Body<IdentityProviderCreateBody>,
) -> Result<(StatusCode, Json<IdentityProvider>), ApiError> {
    let mut faults = FieldErrors::default();
    let body = body.value;
    let id = fields::id(&mut faults, "id", &body.id);
    fields::check_description(&mut faults, Some(&body.description));
    let private = app.sign_in_verifier.private();
    let issuer = check_issuer(&mut faults, &body.issuer, body.jwks.as_ref(), |issuer| {
        private.includes(issuer)
    });
    check_keys(&mut faults, body.jwks.as_ref());
    check_audience(&mut faults, "client_id", &body.client_id, &body.issuer);
    check_scopes(&mut faults, &body.scopes);
    check_claim(&mut faults, "name_claim", &body.name_claim);
    check_claim(&mut faults, "groups_claim", &body.groups_claim);
    let rules = rules(&mut faults, body.rules);
    faults.into_result(())?;
    let (Some(id), Some(issuer)) = (id, issuer) else { return Err(ApiError::internal()) };
    let order = IdentityProviderRequest {
        id,
        description: body.description,
        issuer,
        client_id: body.client_id,
        scopes: body.scopes,
        name_claim: body.name_claim,
        groups_claim: body.groups_claim,
        jwks: body.jwks,
        rules,
    };
    let made = app.create_identity_provider(&caller, order).await?;
    Ok((StatusCode::CREATED, Json(render(&caller.org_id, made))))
}

fn check_keys(faults: &mut FieldErrors, jwks: Option<&Value>) {
    if let Some(Err(error)) = jwks.map(KeySet::from_value) {
        faults.add("jwks", error.to_string());
    }
}

/// The rules. Each fault is recorded with its path.
fn rules(faults: &mut FieldErrors, given: Vec<GroupRule>) -> Vec<identity_provider::GroupRule> {
    if !(1..=MAX_RULES).contains(&given.len()) {
        faults.add("rules", format!("has 1 to {MAX_RULES} rules"));
        return Vec::new();
    }
    let parsed = given.into_iter().enumerate().map(|(index, given)| {
        let path = format!("rules[{index}]");
        let (group, role) = given.into_parts();
        let role = match role {
            Ok(scoped) => GroupRole::Scoped(scoped_roles::parse_one(faults, &path, &scoped)),
            Err(whole) => GroupRole::Organization(whole),
        };
        let parsed = identity_provider::GroupRule { group, role };
        parsed.check(faults, &path);
        parsed
    });
    parsed.collect()
}

/// List the identity providers.
#[utoipa::path(get, path = "/orgs/{orgId}/identity-providers", tag = "Sign-in",
    operation_id = "listIdentityProviders",
    params(PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<IdentityProvider>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Viewer,
    ListQuery { page, .. }: ListQuery,
) -> Result<Json<Page<IdentityProvider>>, ApiError> {
    let name = "identity-providers".to_owned();
    let request = paging::request(&page, &name)?;
    let found = app.identity_providers(&caller, &request).await?;
    Ok(Json(paging::answer(found, &name, |provider| render(&caller.org_id, provider))))
}

/// Read an identity provider.
#[utoipa::path(get, path = "/orgs/{orgId}/identity-providers/{identityProviderId}",
    tag = "Sign-in", operation_id = "getIdentityProvider",
    responses((status = 200, description = "The identity provider.", body = IdentityProvider), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, id)): Ids<(String, IdentityProviderId)>,
) -> Result<Json<IdentityProvider>, ApiError> {
    Ok(Json(render(&caller.org_id, app.identity_provider(&caller, &id).await?)))
}

/// Change an identity provider. Its people must sign in again: their tokens are refused within 5 seconds.
#[utoipa::path(patch, path = "/orgs/{orgId}/identity-providers/{identityProviderId}",
    tag = "Sign-in", operation_id = "updateIdentityProvider",
    request_body = IdentityProviderUpdateBody,
    responses((status = 200, description = "Changed.", body = IdentityProvider), OfWrite))]
async fn update(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, IdentityProviderId)>,
    body: Body<IdentityProviderUpdateBody>,
) -> Result<Json<IdentityProvider>, ApiError> {
    let change = parse_change(body.value)?;
    let changed = app.update_identity_provider(&caller, &id, &change).await?;
    Ok(Json(render(&caller.org_id, changed)))
}

fn parse_change(body: IdentityProviderUpdateBody) -> Result<IdentityProviderChange, FieldErrors> {
    let mut faults = FieldErrors::default();
    fields::check_description(&mut faults, body.description.as_deref());
    let issuer = body.issuer.as_deref().map(IssuerUrl::new).transpose();
    let issuer = issuer.map_err(|error| faults.add("issuer", error.to_string())).ok().flatten();
    // An empty object removes the keys.
    let jwks = match body.jwks {
        None => Narrowing::Stays,
        Some(Value::Object(keys)) if keys.is_empty() => Narrowing::Any,
        Some(keys) => {
            check_keys(&mut faults, Some(&keys));
            Narrowing::To(keys)
        }
    };
    if let Some(client) = &body.client_id {
        check_audience(
            &mut faults,
            "client_id",
            client,
            body.issuer.as_deref().unwrap_or_default(),
        );
    }
    if let Some(scopes) = &body.scopes {
        check_scopes(&mut faults, scopes);
    }
    for (path, claim) in [("name_claim", &body.name_claim), ("groups_claim", &body.groups_claim)] {
        if let Some(claim) = claim {
            check_claim(&mut faults, path, claim);
        }
    }
    let rules = body.rules.map(|given| rules(&mut faults, given));
    faults.into_result(IdentityProviderChange {
        description: body.description,
        issuer,
        client_id: body.client_id,
        scopes: body.scopes,
        name_claim: body.name_claim,
        groups_claim: body.groups_claim,
        jwks,
        rules,
    })
}

/// Delete an identity provider. Its people's tokens are refused within 5 seconds; their deployments continue.
#[utoipa::path(delete, path = "/orgs/{orgId}/identity-providers/{identityProviderId}",
    tag = "Sign-in", operation_id = "deleteIdentityProvider",
    responses((status = 204, description = "Deleted."), OfAction))]
async fn delete(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, IdentityProviderId)>,
) -> Result<StatusCode, ApiError> {
    app.delete_identity_provider(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the ways to sign in. It needs no token: it is what a person reads before signing in.
#[utoipa::path(get, path = "/orgs/{orgId}/oauth/providers", tag = "Sign-in", security(()),
    operation_id = "listSignInChoices",
    responses(
        (status = 200, description = "The identity providers, without their rules.", body = SignInChoices),
        (status = 404, description = "The path holds something that is not an id.",
            body = canyon_api::error::ErrorBody),
    ))]
async fn choices(
    State(app): State<App>,
    Path(org): Path<String>,
) -> Result<Json<SignInChoices>, ApiError> {
    let choice = |of: identity_provider::IdentityProvider| SignInChoice {
        id: of.id.into(),
        description: of.description,
        issuer: of.issuer.to_string(),
        client_id: of.client_id,
        scopes: of.scopes,
    };
    let found = app.sign_in_choices(&org).await?;
    Ok(Json(SignInChoices { items: found.into_iter().map(choice).collect() }))
}

fn render(org: &OrgId, of: identity_provider::IdentityProvider) -> IdentityProvider {
    IdentityProvider {
        org_id: org.to_string(),
        id: of.id.into(),
        uuid: of.uuid,
        description: of.description,
        issuer: of.issuer.to_string(),
        client_id: of.client_id,
        scopes: of.scopes,
        name_claim: of.name_claim,
        groups_claim: of.groups_claim,
        jwks: of.jwks,
        rules: of.rules.into_iter().map(render_rule).collect(),
        created_at: of.created_at,
        updated_at: of.updated_at,
    }
}

fn render_rule(of: identity_provider::GroupRule) -> GroupRule {
    match of.role {
        GroupRole::Organization(role) => {
            GroupRule { group: of.group, role, project_id: None, env_type_id: None, env_id: None }
        }
        GroupRole::Scoped(scoped) => {
            let scoped = scoped_roles::render_one(scoped);
            GroupRule {
                group: of.group,
                role: scoped.role,
                project_id: scoped.project_id,
                env_type_id: scoped.env_type_id,
                env_id: scoped.env_id,
            }
        }
    }
}
