//! Schedules of environments.

use super::body::Body;
use super::caller::{Ids, Member};
use super::error::ApiError;
use super::list_query::ListQuery;
use super::refusals::{OfAction, OfList, OfRead, OfWrite};
use super::routing::{Routes, routes};
use super::{fields, paging};
use crate::App;
use crate::app::schedules::Place;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use canyon_api::page::{Page, PageQuery};
use canyon_api::schedule::{Schedule, ScheduleCreateBody, ScheduleReplaceBody, ScheduledRun};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{EnvId, ProjectId};
use canyon_domain::json;
use canyon_domain::schedule::request::RequestedSchedule;
use canyon_domain::schedule::{self, ScheduleId, ScheduleSettings, ScheduledWork, Times};
use canyon_domain::to_json::to_json_text;

/// How many coming times an answer has.
const SHOWN_TIMES: usize = 3;

pub(super) fn routes() -> Routes<App> {
    routes![list, create, get, replace, delete]
}

/// Create a schedule. Its deployments are in the name of the caller.
#[utoipa::path(post, path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}/schedules", tag = "Schedules",
    operation_id = "createSchedule",
    request_body = ScheduleCreateBody,
    responses((status = 201, description = "Created.", body = Schedule), OfWrite))]
async fn create(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env)): Ids<(String, ProjectId, EnvId)>,
    body: Body<ScheduleCreateBody>,
) -> Result<(StatusCode, Json<Schedule>), ApiError> {
    let mut faults = FieldErrors::default();
    let (id, rest) = body.value.split();
    let id: Option<ScheduleId> = fields::id(&mut faults, "id", &id);
    let settings = settings(&app, (&project, &env), &rest, &mut faults);
    faults.into_result(())?;
    let (Some(id), Some(settings)) = (id, settings) else { return Err(ApiError::internal()) };
    let made = app.create_schedule(&caller, (&project, &env), id, settings).await?;
    Ok((StatusCode::CREATED, Json(render(made))))
}

/// List the schedules of an environment.
#[utoipa::path(get, path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}/schedules", tag = "Schedules",
    operation_id = "listSchedules",
    params(PageQuery),
    responses((status = 200, description = "A page of the list.", body = Page<Schedule>), OfList))]
async fn list(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env)): Ids<(String, ProjectId, EnvId)>,
    ListQuery { page, .. }: ListQuery,
) -> Result<Json<Page<Schedule>>, ApiError> {
    let name = format!("schedules?project={project}&env={env}");
    let request = paging::request(&page, &name)?;
    let found = app.schedules(&caller, (&project, &env), &request).await?;
    Ok(Json(paging::answer(found, &name, render)))
}

/// Read a schedule.
#[utoipa::path(get, path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}/schedules/{scheduleId}",
    tag = "Schedules", operation_id = "getSchedule",
    responses((status = 200, description = "The schedule.", body = Schedule), OfRead))]
async fn get(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env, id)): Ids<(String, ProjectId, EnvId, ScheduleId)>,
) -> Result<Json<Schedule>, ApiError> {
    Ok(Json(render(app.schedule(&caller, (&project, &env), &id).await?)))
}

/// Replace a schedule. Its later deployments are in the name of the caller.
#[utoipa::path(put, path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}/schedules/{scheduleId}",
    tag = "Schedules", operation_id = "replaceSchedule",
    request_body = ScheduleReplaceBody,
    responses((status = 200, description = "Replaced.", body = Schedule), OfWrite))]
async fn replace(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env, id)): Ids<(String, ProjectId, EnvId, ScheduleId)>,
    body: Body<ScheduleReplaceBody>,
) -> Result<Json<Schedule>, ApiError> {
    let mut faults = FieldErrors::default();
    let settings = settings(&app, (&project, &env), &body.value, &mut faults);
    faults.into_result(())?;
    let settings = settings.ok_or_else(ApiError::internal)?;
    Ok(Json(render(app.replace_schedule(&caller, (&project, &env), &id, &settings).await?)))
}

/// Delete a schedule. Deployments that it has requested go on.
#[utoipa::path(delete, path = "/orgs/{orgId}/projects/{projectId}/envs/{envId}/schedules/{scheduleId}",
    tag = "Schedules", operation_id = "deleteSchedule",
    responses((status = 204, description = "Deleted."), OfAction))]
async fn delete(
    State(app): State<App>,
    caller: Member,
    Ids((_, project, env, id)): Ids<(String, ProjectId, EnvId, ScheduleId)>,
) -> Result<StatusCode, ApiError> {
    app.delete_schedule(&caller, (&project, &env), &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn settings(
    app: &App,
    place: Place<'_>,
    body: &ScheduleReplaceBody,
    faults: &mut FieldErrors,
) -> Option<ScheduleSettings> {
    let requested = RequestedSchedule {
        kind: &body.kind,
        cron: body.cron.as_deref(),
        timezone: body.timezone.as_deref(),
        at: body.at.as_deref(),
        every_seconds: body.every_seconds,
        enabled: body.enabled,
        on_missed: body.on_missed.as_deref(),
        reconcile: body.reconcile,
        spec: body.spec.as_ref().map(to_json_text),
    };
    app.schedule_settings(requested, place, faults)
}

fn render(of: schedule::Schedule) -> Schedule {
    let next_due_at = of.next_times(SHOWN_TIMES);
    let history: Vec<_> = of.history.into_iter().map(render_run).collect();
    let kind = of.settings.work.kind().to_owned();
    let (reconcile, spec) = match of.settings.work {
        ScheduledWork::Drift { reconcile } => (reconcile, None),
        // It was JSON when it was stored.
        ScheduledWork::Deploy { spec } => {
            (false, spec.and_then(|it| serde_json::from_str(&it).ok()))
        }
        ScheduledWork::Destroy => (false, None),
        ScheduledWork::ContainerCheck { resource } => {
            let name = json::Json::String(resource.to_string());
            (false, Some(json::Json::Object([("resource".to_owned(), name)].into())))
        }
    };
    let mut rendered = Schedule {
        id: of.id.into(),
        project_id: of.project.into(),
        env_id: of.env.into(),
        kind,
        cron: None,
        timezone: None,
        at: None,
        every_seconds: None,
        enabled: of.settings.enabled,
        on_missed: of.settings.on_missed.as_str().to_owned(),
        reconcile,
        spec,
        next_due_at,
        next_announcement_at: of.next_announcement,
        last: history.first().cloned(),
        history,
        created_by: of.author.id.0,
        created_at: of.created_at,
        updated_at: of.updated_at,
    };
    match of.settings.times {
        Times::Cron(cron) => {
            rendered.cron = Some(cron.expression().to_owned());
            rendered.timezone = Some(cron.timezone().to_owned());
        }
        Times::At(at) => rendered.at = Some(at),
        Times::Every { seconds, .. } => rendered.every_seconds = Some(seconds),
    }
    rendered
}

fn render_run(of: schedule::ScheduledRun) -> ScheduledRun {
    let deployment_id = of.deployment.map(|id| id.0);
    ScheduledRun { due_at: of.due_at, at: of.at, deployment_id, skipped: of.skipped }
}
