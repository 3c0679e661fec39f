//! External checks of plans: what a rule for approvals says of a check, and the state of that check for one plan.
//!
//! Canyon requests the check from a service of the team, and the service answers later. [`crate::plan_check_answer`] applies what
//! arrives to a deployment.

use crate::failure::shortened_to;
use crate::field_error::FieldErrors;
use crate::ids::{MAX_ID_LENGTH, is_hyphenated, text_id};
use crate::trust_policy::IssuerUrl;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;

text_id!(
    /// A check, unique within the approval of an environment.
    PlanCheckId, "check id", MAX_ID_LENGTH, is_hyphenated,
    "use 2 to 63 lower case letters, digits and single hyphens, starting with a letter"
);

/// Maximum number of checks of a rule.
pub const MAX_CHECKS: usize = 5;
/// Least and most seconds in which a service must answer.
pub const TIMEOUT: std::ops::RangeInclusive<u32> = 30..=600;
/// Maximum length of the message of an answer, in characters.
pub const MAX_MESSAGE: usize = 500;
/// Maximum length of the link of an answer, in characters.
pub const MAX_LINK: usize = 500;
/// Least and most time between two requests to a service that has not accepted the first.
const RETRY_PAUSE: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(2)..=Duration::from_secs(30);

/// What a rule says of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanCheckRule {
    /// Its name.
    pub id: PlanCheckId,
    /// Where Canyon requests it. See [`check_url`].
    pub url: String,
    /// Whether the plan is applied only after it has passed.
    pub mandatory: bool,
    /// For how long the service may take, from the end of the plan.
    pub timeout_seconds: u32,
}

impl PlanCheckRule {
    /// Finds what is out of range in the checks of a rule, below `path`.
    pub fn check(rules: &[Self], path: &str, faults: &mut FieldErrors) {
        if rules.len() > MAX_CHECKS {
            faults.add(path, format!("has at most {MAX_CHECKS}"));
        }
        for (at, rule) in rules.iter().enumerate() {
            if rules.iter().take(at).any(|earlier| earlier.id == rule.id) {
                faults.add(format!("{path}[{at}].id"), "is the id of an earlier check of the rule");
            }
            if !TIMEOUT.contains(&rule.timeout_seconds) {
                let reason = format!("is {} to {}", TIMEOUT.start(), TIMEOUT.end());
                faults.add(format!("{path}[{at}].timeout_seconds"), reason);
            }
        }
    }

    /// Finds the addresses to which Canyon sends nothing. `allows_loopback`: whether services of Canyon's own machine are allowed.
    pub fn check_urls(rules: &[Self], path: &str, allows_loopback: bool, faults: &mut FieldErrors) {
        for (at, rule) in rules.iter().enumerate() {
            if let Err(reason) = check_url(&rule.url, allows_loopback) {
                faults.add(format!("{path}[{at}].url"), reason);
            }
        }
    }

    /// Finds the checks whose ids the environment's type uses: of two with one id, that of the type would count.
    pub fn check_differ(rules: &[Self], of_type: &[Self], path: &str, faults: &mut FieldErrors) {
        for (at, rule) in rules.iter().enumerate() {
            if of_type.iter().any(|other| other.id == rule.id) {
                let reason = "is the id of a check of the environment's type; use another one";
                faults.add(format!("{path}[{at}].id"), reason);
            }
        }
    }
}

/// Whether Canyon may send requests to this address. It has no query and no user, because every reader of a deployment sees it.
/// A name may still lead to a private address: the sender checks that.
///
/// # Errors
///
/// The reason, which continues a sentence after the path of the field.
pub fn check_url(text: &str, allows_loopback: bool) -> Result<(), String> {
    let plain = text.strip_prefix("http://");
    let secure = plain.map_or_else(|| text.to_owned(), |rest| format!("https://{rest}"));
    let url = IssuerUrl::new(&secure).map_err(|error| error.to_string())?;
    let is_loopback = url.host() == "localhost"
        || url.host().parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_loopback && allows_loopback {
        return Ok(());
    }
    if plain.is_some() {
        return Err("must begin with `https://`: other connections can be tampered with".to_owned());
    }
    if url.is_private_address() {
        return Err("is an address that is not public".to_owned());
    }
    Ok(())
}

/// How far a check has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanCheckStatus {
    /// The service has not answered.
    #[default]
    Pending,
    /// The service has answered that it works on it.
    Running,
    /// The plan is good.
    Passed,
    /// The plan is not good, or there is no answer in time.
    Failed,
}

impl PlanCheckStatus {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Passed => "passed",
            Self::Failed => "failed",
        }
    }

    /// Whether an answer may still change it.
    pub fn is_open(self) -> bool {
        match self {
            Self::Pending | Self::Running => true,
            Self::Passed | Self::Failed => false,
        }
    }
}

