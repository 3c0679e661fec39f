//! Chooses which runner serves an environment.
//!
//! A [`Rule`] ties a runner to a [`Scope`]: a project or group, an environment type, both, or
//! neither. When several rules cover one environment, the one that says most wins: first the depth
//! of the project path that it names, then whether it names the environment type. So a team sets a
//! default and carves exceptions out of it later, without touching the default.
//!
//! The answer is stored with the environment and not asked for again on each deployment: the runner
//! also names where state lives, and a silent move would put the environment's state out of reach.
//!
//! ```
//! use canyon_domain::runner_rules::{Place, Rule, Scope, choose};
//!
//! let group = Scope { project: Some("payments".parse()?), env_type: None };
//! let rules = [
//!     Rule { runner: "shared".parse()?, scope: Scope::default() },
//!     Rule { runner: "payments-eu".parse()?, scope: group },
//! ];
//! let api = Place { project: "payments/api".parse()?, env_type: "production".parse()? };
//! assert_eq!(choose(&rules, &api)?.runner, "payments-eu".parse()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::ids::{EnvTypeId, ProjectId, RunnerId};
use std::fmt;

/// What a rule is matched against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The project of the environment.
    pub project: ProjectId,
    /// The environment's type.
    pub env_type: EnvTypeId,
}

/// Which environments a rule speaks for. `None` means "any".
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// This project, or every project of this group.
    pub project: Option<ProjectId>,
    /// Only this type of environment.
    pub env_type: Option<EnvTypeId>,
}

/// How much a scope says. The derived order is the precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Specificity {
    /// Segments of the project path that it names; 0 when it names none.
    pub project_depth: usize,
    /// Whether it names the environment type.
    pub names_env_type: bool,
}

impl Scope {
    /// Whether this scope covers `place`.
    pub fn covers(&self, place: &Place) -> bool {
        self.project.as_ref().is_none_or(|project| project.holds(&place.project))
            && self.env_type.as_ref().is_none_or(|env_type| *env_type == place.env_type)
    }

    /// How much this scope says.
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

/// "Use `runner` for the environments in `scope`."
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The runner to use.
    pub runner: RunnerId,
    /// Where to use it.
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
    NoRule(Place),
    /// Two rules with the same scope name different runners.
    #[error("runners `{0}` and `{1}` have rules for the same scope; delete one of them")]
    Ambiguous(RunnerId, RunnerId),
}

/// Picks the most specific rule that covers `place`, whatever order `rules` come in.
///
/// # Errors
///
/// [`ChooseError::NoRule`] if none covers it; [`ChooseError::Ambiguous`] if two equally specific
/// rules disagree, since guessing would let the order of a list choose.
pub fn choose<'r>(rules: &'r [Rule], place: &Place) -> Result<&'r Rule, ChooseError> {
    let covering = || rules.iter().filter(|rule| rule.scope.covers(place));
    let best = covering()
        .max_by_key(|rule| rule.scope.specificity())
        .ok_or_else(|| ChooseError::NoRule(place.clone()))?;
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
        Rule { runner: runner.parse().unwrap(), scope: Scope { project, env_type } }
    }

    fn place(project: &str, env_type: &str) -> Place {
        Place { project: project.parse().unwrap(), env_type: env_type.parse().unwrap() }
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
    fn an_environment_that_no_rule_covers_is_told_how_to_get_one() {
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

    /// The reference model: try scopes from the longest path down, with the type before without.
    fn reference(rules: &[Rule], place: &Place) -> Result<Option<RunnerId>, ()> {
        let mut path = Some(place.project.as_str());
        let mut scopes = Vec::new();
        while let Some(text) = path {
            let project = Some(text.parse().unwrap());
            scopes.push(Scope { project: project.clone(), env_type: Some(place.env_type.clone()) });
            scopes.push(Scope { project, env_type: None });
            path = text.rsplit_once('/').map(|(parent, _)| parent);
        }
        scopes.push(Scope { project: None, env_type: Some(place.env_type.clone()) });
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
