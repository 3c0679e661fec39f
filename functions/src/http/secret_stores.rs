//! Secret stores of the organization.

use super::body::Body;
use super::caller::{Admin, Ids, Viewer};
use super::error::ApiError;
use super::list_query::ListQuery;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use super::{fields, paging};
use crate::App;
use crate::app::secret_stores::SecretStoreChange;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::page::{Page, PageQuery};
use canyon_api::secret_store::{SecretStore, SecretStoreCreateBody, SecretStoreUpdateBody};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::OrgId;
use canyon_domain::secret_reference::SecretStoreId;
use canyon_domain::secret_store::{self, StoreConfiguration};
use serde_json::Value;

pub(super) fn routes() -> Routes<App> {
    routes![list, create, get, update, delete]
}

/// Create a secret store.
#[utoipa::path(post, path = "/orgs/{orgId}/secret-stores", tag = "Secret stores",
    operation_id = "createSecretStore",
    request_body = SecretStoreCreateBody,
    responses((status = 201, description = "Created.", body = SecretStore), OfWrite))]
async fn create(
    State(app): State<App>,
    caller: Admin,
    body: Body<SecretStoreCreateBody>,
) -> Result<(StatusCode, Json<SecretStore>), ApiError> {
    let mut faults = FieldErrors::default();
    let SecretStoreCreateBody { id, description, store_configuration } = body.value;
    let id = fields::id(&mut faults, "id", &id);
    fields::check_description(&mut faults, description.as_deref());
    let configuration = StoreConfiguration::read(store_configuration, &mut faults);
    faults.into_result(())?;
    let (Some(id), Some(configuration)) = (id, configuration) else {
        return Err(ApiError::internal());
    };
    let made = app.create_secret_store(&caller, id, description, configuration).await?;
    Ok((StatusCode::CREATED, Json(render(&caller.org_id, made))))
}

/// List the secret stores.
#[utoipa::path(get, path = "/orgs/{orgId}/secret-stores", tag = "Secret stores",
    operation_id = "listSecretStores",
    params(PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<SecretStore>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Viewer,
    ListQuery { page, .. }: ListQuery,
) -> Result<Json<Page<SecretStore>>, ApiError> {
    let name = "secret-stores".to_owned();
    let request = paging::request(&page, &name)?;
    let found = app.secret_stores(&caller, &request).await?;
    Ok(Json(paging::answer(found, &name, |store| render(&caller.org_id, store))))
}

/// Read a secret store.
#[utoipa::path(get, path = "/orgs/{orgId}/secret-stores/{secretStoreId}",
    tag = "Secret stores", operation_id = "getSecretStore",
    responses((status = 200, description = "The store.", body = SecretStore), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, id)): Ids<(String, SecretStoreId)>,
) -> Result<Json<SecretStore>, ApiError> {
    Ok(Json(render(&caller.org_id, app.secret_store(&caller, &id).await?)))
}

/// Change a secret store. The change applies to jobs that begin from then on.
#[utoipa::path(patch, path = "/orgs/{orgId}/secret-stores/{secretStoreId}",
    tag = "Secret stores", operation_id = "updateSecretStore",
    request_body = SecretStoreUpdateBody,
    responses((status = 200, description = "Changed.", body = SecretStore), OfWrite))]
async fn update(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, SecretStoreId)>,
    body: Body<SecretStoreUpdateBody>,
) -> Result<Json<SecretStore>, ApiError> {
    let mut faults = FieldErrors::default();
    let SecretStoreUpdateBody { description, store_configuration } = body.value;
    fields::check_description(&mut faults, description.as_deref());
    if store_configuration.as_ref().is_some_and(|patch| !patch.is_object()) {
        faults.add("store_configuration", "must be an object");
    }
    faults.into_result(())?;
    let change = SecretStoreChange { description, configuration: store_configuration };
    Ok(Json(render(&caller.org_id, app.update_secret_store(&caller, &id, &change).await?)))
}

/// Delete a secret store that no variable refers to.
#[utoipa::path(delete, path = "/orgs/{orgId}/secret-stores/{secretStoreId}",
    tag = "Secret stores", operation_id = "deleteSecretStore",
    responses((status = 204, description = "Deleted."), OfAction))]
async fn delete(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, SecretStoreId)>,
) -> Result<StatusCode, ApiError> {
    app.delete_secret_store(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn render(org: &OrgId, of: secret_store::SecretStore) -> SecretStore {
    let store_configuration = match serde_json::json!(of.configuration) {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    };
    SecretStore {
        org_id: org.to_string(),
        id: of.id.into(),
        description: of.description,
        store_configuration,
        created_at: of.created_at,
        updated_at: of.updated_at,
    }
}
