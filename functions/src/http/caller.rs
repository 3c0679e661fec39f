//! Authenticates the caller, and checks its role.
//!
//! A handler that takes a [`Viewer`], [`Deployer`] or [`Admin`] is reached only by a principal of at least that role
//! in the whole organization of the path. A handler that takes a [`Member`] is reached by a principal with any role
//! in it, and checks the rights itself (`app::permissions`). The organization of the path is only compared: all data
//! is reached through the organization of the token.

use super::access::note_organization;
use super::error::ApiError;
use crate::App;
use crate::app::error::AppError;
use crate::app::permissions::{forbidden, require};
use crate::quoted::quoted;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, MatchedPath, Path, RawPathParams};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use canyon_api::attempt::DEPLOYMENT_TOKEN;
use canyon_api::deployment::IDEMPOTENCY_KEY;
use canyon_api::nonce::{NONCE_HEADER, is_valid};
use canyon_domain::principal::{Principal, Role};
use canyon_domain::scoped_role::Target;
use canyon_identity::bearer::{self, Presented};
use serde::de::DeserializeOwned;
use std::ops::Deref;
use std::sync::Arc;

/// The bearer secret of a request.
pub(super) fn bearer(parts: &Parts) -> Option<&str> {
    let bearer = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    bearer
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, secret)| secret.trim())
}

/// The parsed bearer secret of a request. A runner may send it in [`DEPLOYMENT_TOKEN`] instead.
pub(crate) fn presented(parts: &Parts) -> Result<Presented, ApiError> {
    let header = || parts.headers.get(DEPLOYMENT_TOKEN).and_then(|value| value.to_str().ok());
    let shown = bearer(parts).or_else(header);
    // A secret that is no token of Canyon may come from a proxy on the way.
    shown.and_then(bearer::parse).ok_or_else(ApiError::without_token)
}

async fn principal(parts: &mut Parts, app: &App) -> Result<Arc<Principal>, ApiError> {
    let principal = match presented(parts)? {
        Presented::Api(hash) => app.authenticate(hash).await?,
        Presented::Read(of, hash) => {
            let reader = app.reader_of_attempt(of, &hash).await?;
            if reader.is_some() && !parts.method.is_safe() {
                return Err(reads_alone());
            }
            reader
        }
        Presented::Claim(..) | Presented::Job(..) | Presented::Watch(..) | Presented::Check(..) => {
            None
        }
    };
    let principal = principal.ok_or_else(ApiError::unauthorized)?;
    let params = match RawPathParams::from_request_parts(parts, app).await {
        Ok(params) => Some(params),
        // A path that names no organization, such as `/orgs`.
        Err(RawPathParamsRejection::MissingPathParams(_)) => None,
        Err(_) => return Err(ApiError::not_an_id()),
    };
    let org = params.iter().flatten().find(|(name, _)| *name == "orgId");
    if let Some((_, org)) = org
        && !principal.is_of(org)
    {
        return Err(ApiError::not_found("organization", quoted(org)));
    }
    note_organization(&principal.org_id);
    Ok(principal)
}

/// The suffixes of routes whose requests are idempotent, however late they arrive: an archive is identified by its
/// digest, and a deployment is cancelled once. Refuses a change that the network delivers a second time, perhaps
/// after a later change that it would undo. A request with an idempotency key gets its first answer again instead.
const REPEATABLE: [&str; 2] = ["/archives/{digest}", "/actions/cancel"];

/// Refuses a change that a network carries a second time, perhaps after a later one that it would undo. One with an
/// idempotency key is answered again instead.
async fn refuse_repetition(
    parts: &Parts,
    app: &App,
    principal: &Principal,
) -> Result<(), ApiError> {
    let nonce = parts
        .headers
        .get(NONCE_HEADER)
        .and_then(|nonce| nonce.to_str().ok())
        .filter(|it| is_valid(it));
    let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let may_be_repeated = parts.method.is_safe()
        || parts.headers.contains_key(IDEMPOTENCY_KEY)
        || REPEATABLE.iter().any(|end| route.ends_with(end));
    match nonce {
        Some(nonce) if !may_be_repeated => Ok(app.refuse_repetition(principal, nonce).await?),
        Some(_) | None => Ok(()),
    }
}

/// A principal with the role `needed` in the whole organization.
async fn principal_with_role(
    parts: &mut Parts,
    app: &App,
    needed: Role,
) -> Result<Arc<Principal>, ApiError> {
    let principal = principal(parts, app).await?;
    let missing = || AppError::not_found("organization", &principal.org_id);
    require(&principal, needed, Target::Organization, missing)?;
    refuse_repetition(parts, app, &principal).await?;
    Ok(principal)
}

/// A principal that may read something in the organization. Its rights depend on the requested object.
#[derive(Clone, Debug)]
pub struct Member(pub Arc<Principal>);

impl Member {
    /// Passes if the principal has the role `needed` anywhere.
    pub(crate) fn require_anywhere(&self, needed: Role) -> Result<(), ApiError> {
        match self.highest_role() {
            role if role >= needed => Ok(()),
            role => Err(forbidden(needed, role, Target::Organization).into()),
        }
    }
}

impl FromRequestParts<App> for Member {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let member = Self(principal(parts, app).await?);
        member.require_anywhere(Role::Viewer)?;
        refuse_repetition(parts, app, &member).await?;
        Ok(member)
    }
}

/// A principal with any role, also that of an agent.
#[derive(Clone, Debug)]
pub struct AnyRole(pub Arc<Principal>);

impl FromRequestParts<App> for AnyRole {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        principal(parts, app).await.map(Self)
    }
}

impl Deref for AnyRole {
    type Target = Principal;
    fn deref(&self) -> &Principal {
        &self.0
    }
}

impl Deref for Member {
    type Target = Principal;
    fn deref(&self) -> &Principal {
        &self.0
    }
}

/// The refusal of a change by a module's token, whatever its role is: a module makes changes only by its own job.
fn reads_alone() -> ApiError {
    let message = "the token of a job's module is for reading alone";
    ApiError::new(StatusCode::FORBIDDEN, message)
}

macro_rules! caller {
    ($(#[$doc:meta])* $name:ident, $role:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(pub Arc<Principal>);

        impl FromRequestParts<App> for $name {
            type Rejection = ApiError;
            async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
                principal_with_role(parts, app, $role).await.map(Self)
            }
        }

        impl Deref for $name {
            type Target = Principal;
            fn deref(&self) -> &Principal {
                &self.0
            }
        }
    };
}
caller!(
    /// A principal that may read everything in the organization.
    Viewer, Role::Viewer
);
caller!(
    /// A principal that may deploy to every environment.
    Deployer, Role::Deployer
);
caller!(
    /// A principal that may change every object of the organization.
    Admin, Role::Admin
);

/// The parameters of a path, parsed into ids. A malformed id is a 404.
#[derive(Clone, Debug)]
pub struct Ids<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Ids<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match Path::<T>::from_request_parts(parts, app).await {
            Ok(Path(ids)) => Ok(Self(ids)),
            Err(_) => Err(ApiError::not_an_id()),
        }
    }
}
