//! Schedules of environments.

use canyon_domain::json::Json;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A schedule: what Canyon requests for an environment at set times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// Its name, unique in the environment.
    #[schema(example = "nightly")]
    pub id: String,
    /// The project.
    pub project_id: String,
    /// The environment.
    pub env_id: String,
    /// `drift`, `deploy`, `destroy` or `container-check`.
    #[schema(example = "deploy")]
    pub kind: String,
    /// The times, by a cron expression of five fields or a name such as `@daily`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "0 4 * * MON-FRI")]
    pub cron: Option<String>,
    /// The time zone of `cron`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "Europe/Berlin")]
    pub timezone: Option<String>,
    /// The only time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
    /// The seconds between two times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_seconds: Option<u32>,
    /// Whether it runs.
    pub enabled: bool,
    /// What happens when a time was missed: `skip` or `run_once`.
    pub on_missed: String,
    /// With `kind: drift`: whether differences are undone.
    #[serde(default)]
    pub reconcile: bool,
    /// With `kind: deploy`: the request, without project and environment; absent to repeat what was deployed last. With `kind:
    /// container-check`: `resource`, the name of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub spec: Option<Json>,
    /// The next times, at most three.
    #[schema(value_type = Vec<String>)]
    pub next_due_at: Vec<Timestamp>,
    /// With `kind: destroy`: when Canyon announces the next time by an event, if an announcement is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_announcement_at: Option<Timestamp>,
    /// The newest entry of `history`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ScheduledRun>,
    /// The last 20 times that were due, newest first.
    pub history: Vec<ScheduledRun>,
    /// The principal that created or last replaced it. Its deployments are in that principal's name.
    pub created_by: Uuid,
    /// Time of creation.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last replacement.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A time that was due, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduledRun {
    /// The time.
    #[schema(value_type = String, format = DateTime)]
    pub due_at: Timestamp,
    /// When Canyon acted on it.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// The requested deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_id: Option<Uuid>,
    /// Why there is no deployment: `missed`, `previous_still_running`, or the reason of the refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "previous_still_running")]
    pub skipped: Option<String>,
}

/// Declares the two bodies of requests, which differ only in the id.
macro_rules! bodies {
    ($($(#[$doc:meta])* $name:ident { $($(#[$own_doc:meta])* $own:ident: $own_type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$own_doc])* pub $own: $own_type,)*
            /// `drift`, `deploy`, `destroy` or `container-check`.
            #[schema(example = "deploy")]
            pub kind: String,
            /// The times: a cron expression of five fields, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. One of
            /// `cron`, `at` and `every_seconds` is required.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(max_length = 200, example = "0 4 * * MON-FRI")]
            pub cron: Option<String>,
            /// The time zone of `cron`, a name of the IANA database. Default: `UTC`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(example = "Europe/Berlin")]
            pub timezone: Option<String>,
            /// The only time, with its offset.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(format = DateTime)]
            pub at: Option<String>,
            /// The seconds between two times: from 900 for `drift`, else from 300.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(minimum = 300, maximum = 31_622_400)]
            pub every_seconds: Option<u32>,
            /// Whether it runs. Default: true.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub enabled: Option<bool>,
            /// What happens when a time was missed: `skip` or `run_once`. Default: `skip`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(example = "skip")]
            pub on_missed: Option<String>,
            /// With `kind: drift`: whether differences are undone. Default: false.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub reconcile: Option<bool>,
            /// With `kind: deploy`: the body of a request to deploy, without project, environment and `secret_inputs`. Without
            /// it, what was deployed last is deployed again. With `kind: container-check`: `resource`, the name of the resource
            /// to check.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schema(value_type = Option<Object>)]
            pub spec: Option<Json>,
        }
    )*};
}

bodies! {
    /// A request to create a schedule.
    ScheduleCreateBody {
        /// Its name.
        #[schema(max_length = 63, example = "nightly")]
        id: String,
    }
    /// A request to replace a schedule.
    ScheduleReplaceBody {}
}

impl ScheduleCreateBody {
    /// The id, and the rest.
    pub fn split(self) -> (String, ScheduleReplaceBody) {
        let Self {
            id,
            kind,
            cron,
            timezone,
            at,
            every_seconds,
            enabled,
            on_missed,
            reconcile,
            spec,
        } = self;
        let rest = ScheduleReplaceBody {
            kind,
            cron,
            timezone,
            at,
            every_seconds,
            enabled,
            on_missed,
            reconcile,
            spec,
        };
        (id, rest)
    }
}
