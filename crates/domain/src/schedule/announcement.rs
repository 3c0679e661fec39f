//! Announcements: events that say that a schedule will destroy an environment, 24 hours before its due time and 1 hour before.
//!
//! An announcement is due by the index that has the due times of schedules: [`Schedule::wakes_at`] is the earlier of both. It
//! is published before [`Schedule::record_announcement`] is written, so a process that ends in between publishes it again under
//! the same id.

use super::{MISSED_AFTER, Schedule, ScheduleId, ScheduledWork};
use crate::events::SCHEMA_VERSION;
use crate::ids::{EnvId, OrgId, PrincipalId, ProjectId};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The detail type of [`DestroyAnnounced`] on the bus.
pub const DESTROY_ANNOUNCED: &str = "schedule.destroy-announced";

/// How long before its due time a destruction is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// 24 hours.
    Day,
    /// 1 hour.
    Hour,
}

impl Lead {
    /// Every lead, in the order in which they come.
    const ALL: [Self; 2] = [Self::Day, Self::Hour];

    /// Its length.
    pub fn seconds(self) -> u32 {
        match self {
            Self::Day => 24 * 3600,
            Self::Hour => 3600,
        }
    }

    fn before(self, due_at: Timestamp) -> Option<Timestamp> {
        due_at.checked_sub(SignedDuration::from_secs(self.seconds().into())).ok()
    }
}

/// The times at which a destruction at `due_at` is announced.
fn times(due_at: Timestamp) -> impl DoubleEndedIterator<Item = (Lead, Timestamp)> {
    Lead::ALL.into_iter().filter_map(move |lead| Some((lead, lead.before(due_at)?)))
}

/// An announcement to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The due time of the destruction.
    pub due_at: Timestamp,
    /// How long before it.
    pub lead: Lead,
}

impl Announcement {
    /// Whether Canyon tries no longer to publish it: an event bus that rejects events must not hold up the due times of other
    /// schedules.
    pub fn is_overdue(self, now: Timestamp) -> bool {
        self.lead.before(self.due_at).is_none_or(|at| now.duration_since(at) > MISSED_AFTER)
    }
}

impl Schedule {
    /// When Canyon must act on it next: at its due time, or at an announcement before that.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        let due_at = self.due_at?;
        Some(self.next_announcement.map_or(due_at, |at| at.min(due_at)))
    }

    /// The announcement that is due at `now`. Of several that were missed, it is the last.
    pub(super) fn due_announcement(&self, now: Timestamp) -> Option<Announcement> {
        let due_at = self.due_at?;
        self.next_announcement.filter(|at| *at <= now)?;
        let (lead, _) = times(due_at).rfind(|(_, at)| *at <= now)?;
        Some(Announcement { due_at, lead })
    }

    /// Notes that the announcements until `now` are over.
    pub fn record_announcement(&mut self, now: Timestamp) {
        let left = self.due_at.and_then(|due_at| times(due_at).find(|(_, at)| *at > now));
        self.next_announcement = left.map(|(_, at)| at);
        self.version += 1;
    }

    /// Sets the due time, and the first announcement of it that is not before `since`.
    pub(super) fn set_due(&mut self, due_at: Option<Timestamp>, since: Timestamp) {
        self.due_at = due_at;
        let destroys = self.settings.work == ScheduledWork::Destroy;
        let first = due_at
            .filter(|_| destroys)
            .and_then(|due_at| times(due_at).find(|(_, at)| *at >= since));
        self.next_announcement = first.map(|(_, at)| at);
    }
}

/// A schedule will destroy what is deployed to an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestroyAnnounced {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `<environment's uuid>.<schedule>.<seconds of the due time since 1970>.announced.<lead_seconds>`: the same for each
    /// delivery.
    pub id: String,
    /// When Canyon announced it.
    pub at: Timestamp,
    /// The organization.
    pub org_id: OrgId,
    /// The project.
    pub project_id: ProjectId,
    /// The environment.
    pub env_id: EnvId,
    /// The schedule.
    pub schedule_id: ScheduleId,
    /// When the destruction is requested.
    pub due_at: Timestamp,
    /// Which announcement it is: 86400 or 3600 seconds before `due_at`.
    pub lead_seconds: u32,
    /// The principal that created or last replaced the schedule.
    pub created_by: PrincipalId,
}

impl DestroyAnnounced {
    /// The event of an announcement of `of`, made at `now`.
    pub fn new(of: &Schedule, announcement: Announcement, now: Timestamp) -> Self {
        let Announcement { due_at, lead } = announcement;
        let lead_seconds = lead.seconds();
        let (env, id, due) = (of.env_uuid.0, &of.id, due_at.as_second());
        Self {
            schema_version: SCHEMA_VERSION,
            id: format!("{env}.{id}.{due}.announced.{lead_seconds}"),
            at: now,
            org_id: of.org_id.clone(),
            project_id: of.project.clone(),
            env_id: of.env.clone(),
            schedule_id: of.id.clone(),
            due_at,
            lead_seconds,
            created_by: of.author.id,
        }
    }
}

#[cfg(test)]
#[path = "announcement_tests.rs"]
mod tests;
