//! Runner rules.

use super::body::Body;
use super::caller::{Admin, Ids, Viewer};
use super::error::ApiError;
use super::list_query::ListQuery;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use super::{fields, paging};
use crate::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::page::{Page, PageQuery};
use canyon_api::runner_rule::{RunnerRule, RunnerRuleCreateBody, RunnerRuleQuery};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{InvalidId, OrgId, RuleId, RunnerId};
use canyon_domain::inventory;
use canyon_domain::runner_rules::{MAX_FALLBACKS, Rule, Scope};
use canyon_store::runner_rules::RuleFilter;

pub(super) fn routes() -> Routes<App> {
    routes![list, create, get, delete]
}

/// Create a runner rule.
#[utoipa::path(post, path = "/orgs/{orgId}/runner-rules", tag = "Runner",
    operation_id = "createRunnerRuleInOrg",
    request_body = RunnerRuleCreateBody,
    responses((status = 201, description = "Created.", body = RunnerRule), OfWrite))]
async fn create(
    State(app): State<App>,
    caller: Admin,
    body: Body<RunnerRuleCreateBody>,
) -> Result<(StatusCode, Json<RunnerRule>), ApiError> {
    let mut faults = FieldErrors::default();
    let body = body.value;
    let runner = fields::id(&mut faults, "runner_id", &body.runner_id);
    let fallbacks = parse_fallbacks(&mut faults, &body);
    // An empty text means "any", as it does in answers.
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let scope = Scope {
        project: given(body.project_id)
            .and_then(|text| fields::id(&mut faults, "project_id", &text)),
        env_type: given(body.env_type_id)
            .and_then(|text| fields::id(&mut faults, "env_type_id", &text)),
    };
    faults.into_result(())?;
    let Some(runner) = runner else { return Err(ApiError::internal()) };
    let made = app.create_rule(&caller, Rule { runner, fallbacks, scope }).await?;
    Ok((StatusCode::CREATED, Json(render(&caller.org_id, made))))
}

/// The fallbacks: few, and none of them twice.
fn parse_fallbacks(faults: &mut FieldErrors, body: &RunnerRuleCreateBody) -> Vec<RunnerId> {
    const FIELD: &str = "fallback_runner_ids";
    let given = &body.fallback_runner_ids;
    if given.len() > MAX_FALLBACKS {
        faults.add(FIELD, format!("has at most {MAX_FALLBACKS} entries"));
        return Vec::new();
    }
    let parse = |(at, text): (usize, &String)| {
        let path = format!("{FIELD}[{at}]");
        if *text == body.runner_id || given.iter().take(at).any(|earlier| earlier == text) {
            faults.add(&path, "is named before");
        }
        fields::id(faults, &path, text)
    };
    given.iter().enumerate().filter_map(parse).collect()
}

/// List the runner rules.
#[utoipa::path(get, path = "/orgs/{orgId}/runner-rules", tag = "Runner",
    operation_id = "listRunnerRulesInOrg",
    params(RunnerRuleQuery, PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<RunnerRule>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Viewer,
    ListQuery { filter: query, page }: ListQuery<RunnerRuleQuery>,
) -> Result<Json<Page<RunnerRule>>, ApiError> {
    let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "*".to_owned());
    let name = format!(
        "runner-rules?project={}&env_type={}&runner={}",
        shown(&query.by_project_id),
        shown(&query.by_env_type_id),
        shown(&query.by_runner_id)
    );
    let request = paging::request(&page, &name)?;
    // A malformed id belongs to no object, so no rule names it.
    let Ok(filter) = filter(&query) else {
        return Ok(Json(Page { items: Vec::new(), next_page_token: None }));
    };
    let found = app.rules(&caller, &filter, &request).await?;
    Ok(Json(paging::answer(found, &name, |rule| render(&caller.org_id, rule))))
}

fn filter(query: &RunnerRuleQuery) -> Result<RuleFilter, InvalidId> {
    Ok(RuleFilter {
        runner: query.by_runner_id.as_deref().map(str::parse).transpose()?,
        project: query.by_project_id.as_deref().map(str::parse).transpose()?,
        env_type: query.by_env_type_id.as_deref().map(str::parse).transpose()?,
    })
}

/// Read a runner rule.
#[utoipa::path(get, path = "/orgs/{orgId}/runner-rules/{ruleId}", tag = "Runner",
    operation_id = "getRunnerRuleInOrg",
    responses((status = 200, description = "The rule.", body = RunnerRule), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Viewer,
    Ids((_, id)): Ids<(String, RuleId)>,
) -> Result<Json<RunnerRule>, ApiError> {
    Ok(Json(render(&caller.org_id, app.rule(&caller, id).await?)))
}

/// Delete a runner rule. The environments stay linked to its runner.
#[utoipa::path(delete, path = "/orgs/{orgId}/runner-rules/{ruleId}", tag = "Runner",
    operation_id = "deleteRunnerRuleInOrg",
    responses((status = 204, description = "Deleted."), OfAction))]
async fn delete(
    State(app): State<App>,
    caller: Admin,
    Ids((_, id)): Ids<(String, RuleId)>,
) -> Result<StatusCode, ApiError> {
    app.delete_rule(&caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn render(org: &OrgId, of: inventory::RunnerRule) -> RunnerRule {
    RunnerRule {
        org_id: org.to_string(),
        id: of.id.0,
        runner_id: of.runner_id.into(),
        fallback_runner_ids: of.fallback_runner_ids.into_iter().map(Into::into).collect(),
        created_at: of.created_at,
        project_id: of.scope.project.map(String::from).unwrap_or_default(),
        env_type_id: of.scope.env_type.map(String::from).unwrap_or_default(),
    }
}
