//! Service accounts: principals that sign in with a token of another issuer.

use super::body::Body;
use super::caller::{Admin, Ids, Viewer};
use super::error::ApiError;
use super::list_query::ListQuery;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use super::{fields, paging, scoped_roles};
use crate::App;
use crate::app::narrowing::Narrowing;
use crate::app::service_accounts::{ServiceAccountChange, ServiceAccountRequest};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::page::{Page, PageQuery};
use canyon_api::service_account::{
    ServiceAccount, ServiceAccountCreateBody, ServiceAccountUpdateBody, TrustPolicy,
};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{OrgId, ServiceAccountId};
use canyon_domain::service_account::{self, MAX_POLICIES};
use canyon_domain::trust_policy::{self, PolicyRequest};
use canyon_identity::verify::{KeySet, PrivateIssuers};

/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 200;

pub(super) fn routes() -> Routes<App> {
    routes![list, create, get, update, delete]
}

/// Create a service account.
#[utoipa::path(post, path = "/orgs/{orgId}/service-accounts", tag = "ServiceAccount",
    operation_id = "createServiceAccount",
    request_body = ServiceAccountCreateBody,
    responses((status = 201, description = "Created.", body = ServiceAccount), OfWrite))]
async fn create(
    State(app): State<App>,
    caller: Admin,
    body: Body<ServiceAccountCreateBody>,
) -> Result<(StatusCode, Json<ServiceAccount>), ApiError> {
    let mut faults = FieldErrors::default();
    let body = body.value;
    let id = fields::id(&mut faults, "id", &body.id);
    let runner = body.runner_id.filter(|id| !id.is_empty());
    let runner = runner.and_then(|runner| fields::id(&mut faults, "runner_id", &runner));
    check_description(&mut faults, &body.description);
    let scoped_roles = scoped_roles::parse(&mut faults, "scoped_roles", body.scoped_roles);
    let trust_policies = policies(&mut faults, body.trust_policies, app.sign_in_verifier.private());
    faults.into_result(())?;
    let Some(id) = id else { return Err(ApiError::internal()) };
    let (description, role) = (body.description, body.role);
    let order =
        ServiceAccountRequest { id, description, role, scoped_roles, runner, trust_policies };
    let made = app.create_service_account(&caller, order).await?;
    Ok((StatusCode::CREATED, Json(render(&caller.org_id, made))))
}

fn check_description(faults: &mut FieldErrors, text: &str) {
    if text.chars().count() > MAX_DESCRIPTION || text.contains(char::is_control) {
        faults.add(
            "description",
            format!("has at most {MAX_DESCRIPTION} characters, and no control characters"),
        );
    }
}

/// The policies. Each fault is recorded with its path.
fn policies(
    faults: &mut FieldErrors,
    given: Vec<TrustPolicy>,
    private: &PrivateIssuers,
) -> Vec<trust_policy::TrustPolicy> {
    if !(1..=MAX_POLICIES).contains(&given.len()) {
        faults.add("trust_policies", format!("has 1 to {MAX_POLICIES} policies"));
        return Vec::new();
    }
    let mut policies = Vec::new();
    for (index, policy) in given.into_iter().enumerate() {
        let path = format!("trust_policies[{index}]");
        if let Some(Err(error)) = policy.jwks.as_ref().map(KeySet::from_value) {
            faults.add(format!("{path}.jwks"), error.to_string());
        }
        let bound = policy.bound_claims.into_iter();
        let order = PolicyRequest {
            issuer: policy.issuer,
            audience: policy.audience,
            bound_claims_type: policy.bound_claims_type,
            bound_claims: bound.map(|(name, values)| (name, values.into_list())).collect(),
            jwks: policy.jwks,
            scoped_roles: scoped_roles::parse(
                faults,
                &format!("{path}.scoped_roles"),
                policy.scoped_roles,
            ),
        };
        match trust_policy::TrustPolicy::new(order, |issuer| private.includes(issuer)) {
            Ok(policy) => policies.push(policy),
            Err(errors) => faults.add_under(&path, errors),
        }
    }
    policies
}

