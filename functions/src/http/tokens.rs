//! API tokens.

use super::body::Body;
use super::caller::{Admin, Ids};
use super::error::ApiError;
use super::fields;
use super::list_query::ListQuery;
use super::paging;
use super::refusals::{OfAction, OfClosedList, OfWrite};
use super::routing::{Routes, routes};
use super::scoped_roles;
use crate::App;
use crate::app::tokens::TokenRequest;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::page::{Page, PageQuery};
use canyon_api::token::{NewToken, Token, TokenCreateBody};
use canyon_domain::agent::invalid_labels_reason;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::principal::Role;
use canyon_domain::scoped_role::check_together;
use canyon_store::organizations::TokenRecord;
use secrecy::ExposeSecret;
use std::time::Duration;
use uuid::Uuid;

/// The longest lifetime of a token, in seconds: a year.
const MAX_LIFE: u32 = 31_536_000;
/// The default lifetime of a token. So a forgotten token expires.
const DEFAULT_LIFE: Duration = Duration::from_hours(90 * 24);
/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 200;

pub(super) fn routes() -> Routes<App> {
    routes![list, create, delete]
}

/// Create a token. Its secret is shown only in this answer.
#[utoipa::path(post, path = "/orgs/{orgId}/tokens", tag = "Token", operation_id = "createToken",
    request_body = TokenCreateBody,
    responses((status = 201, description = "Created.", body = NewToken), OfWrite))]
async fn create(
    State(app): State<App>,
    caller: Admin,
    body: Body<TokenCreateBody>,
) -> Result<(StatusCode, Json<NewToken>), ApiError> {
    let (token, secret) = app.create_token(&caller, order(body.value)?).await?;
    let secret = secret.expose_secret().to_owned();
    Ok((StatusCode::CREATED, Json(NewToken { token: render(token), secret })))
}

fn order(body: TokenCreateBody) -> Result<TokenRequest, FieldErrors> {
    let mut faults = FieldErrors::default();
    let description = body.description;
    if description.chars().count() > MAX_DESCRIPTION || description.contains(char::is_control) {
        faults.add(
            "description",
            format!("has at most {MAX_DESCRIPTION} characters, and no control characters"),
        );
    }
    if body.expires_in_seconds.is_some_and(|life| !(1..=MAX_LIFE).contains(&life)) {
        faults.add("expires_in_seconds", format!("is from 1 to {MAX_LIFE}"));
    }
    let runner = body.runner_id.and_then(|id| fields::id(&mut faults, "runner_id", &id));
    if let Some(fault) = invalid_labels_reason(&body.labels) {
        faults.add("labels", fault);
    }
    let scoped_roles = scoped_roles::parse(&mut faults, "scoped_roles", body.scoped_roles);
    if faults.is_empty() {
        check_together(&mut faults, body.role, &scoped_roles);
    }
    if body.never_expires && body.expires_in_seconds.is_some() {
        faults.add("never_expires", "contradicts `expires_in_seconds`");
    }
    if body.role != Role::Agent && runner.is_some() {
        faults.add("runner_id", "is for the role `agent`");
    }
    if body.role != Role::Agent && !body.labels.is_empty() {
        faults.add("labels", "are for the role `agent`");
    }
    let life = match body.expires_in_seconds {
        Some(seconds) => Some(Duration::from_secs(seconds.into())),
        // A token of agents does not expire by default: otherwise a whole fleet would stop on one day.
        None if body.never_expires || body.role == Role::Agent => None,
        None => Some(DEFAULT_LIFE),
    };
    let (role, labels) = (body.role, body.labels);
    faults.into_result(TokenRequest { description, role, scoped_roles, life, runner, labels })
}

/// List the tokens, without their secrets.
#[utoipa::path(get, path = "/orgs/{orgId}/tokens", tag = "Token", operation_id = "listTokens",
    params(PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<Token>), OfClosedList))]
async fn list(
    State(app): State<App>,
    caller: Admin,
    ListQuery { page, .. }: ListQuery,
) -> Result<Json<Page<Token>>, ApiError> {
    let name = "tokens".to_owned();
    let request = paging::request(&page, &name)?;
    let found = app.tokens(&caller, &request).await?;
    Ok(Json(paging::answer(found, &name, render)))
}

/// Revoke a token.
#[utoipa::path(delete, path = "/orgs/{orgId}/tokens/{tokenId}", tag = "Token",
    operation_id = "deleteToken",
    responses((status = 204, description = "The token is revoked."), OfAction))]
async fn delete(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, Uuid)>,
) -> Result<StatusCode, ApiError> {
    app.delete_token(&caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn render(of: TokenRecord) -> Token {
    Token {
        id: of.principal.id.0,
        description: of.description,
        role: of.principal.role,
        scoped_roles: scoped_roles::render(of.principal.scoped_roles),
        runner_id: of.principal.runner.map(String::from),
        labels: of.labels,
        created_at: of.created_at,
        expires_at: of.expires_at,
    }
}
