//! Checks of runners, and what clouds must be told to trust one.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// A check of a runner: what was tried, and how each step went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerCheck {
    /// The organization.
    pub org_id: String,
    /// The runner.
    pub runner_id: String,
    /// Its id. The next check of the runner replaces this one.
    pub id: Uuid,
    /// How far it is: `waiting` for a launcher, `running`, `done`, or `expired` when no launcher has
    /// said how it went within two minutes.
    #[schema(example = "done")]
    pub status: String,
    /// Whether every step is `ok`; absent until it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<bool>,
    /// The steps so far, in the order in which they were tried.
    pub steps: Vec<RunnerCheckStep>,
    /// When it was asked for.
    #[schema(value_type = String, format = DateTime)]
    pub asked_at: Timestamp,
    /// When it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
}

/// One step of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerCheckStep {
    /// What was tried: `definition`, `assertion`, `exchange`, `cluster`, `connect`, `permissions` or
    /// `dry_run`.
    #[schema(example = "exchange")]
    pub step: String,
    /// `ok`, `failed`, or `skipped` because an earlier one failed.
    #[schema(example = "ok")]
    pub result: String,
    /// What was found; of a failure, what is missing and what to change.
    pub message: String,
}

/// How to wait for news of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CheckQuery {
    /// Wait until there are more steps than this, or the check is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(maximum = 100)]
    pub after_steps: Option<u32>,
    /// Wait at most so long, up to 25; 0 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(maximum = 25)]
    pub wait_seconds: Option<u32>,
}

/// Whom a cloud is to trust for a runner, and what to configure there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerTrust {
    /// The organization.
    pub org_id: String,
    /// The runner.
    pub runner_id: String,
    /// Canyon's name as an OIDC issuer: the `iss` of its tokens.
    pub issuer: String,
    /// The `sub` of the tokens about this runner. It never belongs to another one, not even to a later
    /// runner of the same name.
    pub subject: String,
    /// The `aud` of these tokens; absent where the runner is let in otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// What to configure, in the order in which it is done.
    pub documents: Vec<TrustDocument>,
}

/// One thing to configure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrustDocument {
    /// What it is.
    #[schema(example = "Trust policy of the role")]
    pub title: String,
    /// Where it belongs.
    pub place: String,
    /// Its content, to be copied.
    pub text: String,
}