/// List the service accounts.
#[utoipa::path(get, path = "/orgs/{orgId}/service-accounts", tag = "ServiceAccount",
    operation_id = "listServiceAccounts",
    params(PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<ServiceAccount>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Viewer,
    ListQuery { page, .. }: ListQuery,
) -> Result<Json<Page<ServiceAccount>>, ApiError> {
    let name = "service-accounts".to_owned();
    let request = paging::request(&page, &name)?;
    let found = app.service_accounts(&caller, &request).await?;
    Ok(Json(paging::answer(found, &name, |account| render(&caller.org_id, account))))
}

/// Read a service account.
#[utoipa::path(get, path = "/orgs/{orgId}/service-accounts/{serviceAccountId}",
    tag = "ServiceAccount", operation_id = "getServiceAccount",
    responses((status = 200, description = "The service account.", body = ServiceAccount), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, id)): Ids<(String, ServiceAccountId)>,
) -> Result<Json<ServiceAccount>, ApiError> {
    Ok(Json(render(&caller.org_id, app.service_account(&caller, &id).await?)))
}

/// Change a service account. Tokens that were issued before are refused within 5 seconds.
#[utoipa::path(patch, path = "/orgs/{orgId}/service-accounts/{serviceAccountId}",
    tag = "ServiceAccount", operation_id = "updateServiceAccount",
    request_body = ServiceAccountUpdateBody,
    responses((status = 200, description = "Changed.", body = ServiceAccount), OfWrite))]
async fn update(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, ServiceAccountId)>,
    body: Body<ServiceAccountUpdateBody>,
) -> Result<Json<ServiceAccount>, ApiError> {
    let mut faults = FieldErrors::default();
    let body = body.value;
    check_description(&mut faults, body.description.as_deref().unwrap_or_default());
    let runner = match body.runner_id.as_deref() {
        None => Narrowing::Stays,
        Some("") => Narrowing::Any,
        Some(runner) => {
            fields::id(&mut faults, "runner_id", runner).map_or(Narrowing::Stays, Narrowing::To)
        }
    };
    let private = app.sign_in_verifier.private();
    let trust_policies = body.trust_policies.map(|given| policies(&mut faults, given, private));
    let scoped_roles =
        body.scoped_roles.map(|given| scoped_roles::parse(&mut faults, "scoped_roles", given));
    faults.into_result(())?;
    let (description, role) = (body.description, body.role);
    let change = ServiceAccountChange { description, role, scoped_roles, runner, trust_policies };
    let changed = app.update_service_account(&caller, &id, &change).await?;
    Ok(Json(render(&caller.org_id, changed)))
}

/// Delete a service account. Its tokens are refused within 5 seconds; its deployments continue.
#[utoipa::path(delete, path = "/orgs/{orgId}/service-accounts/{serviceAccountId}",
    tag = "ServiceAccount", operation_id = "deleteServiceAccount",
    responses((status = 204, description = "Deleted."), OfAction))]
async fn delete(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, ServiceAccountId)>,
) -> Result<StatusCode, ApiError> {
    app.delete_service_account(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn render(org: &OrgId, of: service_account::ServiceAccount) -> ServiceAccount {
    let policy = |of: trust_policy::TrustPolicy| TrustPolicy {
        issuer: of.issuer.to_string(),
        audience: of.audience,
        bound_claims_type: of.bound_claims_type,
        bound_claims: of.bound_claims.into_iter().map(|(name, it)| (name, it.into())).collect(),
        jwks: of.jwks,
        scoped_roles: scoped_roles::render(of.scoped_roles),
    };
    ServiceAccount {
        org_id: org.to_string(),
        id: of.id.into(),
        uuid: of.uuid,
        description: of.description,
        role: of.role,
        scoped_roles: scoped_roles::render(of.scoped_roles),
        runner_id: of.runner.map(String::from),
        trust_policies: of.trust_policies.into_iter().map(policy).collect(),
        created_at: of.created_at,
        updated_at: of.updated_at,
    }
}
