//! Requests the deployments of schedules that are due, and publishes their announcements.
//!
//! The request comes before the schedule's next due time is written. If this process ends in between, the next pass repeats the
//! request under the same idempotency key, which leads to the same deployment. So a due time that two processes take, or one
//! process twice, runs once. An announcement is published before its write for the same reason; a repeated one has the same id.

use super::announcements::PublishAnnouncement;
use super::deploy::Idempotency;
use super::{App, scheduled_request};
use crate::app::error::{AppError, ErrorKind};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::OrgUuid;
use canyon_domain::inventory::Environment;
use canyon_domain::schedule::announcement::{Announcement, DestroyAnnounced};
use canyon_domain::schedule::{Decision, RunResult, Schedule};
use canyon_store::StoreError;
use canyon_store::outcome::Saved;
use canyon_store::schedules::DueSchedule;
use jiff::Timestamp;

/// The most schedules of one pass; the next pass takes the others.
const MAX_DUE: u16 = 50;

impl App {
    /// Acts on the schedules that are due. Returns how many due times and announcements it has dealt with. A schedule that
    /// fails is logged and stays due.
    ///
    /// # Errors
    ///
    /// The due schedules cannot be read.
    pub async fn run_due_schedules(
        &self,
        bus: &impl PublishAnnouncement,
    ) -> Result<usize, AppError> {
        let due = self.table.due_schedules(self.now(), MAX_DUE).await?;
        let mut done = 0;
        for one in due {
            // The future is large.
            match Box::pin(self.run_due_schedule(&one, bus)).await {
                Ok(true) => done += 1,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(
                        org = %one.org, env = %one.env.0, schedule = %one.id, reason = error.message(),
                        "a due schedule failed; it stays due"
                    );
                }
            }
        }
        Ok(done)
    }

    /// Whether this call has moved the schedule on.
    async fn run_due_schedule(
        &self,
        due: &DueSchedule,
        bus: &impl PublishAnnouncement,
    ) -> Result<bool, AppError> {
        let Some(mut schedule) = self.table.schedule(due.org, due.env, &due.id).await? else {
            return Ok(false);
        };
        let now = self.now();
        let decision = schedule.decide(now);
        if decision == Decision::Wait {
            return Ok(false);
        }
        let found = self.table.environment(due.org, &schedule.project, &schedule.env).await?;
        let Some(environment) = found.filter(|found| found.uuid == schedule.env_uuid) else {
            // It was created while its environment was deleted.
            schedule.due_at = None;
            schedule.version += 1;
            return Ok(self.table.expire_schedule(due.org, &schedule, now).await? == Saved::Yes);
        };
        let (due_at, result) = match decision {
            Decision::Wait => return Ok(false),
            Decision::Announce(announcement) => {
                return self.announce(due.org, schedule, announcement, now, bus).await;
            }
            Decision::Run(due_at) => {
                (due_at, self.request_run(due.org, &schedule, &environment, due_at).await?)
            }
            Decision::SkipMissed(due_at) => {
                (due_at, self.missed(due.org, &schedule, due_at).await?)
            }
        };
        tracing::info!(
            org = %schedule.org_id, project = %schedule.project, env = %schedule.env, schedule = %schedule.id, due_at = %due_at,
            result = ?result, "a schedule was due"
        );
        schedule.record(due_at, result, now);
        Ok(self.table.save_schedule(due.org, &schedule, None).await? == Saved::Yes)
    }

    /// Publishes an announcement, and moves the schedule on. If the bus rejects it, the schedule stays due for 10 minutes.
    async fn announce(
        &self,
        org: OrgUuid,
        mut schedule: Schedule,
        announcement: Announcement,
        now: Timestamp,
        bus: &impl PublishAnnouncement,
    ) -> Result<bool, AppError> {
        let event = DestroyAnnounced::new(&schedule, announcement, now);
        let published = bus.publish(&event).await;
        match &published {
            Ok(()) => tracing::info!(
                org = %event.org_id, project = %event.project_id, env = %event.env_id, schedule = %event.schedule_id,
                due_at = %event.due_at, "a schedule will destroy what is deployed here"
            ),
            Err(error) => tracing::warn!(
                org = %event.org_id, project = %event.project_id, env = %event.env_id, schedule = %event.schedule_id,
                due_at = %event.due_at, %error, "cannot publish the announcement of a schedule that destroys"
            ),
        }
        if published.is_err() && !announcement.is_overdue(now) {
            return Ok(false);
        }
        schedule.record_announcement(now);
        Ok(self.table.save_schedule(org, &schedule, None).await? == Saved::Yes)
    }

    async fn request_run(
        &self,
        org: OrgUuid,
        schedule: &Schedule,
        environment: &Environment,
        due_at: Timestamp,
    ) -> Result<RunResult, AppError> {
        if self.is_still_running(org, schedule).await? {
            return Ok(RunResult::PreviousStillRunning);
        }
        let key = key_of(schedule, due_at);
        let by = schedule.principal(org);
        let requested = match scheduled_request::of(schedule, environment) {
            Ok(order) => self.deploy(&by, &order, Some(&key)).await,
            // The environment may have changed since an earlier process requested this due time.
            Err(refusal) => {
                let before = self.repeated(org, None, Some(&key)).await?;
                before.ok_or(refusal)
            }
        };
        match requested {
            Ok(deployment) => Ok(RunResult::Requested(deployment.id)),
            Err(error) if error.is_transient() || error.kind() == ErrorKind::TooMany => Err(error),
            Err(refusal) => Ok(RunResult::Refused(refusal.message().to_owned())),
        }
    }

    /// A process that ended before it wrote the next due time may have requested this one.
    async fn missed(
        &self,
        org: OrgUuid,
        schedule: &Schedule,
        due_at: Timestamp,
    ) -> Result<RunResult, AppError> {
        let key = key_of(schedule, due_at);
        let before = self.repeated(org, None, Some(&key)).await?;
        Ok(before.map_or(RunResult::Missed, |deployment| RunResult::Requested(deployment.id)))
    }

    async fn is_still_running(
        &self,
        org: OrgUuid,
        schedule: &Schedule,
    ) -> Result<bool, StoreError> {
        let Some(last) = schedule.last_deployment else { return Ok(false) };
        let last = self.table.deployment(org, last).await?;
        Ok(last.is_some_and(|last: Deployment| !last.status.is_terminal()))
    }
}

fn key_of(schedule: &Schedule, due_at: Timestamp) -> Idempotency {
    Idempotency::of_canyon(schedule.key_of(due_at))
}
