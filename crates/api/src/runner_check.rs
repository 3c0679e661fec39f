//! Checks of runners, and the configuration with which clouds trust a runner.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// A check of a runner: the steps and their results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerCheck {
    /// The organization.
    pub org_id: String,
    /// The runner.
    pub runner_id: String,
    /// Its id. The next check of the runner replaces this one.
    pub id: Uuid,
    /// `waiting` for a launcher, `running`, `done`, or `expired` if no launcher has stored the
    /// result within two minutes.
    #[schema(example = "done")]
    pub status: String,
    /// Whether every step is `ok`; absent until it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<bool>,
    /// The steps so far, in order.
    pub steps: Vec<RunnerCheckStep>,
    /// Time of the request.
    #[schema(value_type = String, format = DateTime)]
    pub asked_at: Timestamp,
    /// Time of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
}

/// One step of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerCheckStep {
    /// The step: `definition`, `assertion`, `exchange`, `cluster`, `connect`, `permissions` or
    /// `dry_run`.
    #[schema(example = "exchange")]
    pub step: String,
    /// `ok`, `failed`, or `skipped` because an earlier step failed.
    #[schema(example = "ok")]
    pub result: String,
    /// The finding; for a failure, what is missing and what to change.
    pub message: String,
}

/// How long to wait for further steps of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CheckQuery {
    /// Wait until there are more steps than this, or the check has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(maximum = 100)]
    pub after_steps: Option<u32>,
    /// Longest wait in seconds, up to 25; default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(maximum = 25)]
    pub wait_seconds: Option<u32>,
}

/// The issuer and subject that a cloud must trust for a runner, and what to configure there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerTrust {
    /// The organization.
    pub org_id: String,
    /// The runner.
    pub runner_id: String,
    /// Canyon's URL as an OIDC issuer: the `iss` of its tokens.
    pub issuer: String,
    /// The `sub` of the tokens about this runner. No other runner ever has it, not even a later one
    /// of the same id.
    pub subject: String,
    /// The `aud` of these tokens; absent if the runner authenticates in another way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// What to configure, in order.
    pub documents: Vec<TrustDocument>,
}

/// One thing to configure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrustDocument {
    /// Title of the document.
    #[schema(example = "Trust policy of the role")]
    pub title: String,
    /// Where to put it.
    pub place: String,
    /// Its content, to copy.
    pub text: String,
}
