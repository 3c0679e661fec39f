//! Parses fields of a body into names and ids. It collects all faults, so that one answer lists them.

use crate::App;
use canyon_api::approval::ApprovalRule;
use canyon_api::environment::DeletionProtection;
use canyon_api::policy::Policy;
use canyon_domain::change::Change;
use canyon_domain::display_name::DisplayName;
use canyon_domain::drift::IgnoreRule;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::InvalidId;
use canyon_domain::inventory::Update;
use canyon_domain::plan_check::PlanCheckRule;
use canyon_domain::{approval, policy};
use std::str::FromStr;

/// The id in the field `path`.
pub(super) fn id<T>(faults: &mut FieldErrors, path: &str, text: &str) -> Option<T>
where
    T: FromStr<Err = InvalidId>,
{
    text.parse().map_err(|error: InvalidId| faults.add(path, error.to_string())).ok()
}

/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 200;

/// Notes a fault of the field `description`.
pub(super) fn check_description(faults: &mut FieldErrors, text: Option<&str>) {
    check_purpose(faults, "description", text);
}

/// Notes a fault of the field `path`, a text for people.
pub(super) fn check_purpose(faults: &mut FieldErrors, path: &str, text: Option<&str>) {
    let text = text.unwrap_or_default();
    if text.chars().count() > MAX_DESCRIPTION || text.contains(char::is_control) {
        faults.add(
            path,
            format!("has at most {MAX_DESCRIPTION} characters, and no control characters"),
        );
    }
}

/// The display name in the field `display_name`.
pub(super) fn display_name(faults: &mut FieldErrors, text: String) -> Option<DisplayName> {
    DisplayName::try_from(text).map_err(|error| faults.add("display_name", error.to_string())).ok()
}

/// The same for an optional field: the default is the id.
pub(super) fn display_name_or_id(
    faults: &mut FieldErrors,
    text: Option<String>,
    id: &str,
) -> Option<DisplayName> {
    match text {
        Some(text) => display_name(faults, text),
        None => Some(DisplayName::from_id(id)),
    }
}

/// The display name in a change. It may be omitted if the change has another field.
/// The rule for approvals in a body.
pub(super) fn approval_rule(
    app: &App,
    rule: ApprovalRule,
    faults: &mut FieldErrors,
) -> approval::ApprovalRule {
    let rule = approval::ApprovalRule::from(rule);
    rule.check("approval", faults);
    let is_own_machine = app.serves_local_runners;
    PlanCheckRule::check_urls(&rule.checks, "approval.checks", is_own_machine, faults);
    rule
}

/// The policy over plans in a body. It is compiled: a text that the job could not evaluate is refused.
pub(super) fn policy(given: Policy, faults: &mut FieldErrors) -> policy::Policy {
    let policy = policy::Policy::from(given);
    canyon_policy::check(&policy, "policy", faults);
    policy
}

/// What an update of an environment or of an environment type changes.
pub(super) fn update(
    app: &App,
    name: Option<String>,
    protection: Change<DeletionProtection>,
    approval: Change<ApprovalRule>,
    policy: Change<Policy>,
    drift_ignore: Option<Vec<IgnoreRule>>,
) -> Result<Update, FieldErrors> {
    let mut faults = FieldErrors::default();
    let approval = approval.map(|rule| approval_rule(app, rule, &mut faults));
    let policy = policy.map(|given| Box::new(self::policy(given, &mut faults)));
    if let Some(rules) = &drift_ignore {
        IgnoreRule::check(rules, "drift_ignore", &mut faults);
    }
    let changes_more =
        !protection.is_keep() || !approval.is_keep() || !policy.is_keep() || drift_ignore.is_some();
    let display_name = changed_display_name(name, changes_more)?;
    let deletion_protection = protection.map(Into::into);
    faults.into_result(Update { display_name, deletion_protection, approval, policy, drift_ignore })
}

pub(super) fn changed_display_name(
    text: Option<String>,
    changes_more: bool,
) -> Result<Option<DisplayName>, FieldErrors> {
    let mut faults = FieldErrors::default();
    let name = match text {
        Some(text) => display_name(&mut faults, text),
        None => None,
    };
    if name.is_none() && !changes_more && faults.is_empty() {
        faults.add("display_name", "is required when nothing else is changed");
    }
    faults.into_result(name)
}
