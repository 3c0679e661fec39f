//! Accounts of the organization, at the paths of their published API.

use super::body::Body;
use super::caller::{Admin, Ids, Viewer};
use super::error::ApiError;
use super::list_query::ListQuery;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use super::{fields, paging};
use crate::App;
use crate::app::accounts::AccountChange;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::account::{Account, AccountCreateBody, AccountUpdateBody};
use canyon_api::page::{Page, PageQuery};
use canyon_domain::account::{self, AccountCredentials, AccountId, AccountType};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::OrgId;

pub(super) fn routes() -> Routes<App> {
    routes![list, create, get, update, delete]
}

/// Create an account.
#[utoipa::path(post, path = "/orgs/{orgId}/resources/accounts", tag = "Accounts",
    operation_id = "createAccount",
    request_body = AccountCreateBody,
    responses((status = 201, description = "Created.", body = Account), OfWrite))]
async fn create(
    State(app): State<App>,
    caller: Admin,
    body: Body<AccountCreateBody>,
) -> Result<(StatusCode, Json<Account>), ApiError> {
    let mut faults = FieldErrors::default();
    let AccountCreateBody { id, name, account_type, credentials } = body.value;
    let id = fields::id(&mut faults, "id", &id);
    fields::check_purpose(&mut faults, "name", name.as_deref());
    let of = AccountType::read(&account_type, &mut faults);
    let credentials = of.and_then(|of| AccountCredentials::read(of, credentials, &mut faults));
    faults.into_result(())?;
    let (Some(id), Some(credentials)) = (id, credentials) else {
        return Err(ApiError::internal());
    };
    let made = app.create_account(&caller, id, name, credentials).await?;
    Ok((StatusCode::CREATED, Json(render(&caller.org_id, made))))
}

/// List the accounts.
#[utoipa::path(get, path = "/orgs/{orgId}/resources/accounts", tag = "Accounts",
    operation_id = "listAccounts",
    params(PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<Account>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Viewer,
    ListQuery { page, .. }: ListQuery,
) -> Result<Json<Page<Account>>, ApiError> {
    let name = "accounts".to_owned();
    let request = paging::request(&page, &name)?;
    let found = app.accounts(&caller, &request).await?;
    Ok(Json(paging::answer(found, &name, |account| render(&caller.org_id, account))))
}

/// Read an account.
#[utoipa::path(get, path = "/orgs/{orgId}/resources/accounts/{accountId}",
    tag = "Accounts", operation_id = "getAccount",
    responses((status = 200, description = "The account.", body = Account), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, id)): Ids<(String, AccountId)>,
) -> Result<Json<Account>, ApiError> {
    Ok(Json(render(&caller.org_id, app.account(&caller, &id).await?)))
}

/// Change an account.
#[utoipa::path(patch, path = "/orgs/{orgId}/resources/accounts/{accountId}",
    tag = "Accounts", operation_id = "updateAccount",
    request_body = AccountUpdateBody,
    responses((status = 200, description = "Changed.", body = Account), OfWrite))]
async fn update(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, AccountId)>,
    body: Body<AccountUpdateBody>,
) -> Result<Json<Account>, ApiError> {
    let mut faults = FieldErrors::default();
    let AccountUpdateBody { name, account_type, credentials } = body.value;
    fields::check_purpose(&mut faults, "name", name.as_deref());
    if credentials.as_ref().is_some_and(|patch| !patch.is_object()) {
        faults.add("credentials", "must be an object");
    }
    faults.into_result(())?;
    let change = AccountChange { name, account_type, credentials };
    Ok(Json(render(&caller.org_id, app.update_account(&caller, &id, &change).await?)))
}

/// Delete an account that no resource definition names.
#[utoipa::path(delete, path = "/orgs/{orgId}/resources/accounts/{accountId}",
    tag = "Accounts", operation_id = "deleteAccount",
    responses((status = 204, description = "Deleted."), OfAction))]
async fn delete(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, AccountId)>,
) -> Result<StatusCode, ApiError> {
    app.delete_account(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn render(org: &OrgId, of: account::Account) -> Account {
    Account {
        org_id: org.to_string(),
        id: of.id.into(),
        name: of.name,
        account_type: of.credentials.account_type().to_string(),
        credentials: of.credentials.members(),
        created_at: of.created_at,
        updated_at: of.updated_at,
    }
}
