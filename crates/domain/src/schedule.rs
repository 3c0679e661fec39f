//! Schedules of an environment: deployments, checks and destructions that Canyon requests at set times.
//!
//! A schedule has a due time, as a deployment has one. When it comes, [`Schedule::decide`] says what to do, and
//! [`Schedule::record`] notes the result and moves the due time on. A destruction is announced before that
//! ([`announcement`]). `docs/schedules.md` has the rules.

pub mod announcement;
pub mod request;

use self::announcement::Announcement;
use crate::cron::Cron;
use crate::ids::{
    DeploymentId, EnvId, EnvUuid, MAX_ID_LENGTH, OrgId, OrgUuid, PrincipalId, ProjectId,
    is_hyphenated, text_id,
};
use crate::principal::{Principal, Role};
use crate::resource_name::ResourceName;
use crate::scoped_role::ScopedRole;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

text_id!(
    /// A schedule, unique within its environment.
    ScheduleId, "schedule id", MAX_ID_LENGTH, is_hyphenated,
    "use 2 to 63 lower case letters, digits and single hyphens, starting with a letter"
);

/// The most schedules of an environment. A new one costs a read of all of them.
pub const MAX_SCHEDULES: usize = 20;
/// How many runs a schedule remembers.
const MAX_HISTORY: usize = 20;
/// A due time that is so long ago is missed. Canyon reads the due schedules at least once a minute, and retries a request that
/// fails for a while.
pub const MISSED_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// The most characters of the reason for a run that was skipped.
const MAX_REASON: usize = 300;
/// The reason for a run whose time passed while Canyon did not run, or could not request it.
const MISSED: &str = "missed";
/// The reason for a run whose time came while the deployment before was not over.
const STILL_RUNNING: &str = "previous_still_running";

/// What a schedule requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduledWork {
    /// A check of what was deployed last.
    Drift {
        /// Whether differences are undone.
        reconcile: bool,
    },
    /// A deployment.
    Deploy {
        /// The JSON text of a request to deploy, without project and environment; `None` repeats what was deployed last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spec: Option<String>,
    },
    /// The destruction of what was deployed last.
    Destroy,
    /// A check of a resource that a container job has created.
    ContainerCheck {
        /// The resource. It may not exist yet.
        resource: ResourceName,
    },
}

impl ScheduledWork {
    /// Its `kind` in the API.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Drift { .. } => "drift",
            Self::Deploy { .. } => "deploy",
            Self::Destroy => "destroy",
            Self::ContainerCheck { .. } => "container-check",
        }
    }

    /// The least time between two runs.
    pub fn least_distance(&self) -> SignedDuration {
        match self {
            Self::Drift { .. } => SignedDuration::from_mins(15),
            Self::Deploy { .. } | Self::Destroy | Self::ContainerCheck { .. } => {
                SignedDuration::from_mins(5)
            }
        }
    }
}

/// The times of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Times {
    /// By a cron expression.
    Cron(Cron),
    /// Once.
    At(Timestamp),
    /// At even distances.
    Every {
        /// The distance.
        seconds: u32,
        /// The time from which the distance counts.
        from: Timestamp,
    },
}

impl Times {
    /// The first time after `after`.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(cron) => cron.next_after(after),
            Self::At(at) => Some(*at).filter(|at| *at > after),
            Self::Every { seconds, from } => {
                let distance = i128::from(*seconds).max(1) * 1_000_000_000;
                let (from, after) = (from.as_nanosecond(), after.as_nanosecond());
                // `from` itself is no due time.
                let count = ((after - from).div_euclid(distance) + 1).max(1);
                Timestamp::from_nanosecond(from + count * distance).ok()
            }
        }
    }
}

/// What happens when a due time was missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMissed {
    /// Nothing: the next run is at the next time.
    #[default]
    Skip,
    /// One run, however many times were missed.
    RunOnce,
}

impl OnMissed {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::RunOnce => "run_once",
        }
    }
}

/// What the author of a schedule chooses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleSettings {
    /// What it requests.
    pub work: ScheduledWork,
    /// When.
    pub times: Times,
    /// Whether it has due times.
    pub enabled: bool,
    /// What happens when a due time was missed.
    #[serde(default)]
    pub on_missed: OnMissed,
}

impl ScheduleSettings {
    fn first_due(&self, now: Timestamp) -> Option<Timestamp> {
        self.times.next_after(now).filter(|_| self.enabled)
    }
}

/// The principal that created or last replaced a schedule, with what it was allowed to read at that time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// Its id.
    pub id: PrincipalId,
    /// See [`Principal::as_reader`].
    pub role: Role,
    /// See [`Principal::as_reader`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scoped_roles: Vec<ScopedRole>,
}

impl From<&Principal> for Author {
    fn from(by: &Principal) -> Self {
        let (role, scoped_roles) = by.as_reader();
        Self { id: by.id, role, scoped_roles }
    }
}

/// One due time, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledRun {
    /// The due time.
    pub due_at: Timestamp,
    /// When Canyon acted on it.
    pub at: Timestamp,
    /// The requested deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<DeploymentId>,
    /// Why no deployment was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// The result of a due time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunResult {
    /// Canyon accepted the deployment.
    Requested(DeploymentId),
    /// The due time was missed.
    Missed,
    /// The deployment before was not over.
    PreviousStillRunning,
    /// Canyon refused the request.
    Refused(String),
}

