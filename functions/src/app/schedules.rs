//! Creates, replaces and deletes schedules of environments.

use super::App;
use super::scheduled_request;
use crate::app::error::AppError;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{EnvId, ProjectId};
use canyon_domain::inventory::{Environment, EnvironmentStatus};
use canyon_domain::principal::{Principal, Role};
use canyon_domain::schedule::request::RequestedSchedule;
use canyon_domain::schedule::{
    MAX_SCHEDULES, Schedule, ScheduleId, ScheduleSettings, ScheduledWork, Times,
};
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::{Page, PageRequest};

/// An environment in a path.
pub(crate) type Place<'a> = (&'a ProjectId, &'a EnvId);

impl App {
    /// Parses the settings of a schedule of an environment. Notes every fault.
    pub(crate) fn schedule_settings(
        &self,
        requested: RequestedSchedule<'_>,
        (project, env): Place<'_>,
        faults: &mut FieldErrors,
    ) -> Option<ScheduleSettings> {
        if let Some(spec) = requested.spec.as_ref().filter(|_| requested.kind == "deploy")
            && let Err(more) = scheduled_request::of_spec(spec, project, env)
        {
            faults.add_under("", more);
        }
        requested.parse(self.now(), faults)
    }

    /// A page of the schedules of an environment.
    pub(crate) async fn schedules(
        &self,
        by: &Principal,
        (project, env): Place<'_>,
        page: &PageRequest,
    ) -> Result<Page<Schedule>, AppError> {
        let environment = self.environment(by, Role::Viewer, project, env).await?;
        Ok(self.table.schedules(by.org, environment.uuid, page).await?)
    }

    /// A schedule. 404 if it does not exist.
    pub(crate) async fn schedule(
        &self,
        by: &Principal,
        (project, env): Place<'_>,
        id: &ScheduleId,
    ) -> Result<Schedule, AppError> {
        let environment = self.environment(by, Role::Viewer, project, env).await?;
        self.schedule_in(by, &environment, id).await
    }

    async fn schedule_in(
        &self,
        by: &Principal,
        environment: &Environment,
        id: &ScheduleId,
    ) -> Result<Schedule, AppError> {
        let found = self.table.schedule(by.org, environment.uuid, id).await?;
        found.ok_or_else(|| AppError::not_found("schedule", id))
    }

    /// Creates a schedule.
    pub(crate) async fn create_schedule(
        &self,
        by: &Principal,
        (project, env): Place<'_>,
        id: ScheduleId,
        settings: ScheduleSettings,
    ) -> Result<Schedule, AppError> {
        let environment = self.environment(by, Role::Deployer, project, env).await?;
        if environment.status == EnvironmentStatus::Deleting {
            return Err(AppError::conflict(format!("environment `{env}` is being deleted")));
        }
        let present = self.table.all_schedules(by.org, environment.uuid).await?;
        if present.iter().any(|one| one.id == id) {
            return Err(exists(&id, (project, env)));
        }
        if present.len() >= MAX_SCHEDULES {
            return Err(AppError::conflict(format!(
                "environment `{env}` has {MAX_SCHEDULES} schedules, which is the most; delete one first: canyon delete \
                 schedule {project} {env} ID"
            )));
        }
        let mut record = self.record(by, "schedule.create", path_of((project, env), &id));
        record.details = in_words(&settings);
        let place = (by.org_id.clone(), project.clone(), env.clone(), environment.uuid);
        let schedule = Schedule::new(id, place, settings, by.into(), record.at);
        match self.table.create_schedule(by.org, &schedule, &record).await? {
            Created::Yes => Ok(schedule),
            Created::Exists | Created::Missing(_) => Err(exists(&schedule.id, (project, env))),
        }
    }

    /// Replaces the settings of a schedule. From then on it runs in the name of `by`.
    pub(crate) async fn replace_schedule(
        &self,
        by: &Principal,
        (project, env): Place<'_>,
        id: &ScheduleId,
        settings: &ScheduleSettings,
    ) -> Result<Schedule, AppError> {
        for _ in 0..MAX_TRIES {
            let environment = self.environment(by, Role::Deployer, project, env).await?;
            let before = self.schedule_in(by, &environment, id).await?;
            let mut record = self.record(by, "schedule.replace", path_of((project, env), id));
            record.details = in_words(settings);
            let schedule = before.replaced(settings.clone(), by.into(), record.at);
            if self.table.save_schedule(by.org, &schedule, Some(&record)).await? == Saved::Yes {
                return Ok(schedule);
            }
        }
        Err(AppError::contended(id))
    }

    /// Deletes a schedule. The deployments that it has requested go on.
    pub(crate) async fn delete_schedule(
        &self,
        by: &Principal,
        (project, env): Place<'_>,
        id: &ScheduleId,
    ) -> Result<(), AppError> {
        for _ in 0..MAX_TRIES {
            let environment = self.environment(by, Role::Deployer, project, env).await?;
            let schedule = self.schedule_in(by, &environment, id).await?;
            let record = self.record(by, "schedule.delete", path_of((project, env), id));
            if self.table.delete_schedule(by.org, &schedule, &record).await? == Deleted::Yes {
                return Ok(());
            }
        }
        Err(AppError::contended(id))
    }
}

fn exists(id: &ScheduleId, (project, env): Place<'_>) -> AppError {
    AppError::conflict(format!(
        "environment `{env}` has a schedule `{id}` already; delete it first: canyon delete schedule {project} {env} {id}"
    ))
}

fn path_of((project, env): Place<'_>, id: &ScheduleId) -> String {
    format!("projects/{project}/envs/{env}/schedules/{id}")
}

/// The settings, for audit records.
fn in_words(of: &ScheduleSettings) -> Vec<String> {
    let times = match &of.times {
        Times::Cron(cron) => format!("cron: {} ({})", cron.expression(), cron.timezone()),
        Times::At(at) => format!("at: {at}"),
        Times::Every { seconds, .. } => format!("every_seconds: {seconds}"),
    };
    let mut words = vec![format!("kind: {}", of.work.kind()), times];
    if let ScheduledWork::ContainerCheck { resource } = &of.work {
        words.push(format!("resource: {resource}"));
    }
    words.extend((!of.enabled).then(|| "disabled".to_owned()));
    words
}
