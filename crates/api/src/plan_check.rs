//! External checks of plans.

use canyon_domain::plan_check::{self, PlanCheckId, PlanCheckStatus};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A service that checks each plan that waits for approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanCheckRule {
    /// Its name, unique within the rule.
    #[schema(value_type = String, example = "security")]
    pub id: PlanCheckId,
    /// Where Canyon sends its request: `https://`, without user and query.
    #[schema(max_length = 255, example = "https://checks.example.com/canyon")]
    pub url: String,
    /// Whether a plan is applied only after it has passed; a failure ends the deployment. Otherwise it is only shown.
    #[serde(default = "yes")]
    #[schema(default = true)]
    pub mandatory: bool,
    /// For how many seconds the service may take. Without an answer the check has failed.
    #[serde(default = "five_minutes")]
    #[schema(minimum = 30, maximum = 600, default = 300)]
    pub timeout_seconds: u32,
}

fn yes() -> bool {
    true
}

fn five_minutes() -> u32 {
    300
}

impl From<PlanCheckRule> for plan_check::PlanCheckRule {
    fn from(of: PlanCheckRule) -> Self {
        let PlanCheckRule { id, url, mandatory, timeout_seconds } = of;
        Self { id, url, mandatory, timeout_seconds }
    }
}

impl From<plan_check::PlanCheckRule> for PlanCheckRule {
    fn from(of: plan_check::PlanCheckRule) -> Self {
        let plan_check::PlanCheckRule { id, url, mandatory, timeout_seconds } = of;
        Self { id, url, mandatory, timeout_seconds }
    }
}

/// A check of the plan of a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanCheck {
    /// Its name.
    pub id: String,
    /// Whether the plan is applied only after it has passed.
    pub mandatory: bool,
    /// `pending`, `running`, `passed` or `failed`.
    pub status: String,
    /// What its service says, or why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// A page of the service for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Until when the service must have answered; absent before the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Option<Timestamp>,
}

impl PlanCheck {
    /// Such as `security: failed (2 findings)`.
    pub fn in_words(&self) -> String {
        let message = self.message.as_deref().and_then(|text| text.lines().next());
        let message = message.map_or_else(String::new, |text| format!(" ({text})"));
        format!("{}: {}{message}", self.id, self.status)
    }
}

/// How a service answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredStatus {
    /// The service works on it. The time for its answer stays as it is.
    Running,
    /// The plan is good. This is final.
    Passed,
    /// The plan is not good. This is final.
    Failed,
}

/// The answer of the service of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanCheckAnswerBody {
    /// The result.
    pub status: AnsweredStatus,
    /// A text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 500)]
    pub message: Option<String>,
    /// A page for people: an `https://` address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 500)]
    pub url: Option<String>,
}

impl From<PlanCheckAnswerBody> for plan_check::PlanCheckAnswer {
    fn from(of: PlanCheckAnswerBody) -> Self {
        let status = match of.status {
            AnsweredStatus::Running => PlanCheckStatus::Running,
            AnsweredStatus::Passed => PlanCheckStatus::Passed,
            AnsweredStatus::Failed => PlanCheckStatus::Failed,
        };
        Self { status, message: of.message, link: of.url }
    }
}

impl From<plan_check::PlanCheck> for PlanCheck {
    fn from(of: plan_check::PlanCheck) -> Self {
        Self {
            id: of.rule.id.to_string(),
            mandatory: of.rule.mandatory,
            status: of.status.as_str().to_owned(),
            message: of.message,
            url: of.link,
            deadline: of.deadline,
        }
    }
}