impl RunResult {
    fn into_run(self, due_at: Timestamp, at: Timestamp) -> ScheduledRun {
        let skipped = |reason: &str| {
            let skipped = Some(reason.chars().take(MAX_REASON).collect());
            ScheduledRun { due_at, at, deployment: None, skipped }
        };
        match self {
            Self::Requested(id) => ScheduledRun { due_at, at, deployment: Some(id), skipped: None },
            Self::Missed => skipped(MISSED),
            Self::PreviousStillRunning => skipped(STILL_RUNNING),
            Self::Refused(reason) => skipped(&reason),
        }
    }
}

/// What to do for a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing yet.
    Wait,
    /// Announce a destruction.
    Announce(Announcement),
    /// Request the run of this due time.
    Run(Timestamp),
    /// Skip this due time: it was missed.
    SkipMissed(Timestamp),
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Its id.
    pub id: ScheduleId,
    /// The name of its organization, which never changes.
    pub org_id: OrgId,
    /// The project of its environment.
    pub project: ProjectId,
    /// Its environment.
    pub env: EnvId,
    /// Its environment: another one may get the same name.
    pub env_uuid: EnvUuid,
    /// What its author has chosen.
    pub settings: ScheduleSettings,
    /// The author.
    pub author: Author,
    /// The next due time; `None` while it is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// When its next announcement is due; `None` if none is left before the due time. Earlier versions wrote none, so the due
    /// time that they have set has no announcements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_announcement: Option<Timestamp>,
    /// The deployment that it has requested last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_deployment: Option<DeploymentId>,
    /// The last 20 due times, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<ScheduledRun>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last replaced.
    pub updated_at: Timestamp,
    /// Increases with every write.
    pub version: u64,
}

impl Schedule {
    /// A new schedule.
    pub fn new(
        id: ScheduleId,
        (org_id, project, env, env_uuid): (OrgId, ProjectId, EnvId, EnvUuid),
        settings: ScheduleSettings,
        author: Author,
        now: Timestamp,
    ) -> Self {
        let due_at = settings.first_due(now);
        let mut schedule = Self {
            id,
            org_id,
            project,
            env,
            env_uuid,
            settings,
            author,
            due_at: None,
            next_announcement: None,
            last_deployment: None,
            history: Vec::new(),
            created_at: now,
            updated_at: now,
            version: 1,
        };
        schedule.set_due(due_at, now);
        schedule
    }

    /// The same schedule with other settings. Times that do not change keep their due time, and what is left to announce.
    #[must_use]
    pub fn replaced(&self, mut settings: ScheduleSettings, author: Author, now: Timestamp) -> Self {
        if let (Times::Every { seconds, from }, Times::Every { seconds: before, from: since }) =
            (&mut settings.times, &self.settings.times)
            && seconds == before
        {
            *from = *since;
        }
        let keeps_due = settings.enabled && settings.times == self.settings.times;
        let kept = self.due_at.filter(|_| keeps_due);
        let due_at = kept.or_else(|| settings.first_due(now));
        let version = self.version + 1;
        let keeps_work = settings.work == self.settings.work;
        let mut replaced = Self { settings, author, updated_at: now, version, ..self.clone() };
        replaced.set_due(due_at, now);
        if kept.is_some() && keeps_work && self.next_announcement.is_some() {
            replaced.next_announcement = self.next_announcement;
        }
        replaced
    }

    /// Its next times, at most `count`.
    pub fn next_times(&self, count: usize) -> Vec<Timestamp> {
        let next = |before: &Timestamp| self.settings.times.next_after(*before);
        std::iter::successors(self.due_at, next).take(count).collect()
    }

    /// What to do at `now`.
    pub fn decide(&self, now: Timestamp) -> Decision {
        let Some(due_at) = self.due_at.filter(|due_at| *due_at <= now) else {
            return self.due_announcement(now).map_or(Decision::Wait, Decision::Announce);
        };
        let is_missed = now.duration_since(due_at) > MISSED_AFTER;
        match self.settings.on_missed {
            OnMissed::Skip if is_missed => Decision::SkipMissed(due_at),
            OnMissed::Skip | OnMissed::RunOnce => Decision::Run(due_at),
        }
    }

    /// Notes what became of the due time, and moves on to the next time after `now`. Without one the schedule ends: it is
    /// disabled.
    pub fn record(&mut self, due_at: Timestamp, result: RunResult, now: Timestamp) {
        if let RunResult::Requested(id) = result {
            self.last_deployment = Some(id);
        }
        self.history.insert(0, result.into_run(due_at, now));
        self.history.truncate(MAX_HISTORY);
        let next = self.settings.times.next_after(now.max(due_at));
        // A day before the next time of a daily schedule is this due time, which has just passed.
        let since = now.checked_sub(MISSED_AFTER).map_or(due_at, |since| since.max(due_at));
        self.set_due(next, since);
        self.settings.enabled = next.is_some();
        self.version += 1;
    }

    /// The idempotency key of a due time: a request that is repeated leads to the same deployment.
    pub fn key_of(&self, due_at: Timestamp) -> String {
        format!("schedule/{}/{}/{due_at}", self.env_uuid.0, self.id)
    }

    /// The principal of its requests: its author, which may deploy to this environment and read what it was allowed to read when
    /// it wrote the schedule.
    pub fn principal(&self, org: OrgUuid) -> Principal {
        let reader = (self.author.role, self.author.scoped_roles.clone());
        let org = (org, self.org_id.clone());
        Principal::to_deploy(self.author.id, org, reader, (&self.project, &self.env))
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
