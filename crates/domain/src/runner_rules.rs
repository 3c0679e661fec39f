//! Chooses the runner of an environment.
//!
//! A [`Rule`] assigns a runner to a [`Scope`]: a project or group, an environment type, both, or neither. If
//! several rules cover an environment, the most specific one applies: first by the depth of its project path,
//! then by whether it names the environment type. So a team can set a default and add exceptions later,
//! without changing the default.
//!
//! A rule may name fallbacks: the launcher asks them in their order when the runner before cannot take a
//! deployment. They keep states where the runner does.
//!
//! The result is stored with the environment and not computed again for each deployment: the runner also
//! decides where the state is, and a silent change would make the environment's state unreachable.
//!
//! ```
//! use canyon_domain::runner_rules::{RuleTarget, Rule, Scope, choose};
//!
//! let group = Scope { project: Some("payments".parse()?), env_type: None };
//! let rules = [
//!     Rule { runner: "shared".parse()?, fallbacks: vec![], scope: Scope::default() },
//!     Rule { runner: "payments-eu".parse()?, fallbacks: vec!["shared".parse()?], scope: group },
//! ];
//! let api = RuleTarget { project: "payments/api".parse()?, env_type: "production".parse()? };
//! assert_eq!(choose(&rules, &api)?.runner, "payments-eu".parse()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::ids::{EnvTypeId, ProjectId, RunnerId};
use std::fmt;

/// The values that a rule is matched against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleTarget {
    /// The project of the environment.
    pub project: ProjectId,
    /// The environment's type.
    pub env_type: EnvTypeId,
}

/// The environments of a rule. `None` means "any".
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// This project, or every project of this group.
    pub project: Option<ProjectId>,
    /// Only this type of environment.
    pub env_type: Option<EnvTypeId>,
}

/// How specific a scope is. The derived order is the precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Specificity {
    /// Number of segments of its project path; 0 without a project.
    pub project_depth: usize,
    /// Whether it names the environment type.
    pub names_env_type: bool,
}

impl Scope {
    /// Whether this scope covers `target`.
    pub fn covers(&self, target: &RuleTarget) -> bool {
        self.project.as_ref().is_none_or(|project| project.contains(&target.project))
            && self.env_type.as_ref().is_none_or(|env_type| *env_type == target.env_type)
    }

    /// How specific this scope is.
    pub fn specificity(&self) -> Specificity {
        Specificity {
            project_depth: self.project.as_ref().map_or(0, ProjectId::depth),
            names_env_type: self.env_type.is_some(),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.project, &self.env_type) {
            (None, None) => f.write_str("every environment"),
            (Some(project), None) => write!(f, "project `{project}`"),
            (None, Some(env_type)) => write!(f, "environment type `{env_type}`"),
            (Some(project), Some(env_type)) => {
                write!(f, "project `{project}` and environment type `{env_type}`")
            }
        }
    }
}

/// Most fallbacks of a rule.
pub const MAX_FALLBACKS: usize = 4;

/// "Use `runner` for the environments in `scope`, or else one of `fallbacks`."
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The runner to use.
    pub runner: RunnerId,
    /// The runners to ask in this order when it cannot take a deployment.
    pub fallbacks: Vec<RunnerId>,
    /// The environments for which to use it.
    pub scope: Scope,
}

/// Why no runner could be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// No rule covers the environment, not even a default.
    #[error(
        "no runner rule covers project `{}` and environment type `{}`; add one: \
         canyon create runner-rule --set=runner_id=RUNNER --set=project_id={} --set=env_type_id={}",
        .0.project, .0.env_type, .0.project, .0.env_type
    )]
    NoRule(RuleTarget),
    /// Two rules with the same scope name different runners.
    #[error("runners `{0}` and `{1}` have rules for the same scope; delete one of them")]
    Ambiguous(RunnerId, RunnerId),
}

