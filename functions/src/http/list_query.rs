//! The query of a list: its filters, and which page of it.

use super::body::Params;
use super::error::ApiError;
use super::parameters;
use crate::App;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use canyon_api::page::PageQuery;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

/// The query of a list whose filters are `Filter`. A parameter that the list does not have is a fault: without its filter the
/// list would be another one than its caller expects.
#[derive(Clone, Debug)]
pub(super) struct ListQuery<Filter = Unfiltered> {
    /// The filters.
    pub(super) filter: Filter,
    /// The page.
    pub(super) page: PageQuery,
}

/// A list without filters.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Unfiltered {}

impl IntoParams for Unfiltered {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        Vec::new()
    }
}

impl<Filter: DeserializeOwned + IntoParams + Send> FromRequestParts<App> for ListQuery<Filter> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let Params(given): Params<Vec<(String, String)>> =
            Params::from_request_parts(parts, app).await?;
        parameters::unknown::<Filter>(&given).into_result(())?;
        let Params(filter) = Params::from_request_parts(parts, app).await?;
        let Params(page) = Params::from_request_parts(parts, app).await?;
        Ok(Self { filter, page })
    }
}
