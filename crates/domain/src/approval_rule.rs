//! The rule for approvals of an environment type, or of an environment: which plans need approval, and by whom.

use crate::field_error::FieldErrors;
use crate::ids::PrincipalId;
use crate::kept_plan::PlanSummary;
use crate::plan_check::PlanCheckRule;
use crate::provider_group::{Membership, ProviderGroup};
use crate::role::Role;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum number of approvals that a rule may need.
pub const MAX_COUNT: u8 = 5;
/// Least and most seconds for which a plan waits for its approval.
pub const EXPIRY: std::ops::RangeInclusive<u32> = 300..=604_800;
/// Maximum number of subjects in a rule.
pub const MAX_SUBJECTS: usize = 50;
/// Maximum number of groups in a rule.
pub const MAX_GROUPS: usize = 50;
/// Maximum length of a subject, and of a comment, in characters.
pub const MAX_TEXT: usize = 300;

/// Which plans need approval, from the least strict to the strictest.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalNeed {
    /// None.
    #[default]
    Never,
    /// Those that destroy or replace something.
    Destructive,
    /// Those that change a resource.
    Changes,
    /// All that change anything, also outputs alone.
    Always,
}

impl ApprovalNeed {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Never, Self::Destructive, Self::Changes, Self::Always];

    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Destructive => "destructive",
            Self::Changes => "changes",
            Self::Always => "always",
        }
    }

    /// Whether a plan that changes something needs approval.
    pub fn is_met_by(self, plan: &PlanSummary) -> bool {
        let PlanSummary { add, change, import, moved, forget, .. } = plan;
        match self {
            Self::Never => false,
            Self::Destructive => plan.destroyed() > 0,
            Self::Changes => {
                plan.destroyed() > 0 || [add, change, import, moved, forget].iter().any(|n| **n > 0)
            }
            Self::Always => true,
        }
    }
}

/// What becomes of its environment's turn while a plan waits for approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnHold {
    /// Its deployment keeps it: later deployments wait, and the plan stays right.
    #[default]
    Turn,
    /// Later deployments run meanwhile. If they change the state, another plan is made.
    Release,
}

impl TurnHold {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(crate) fn is_turn(&self) -> bool {
        *self == Self::Turn
    }
}

/// A rule of an environment type or of an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRule {
    /// Which plans need approval.
    pub required: ApprovalNeed,
    /// How many people must approve; 0 only if a check must pass.
    pub count: u8,
    /// Who may approve.
    #[serde(default, skip_serializing_if = "Approvers::is_default")]
    pub approvers: Approvers,
    /// Whether the requester of the deployment may not.
    pub forbid_author: bool,
    /// For how long a plan waits.
    pub expires_seconds: u32,
    /// Whether an approval must say something.
    pub comment_required: bool,
    /// What becomes of the turn; `None` leaves it to the rule of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<TurnHold>,
    /// The services that check each plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<PlanCheckRule>,
}

/// Who may approve. Without any of them, each person who may deploy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approvers {
    /// Everybody with one of these roles in the environment, or a higher one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
    /// These principals, by id or by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    /// The people of these groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<ProviderGroup>,
}

impl Approvers {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether `reviewer` is one of them. A machine is one only if it is named.
    pub fn admit(&self, reviewer: &Reviewer<'_>) -> bool {
        let is_named = |subject: &String| {
            Some(subject.as_str()) == reviewer.name || *subject == reviewer.id.to_string()
        };
        if self.subjects.iter().any(is_named) {
            return true;
        }
        let has_role = if self.is_default() {
            reviewer.role >= Role::Deployer
        } else {
            self.roles.iter().any(|role| reviewer.role >= *role)
        };
        let is_member = |group| reviewer.groups.is_some_and(|person| person.is_in(group));
        (has_role || self.groups.iter().any(is_member)) && !reviewer.is_machine
    }
}