/// The most specific rule that covers `target`, independent of the order of `rules`.
///
/// # Errors
///
/// [`ChooseError::NoRule`] if no rule covers it; [`ChooseError::Ambiguous`] if two equally specific rules
/// name different runners, because otherwise the order of the list would decide.
pub fn choose<'r>(rules: &'r [Rule], target: &RuleTarget) -> Result<&'r Rule, ChooseError> {
    let covering = || rules.iter().filter(|rule| rule.scope.covers(target));
    let best = covering()
        .max_by_key(|rule| rule.scope.specificity())
        .ok_or_else(|| ChooseError::NoRule(target.clone()))?;
    // Covering scopes of equal specificity are equal: the path to a project has one ancestor of
    // each depth.
    match covering().find(|rule| rule.scope == best.scope && rule.runner != best.runner) {
        Some(rival) => Err(ChooseError::Ambiguous(rival.runner.clone(), best.runner.clone())),
        None => Ok(best),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `rule("r", "shop:production")`; `*` stands for any.
    fn rule(runner: &str, scope: &str) -> Rule {
        let (project, env_type) = scope.split_once(':').unwrap();
        let project = (project != "*").then(|| project.parse().unwrap());
        let env_type = (env_type != "*").then(|| env_type.parse().unwrap());
        let scope = Scope { project, env_type };
        Rule { runner: runner.parse().unwrap(), fallbacks: Vec::new(), scope }
    }

    fn place(project: &str, env_type: &str) -> RuleTarget {
        RuleTarget { project: project.parse().unwrap(), env_type: env_type.parse().unwrap() }
    }

    #[test]
    fn the_deepest_project_path_wins_and_then_the_environment_type() {
        let cases: [(&[&str], &str); 7] = [
            (&["*:*"], "*:*"),
            (&["*:*", "*:production"], "*:production"),
            (&["*:production", "pay:*"], "pay:*"),
            (&["pay:production", "pay/eu:*"], "pay/eu:*"),
            (&["pay/eu:*", "pay/eu:production"], "pay/eu:production"),
            (&["pay/eu/api:*", "pay/eu:production"], "pay/eu/api:*"),
            (&["payments:*", "pay/eu/web:*", "*:*"], "*:*"),
        ];
        for (scopes, winner) in cases {
            let mut rules: Vec<_> =
                (10..).zip(scopes).map(|(n, scope)| rule(&format!("r{n}"), scope)).collect();
            for _ in 0..rules.len() {
                rules.rotate_left(1);
                let chosen = &choose(&rules, &place("pay/eu/api", "production")).unwrap().scope;
                assert_eq!(*chosen, rule("any", winner).scope, "{scopes:?}");
            }
        }
    }

    #[test]
    fn the_error_for_an_uncovered_environment_has_the_command_that_adds_a_rule() {
        let error = choose(&[rule("rr", "blog:*")], &place("shop", "production")).unwrap_err();
        insta::assert_snapshot!(error, @"no runner rule covers project `shop` and environment type `production`; add one: canyon create runner-rule --set=runner_id=RUNNER --set=project_id=shop --set=env_type_id=production");
    }

    #[test]
    fn two_equal_rules_for_different_runners_are_refused_rather_than_guessed() {
        let rules = [rule("aa", "shop:*"), rule("bb", "shop:*"), rule("cc", "*:*")];
        let error = choose(&rules, &place("shop", "production"));
        assert!(matches!(error, Err(ChooseError::Ambiguous(..))));
        assert_eq!(choose(&rules, &place("blog", "qa")).unwrap().runner.as_str(), "cc");
    }

    /// The reference model: tries scopes from the longest path to the shortest, with the type before without.
    fn reference(rules: &[Rule], target: &RuleTarget) -> Result<Option<RunnerId>, ()> {
        let mut path = Some(target.project.as_str());
        let mut scopes = Vec::new();
        while let Some(text) = path {
            let project = Some(text.parse().unwrap());
            scopes
                .push(Scope { project: project.clone(), env_type: Some(target.env_type.clone()) });
            scopes.push(Scope { project, env_type: None });
            path = text.rsplit_once('/').map(|(parent, _)| parent);
        }
        scopes.push(Scope { project: None, env_type: Some(target.env_type.clone()) });
        scopes.push(Scope::default());
        for scope in scopes {
            let mut found = rules.iter().filter(|rule| rule.scope == scope).map(|r| &r.runner);
            if let Some(first) = found.next() {
                return if found.all(|r| r == first) { Ok(Some(first.clone())) } else { Err(()) };
            }
        }
        Ok(None)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn choosing_agrees_with_walking_up_the_path(
            scopes in prop::collection::vec(
                ("(\\*|aa(/bb(/cc)?)?|aa/dd|ee)", "(\\*|dev|prod)", 0..4_u8), 0..8),
            project in "aa(/bb(/cc)?)?|ee|ff", env_type in "dev|prod",
        ) {
            let rules: Vec<_> = scopes
                .iter()
                .map(|(p, t, r)| rule(&format!("r{r}"), &format!("{p}:{t}")))
                .collect();
            let place = place(&project, &env_type);
            let chosen = match choose(&rules, &place) {
                Ok(rule) => Ok(Some(rule.runner.clone())),
                Err(ChooseError::NoRule(_)) => Ok(None),
                Err(ChooseError::Ambiguous(..)) => Err(()),
            };
            prop_assert_eq!(chosen, reference(&rules, &place));
        }
    }
}
