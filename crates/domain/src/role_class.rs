//! The class of a job's role: what the job may do at the clouds. It decides which identity the job has there.

use crate::mode::Mode;

/// The class of a job's role. The names are part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RoleClass {
    /// It only reads: until the begin of an apply.
    Plan,
    /// It creates and changes resources.
    Apply,
    /// It destroys all resources of an environment.
    Destroy,
}

impl RoleClass {
    /// Every class.
    pub const ALL: [Self; 3] = [Self::Plan, Self::Apply, Self::Destroy];

    /// The class of a run of `mode`, before and after its apply has begun. A destroy plans as every other run does.
    pub fn of(mode: Mode, has_begun_to_apply: bool) -> Self {
        match (has_begun_to_apply, mode) {
            (false, _) | (true, Mode::Drift) => Self::Plan,
            (true, Mode::Destroy) => Self::Destroy,
            (true, Mode::Deploy | Mode::Rollback | Mode::State) => Self::Apply,
        }
    }

    /// The name in definitions and tokens.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::Destroy => "destroy",
        }
    }
}

/// What a definition names for one job at one cloud: roles, accounts or applications.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoleCandidates<'a> {
    /// Of the named role that the request asks for.
    pub by_request: Option<&'a str>,
    /// Of the job's class.
    pub by_class: Option<&'a str>,
    /// By an older field, which only the plan has.
    pub by_older_field: Option<&'a str>,
    /// Of all jobs for which the others name none.
    pub of_all: &'a str,
}

impl<'a> RoleCandidates<'a> {
    /// The most specific one.
    pub fn choose(self) -> &'a str {
        self.by_request.or(self.by_class).or(self.by_older_field).unwrap_or(self.of_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_plans_as_plan_and_changes_resources_as_what_it_is() {
        for (mode, after) in [
            (Mode::Deploy, RoleClass::Apply),
            (Mode::Rollback, RoleClass::Apply),
            (Mode::State, RoleClass::Apply),
            (Mode::Destroy, RoleClass::Destroy),
        ] {
            assert_eq!(RoleClass::of(mode, false), RoleClass::Plan, "{mode:?}");
            assert_eq!(RoleClass::of(mode, true), after, "{mode:?}");
        }
    }

    #[test]
    fn the_most_specific_role_is_chosen() {
        for (by_request, by_class, by_older_field, expected) in [
            (Some("request"), Some("class"), Some("older"), "request"),
            (Some("request"), None, None, "request"),
            (None, Some("class"), Some("older"), "class"),
            (None, Some("class"), None, "class"),
            (None, None, Some("older"), "older"),
            (None, None, None, "all"),
        ] {
            let candidates = RoleCandidates { by_request, by_class, by_older_field, of_all: "all" };
            assert_eq!(candidates.choose(), expected, "{candidates:?}");
        }
    }
}