/// What a reviewer needs one of.
impl fmt::Display for Approvers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_default() {
            return f.write_str("the role `deployer`");
        }
        let roles = self.roles.iter().map(|role| format!("the role `{}`", role.as_str()));
        let groups = self.groups.iter().map(|group| format!("the group `{group}`"));
        let subjects = self.subjects.iter().map(|subject| format!("`{subject}`"));
        let all: Vec<_> = roles.chain(groups).chain(subjects).collect();
        f.write_str(&all.join(" or "))
    }
}

/// Who reviews a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reviewer<'a> {
    /// Its principal.
    pub id: PrincipalId,
    /// Its name, if it has one.
    pub name: Option<&'a str>,
    /// Its role in the environment.
    pub role: Role,
    /// Whether it is a service account.
    pub is_machine: bool,
    /// Its groups, if it is a person.
    pub groups: Option<Membership<'a>>,
}

impl ApprovalRule {
    /// What the settings that were not given are.
    pub fn of(required: ApprovalNeed) -> Self {
        Self {
            required,
            count: 1,
            approvers: Approvers::default(),
            forbid_author: true,
            expires_seconds: 86_400,
            comment_required: false,
            hold: None,
            checks: Vec::new(),
        }
    }

    /// Finds what is out of range, below `path`.
    pub fn check(&self, path: &str, faults: &mut FieldErrors) {
        let must_pass = self.checks.iter().any(|check| check.mandatory);
        let least = u8::from(!must_pass);
        if !(least..=MAX_COUNT).contains(&self.count) {
            let reason = format!("is 1 to {MAX_COUNT}, or 0 if one of `checks` is mandatory");
            faults.add(format!("{path}.count"), reason);
        }
        PlanCheckRule::check(&self.checks, &format!("{path}.checks"), faults);
        if !EXPIRY.contains(&self.expires_seconds) {
            let reason = format!("is {} to {} (7 days)", EXPIRY.start(), EXPIRY.end());
            faults.add(format!("{path}.expires_seconds"), reason);
        }
        let subjects = self.approvers.subjects.len();
        let is_closed = self.approvers.roles.is_empty() && self.approvers.groups.is_empty();
        if is_closed && (1..usize::from(self.count)).contains(&subjects) {
            let reason = format!("is more than the approvers: only {subjects} may approve");
            faults.add(format!("{path}.count"), reason);
        }
        if subjects > MAX_SUBJECTS {
            let reason = format!("has at most {MAX_SUBJECTS}");
            faults.add(format!("{path}.approvers.subjects"), reason);
        }
        if self.approvers.groups.len() > MAX_GROUPS {
            let reason = format!("has at most {MAX_GROUPS}");
            faults.add(format!("{path}.approvers.groups"), reason);
        }
        let length = |text: &String| text.chars().count();
        for (at, subject) in self.approvers.subjects.iter().enumerate() {
            if !(1..=MAX_TEXT).contains(&length(subject)) {
                let path = format!("{path}.approvers.subjects[{at}]");
                faults.add(path, format!("has 1 to {MAX_TEXT} characters"));
            }
        }
        if self.approvers.roles.contains(&Role::None) || self.approvers.roles.contains(&Role::Agent)
        {
            let reason = "has `viewer`, `deployer` and `admin`";
            faults.add(format!("{path}.approvers.roles"), reason);
        }
    }

    /// Finds where this rule of an environment would ask for less than `rule` of its type.
    pub fn check_is_stricter(&self, rule: &Self, path: &str, faults: &mut FieldErrors) {
        let mut weaker = |field: &str, least: String| {
            let reason = format!("asks for less than the environment's type, which has {least}");
            faults.add(format!("{path}.{field}"), reason);
        };
        if self.required < rule.required {
            weaker("required", format!("`{}`", rule.required.as_str()));
        }
        if self.count < rule.count {
            weaker("count", rule.count.to_string());
        }
        if rule.forbid_author && !self.forbid_author {
            weaker("forbid_author", "true".to_owned());
        }
        if self.expires_seconds > rule.expires_seconds {
            weaker("expires_seconds", rule.expires_seconds.to_string());
        }
        if rule.comment_required && !self.comment_required {
            weaker("comment_required", "true".to_owned());
        }
        PlanCheckRule::check_differ(&self.checks, &rule.checks, &format!("{path}.checks"), faults);
    }
}
