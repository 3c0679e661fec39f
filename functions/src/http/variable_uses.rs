//! The environments that get a kept variable.

use super::body::Params;
use super::caller::{Ids, Member};
use super::error::ApiError;
use super::refusals::OfList;
use super::routing::{Routes, routes};
use super::{paging, parameters};
use crate::App;
use axum::Json;
use axum::extract::State;
use canyon_api::page::{Page, PageQuery};
use canyon_api::variable_use::{VariableUse, VariableUseQuery};
use canyon_domain::variable_scope::VariableScope;
use canyon_domain::variables::{VariableKey, VariableKind, uses};

pub(super) fn routes() -> Routes<App> {
    routes![list]
}

/// List the environments whose jobs get a variable, by project and name, and from which scope. With `scope`, those that the
/// variable of this scope is for, of a runner also those whose fallback it is; `overridden_by` tells which of them get the
/// value of a nearer scope. The list has only environments that the caller may read. A page may have fewer entries than requested, or none, although another page follows.
#[utoipa::path(get, path = "/orgs/{orgId}/variables/{kind}/{name}/uses", tag = "Variables",
    operation_id = "listVariableUses",
    params(VariableUseQuery, PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<VariableUse>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Member,
    Ids((_, kind, variable)): Ids<(String, VariableKind, String)>,
    Params(given): Params<Vec<(String, String)>>,
    Params(query): Params<VariableUseQuery>,
    Params(page): Params<PageQuery>,
) -> Result<Json<Page<VariableUse>>, ApiError> {
    let mut faults = parameters::unknown::<VariableUseQuery>(&given);
    let key = VariableKey::new(kind, &variable);
    if let Err(error) = &key {
        faults.add("name", error.to_string());
    }
    let scope = parameters::parsed(&mut faults, "scope", query.scope.as_deref(), |text| {
        let form = "is `runner:ID`, `organization`, `project:ID`, `env-type:ID` or `environment:PROJECT/ENV`";
        text.parse::<VariableScope>().map_err(|_| form)
    });
    faults.into_result(())?;
    let Ok(key) = key else { return Err(ApiError::not_an_id()) };
    let of = scope.as_ref().map(ToString::to_string).unwrap_or_default();
    let name = format!("variable-uses?key={key}&scope={of}");
    let request = paging::request_of_visible(&app, caller.org, &page, &name).await?;
    let found = app.variable_uses(&caller, &key, scope.as_ref(), request).await?;
    let render = |used| render(&used, scope.as_ref());
    paging::answer_visible(&app, caller.org, found, &name, render).await.map(Json)
}

fn render(of: &uses::VariableUse, scope: Option<&VariableScope>) -> VariableUse {
    let nearer = scope.filter(|scope| **scope != of.from);
    VariableUse {
        project_id: of.project.to_string(),
        env_id: of.env.to_string(),
        env_type_id: of.env_type.to_string(),
        overridden_by: nearer.map(|_| of.from.to_string()),
        from: of.from.to_string(),
        overrides: of.overrides.iter().map(ToString::to_string).collect(),
    }
}