/// What a service answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanCheckAnswer {
    /// Not [`PlanCheckStatus::Pending`].
    pub status: PlanCheckStatus,
    /// A text for people.
    pub message: Option<String>,
    /// A page for people.
    pub link: Option<String>,
}

/// Whether it is a link that a person may follow.
pub fn is_link(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte);
    let rest = text.strip_prefix("https://").unwrap_or_default();
    text.len() <= MAX_LINK
        && !rest.is_empty()
        && !rest.starts_with('/')
        && text.bytes().all(is_good)
}

/// A check of the plan of one deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanCheck {
    /// The rule at the deployment's acceptance.
    pub rule: PlanCheckRule,
    /// How far it has come.
    #[serde(default)]
    pub status: PlanCheckStatus,
    /// When the service must have answered; `None` before the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// When Canyon sends the next request; `None` after the service has accepted one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_request_at: Option<Timestamp>,
    /// When the service accepted the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<Timestamp>,
    /// What the service says, or why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// A page of the service for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

impl PlanCheck {
    /// A check of a plan that is not made yet.
    pub fn of(rule: PlanCheckRule) -> Self {
        Self {
            rule,
            status: PlanCheckStatus::Pending,
            deadline: None,
            next_request_at: None,
            requested_at: None,
            message: None,
            link: None,
        }
    }

    /// The plan is made: the service is to be asked. What is known of an earlier plan is void.
    pub fn begin(&mut self, now: Timestamp) {
        let timeout = Duration::from_secs(self.rule.timeout_seconds.into());
        self.reset();
        self.deadline = now.saturating_add(timeout).ok();
        self.next_request_at = Some(now);
    }

    /// Another plan is made first.
    pub fn reset(&mut self) {
        *self = Self::of(self.rule.clone());
    }

    /// Whether Canyon is to send a request now.
    pub fn is_to_be_requested(&self, now: Timestamp) -> bool {
        self.status == PlanCheckStatus::Pending && self.next_request_at.is_some_and(|at| at <= now)
    }

    /// Whether its answer is missing after its time.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.status.is_open() && self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// When the launcher must do something about it; `None` after its answer.
    pub fn due_at(&self) -> Option<Timestamp> {
        let next = self.next_request_at.filter(|_| self.status == PlanCheckStatus::Pending);
        [self.deadline, next].into_iter().flatten().min().filter(|_| self.status.is_open())
    }

    /// The service has accepted the request. Returns whether that is new.
    pub fn accept_request(&mut self, now: Timestamp) -> bool {
        if self.requested_at.is_some() {
            return false;
        }
        self.requested_at = Some(now);
        self.next_request_at = None;
        if self.status == PlanCheckStatus::Pending {
            self.message = None;
        }
        true
    }

    /// The service has not accepted the request, for this reason. Canyon pauses as long as it has tried before. Returns whether
    /// another request follows.
    pub fn refuse_request(&mut self, reason: &str, since: Timestamp, now: Timestamp) -> bool {
        if self.status != PlanCheckStatus::Pending || self.requested_at.is_some() {
            return false;
        }
        let tried = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        let pause = tried.clamp(*RETRY_PAUSE.start(), *RETRY_PAUSE.end());
        self.next_request_at = now.saturating_add(pause).ok();
        self.message = Some(shortened_to(reason, MAX_MESSAGE));
        true
    }

    /// Its time has passed without an answer.
    pub fn expire(&mut self) {
        let seconds = self.rule.timeout_seconds;
        let is_refused = self.status == PlanCheckStatus::Pending && self.requested_at.is_none();
        let refused = self.message.take().filter(|_| is_refused);
        let missing = || format!("its service has not answered within {seconds} s");
        let refused = refused.map(|reason| {
            format!("its service has not accepted the request within {seconds} s: {reason}")
        });
        self.message = Some(refused.unwrap_or_else(missing));
        self.status = PlanCheckStatus::Failed;
    }

    /// Whether `answer` changes nothing.
    pub fn has(&self, answer: &PlanCheckAnswer) -> bool {
        (self.status, &self.message, &self.link) == (answer.status, &answer.message, &answer.link)
    }

    /// The service has answered.
    pub fn answer(&mut self, answer: &PlanCheckAnswer) {
        self.status = answer.status;
        self.message.clone_from(&answer.message);
        self.link.clone_from(&answer.link);
    }

    /// Such as `security: passed`.
    pub fn in_words(&self) -> String {
        format!("{}: {}", self.rule.id, self.status.as_str())
    }

    /// Why the deployment ends, if it ends because of this check.
    pub fn refusal(&self) -> Option<String> {
        if !self.rule.mandatory || self.status != PlanCheckStatus::Failed {
            return None;
        }
        let said = self.message.as_ref().map_or_else(String::new, |message| format!(": {message}"));
        Some(format!("the check `{}` of its plan has failed{said}", self.rule.id))
    }
}

#[cfg(test)]
#[path = "plan_check_tests.rs"]
mod tests;
