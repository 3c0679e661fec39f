//! The environments whose jobs get a variable.

use crate::ids::{EnvId, EnvTypeId, ProjectId};
use crate::variable_scope::{VariableScope, VariableTarget};

/// An environment whose jobs get a variable, and the scopes that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableUse {
    /// The environment's project.
    pub project: ProjectId,
    /// The environment.
    pub env: EnvId,
    /// Its type.
    pub env_type: EnvTypeId,
    /// The scope whose value its jobs get: of those that have the variable, the nearest.
    pub from: VariableScope,
    /// The wider scopes that have it too, the widest first.
    pub overrides: Vec<VariableScope>,
}

impl VariableUse {
    /// The use by the runs of an environment; `None` if no scope that covers them has the variable.
    pub fn of(run: VariableTarget<'_>, has_it: impl Fn(&VariableScope) -> bool) -> Option<Self> {
        let mut overrides = VariableScope::covering(run);
        overrides.retain(has_it);
        let from = overrides.pop()?;
        let VariableTarget { project, env, env_type, .. } = run;
        let (project, env, env_type) = (project.clone(), env.clone(), env_type.clone());
        Some(Self { project, env, env_type, from, overrides })
    }

    /// Whether `scope` has the variable for this environment, also if a nearer one overrides it.
    pub fn is_offered_by(&self, scope: &VariableScope) -> bool {
        self.from == *scope || self.overrides.contains(scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_scope_that_has_it_wins_and_the_others_are_overridden() {
        let found = |having: &[&str]| {
            let has_it = |scope: &VariableScope| having.contains(&scope.to_string().as_str());
            let run = VariableTarget {
                runner: &"eu".parse().unwrap(),
                project: &"pay/shop".parse().unwrap(),
                env: &"dev".parse().unwrap(),
                env_type: &"development".parse().unwrap(),
            };
            let used = VariableUse::of(run, has_it)?;
            let overrides: Vec<_> = used.overrides.iter().map(ToString::to_string).collect();
            Some(format!("{} over {overrides:?}", used.from))
        };
        assert_eq!(found(&[]), None);
        assert_eq!(found(&["runner:us", "project:pay/other", "env-type:production"]), None);
        assert_eq!(found(&["runner:eu"]).unwrap(), "runner:eu over []");
        assert_eq!(
            found(&["organization", "runner:eu"]).unwrap(),
            "organization over [\"runner:eu\"]"
        );
        assert_eq!(
            found(&["env-type:development", "project:pay", "organization"]).unwrap(),
            "env-type:development over [\"organization\", \"project:pay\"]"
        );
        assert_eq!(
            found(&["project:pay/shop", "environment:pay/shop/dev"]).unwrap(),
            "environment:pay/shop/dev over [\"project:pay/shop\"]"
        );
    }
}
