//! A role's policy, evaluated as IAM does: a matching `Deny` wins, else a matching `Allow`, else the
//! action is refused. (IAM user guide, "Policy evaluation logic".)

use super::condition::{self, Test};
use super::needs::Need;
use crate::stack::{Effect, OneOrMany, Statement};
use crate::wildcard;
use std::collections::BTreeMap;

/// A parsed policy.
#[derive(Clone, Debug)]
pub struct Policy(Vec<Rule>);

#[derive(Clone, Debug)]
struct Rule {
    effect: Effect,
    actions: Names,
    resources: Names,
    tests: Vec<Test>,
}

/// `Action` or `NotAction`, `Resource` or `NotResource`.
#[derive(Clone, Debug)]
struct Names {
    patterns: Vec<String>,
    named: bool,
}

impl Policy {
    /// Parses the statements of a role. An unknown condition is an error: to ignore it would grant more,
    /// or less, than AWS does.
    ///
    /// # Errors
    /// If a part is unknown; the error names it.
    pub fn read(statements: &[Statement]) -> Result<Self, String> {
        statements.iter().map(Rule::read).collect::<Result<_, _>>().map(Self)
    }

    /// Allows everything: for callers that are no function.
    pub fn administrator() -> Self {
        let all = || Names { patterns: vec!["*".to_owned()], named: true };
        Self(vec![Rule {
            effect: Effect::Allow,
            actions: all(),
            resources: all(),
            tests: Vec::new(),
        }])
    }

    /// Whether it allows this action on this resource, in a call with these condition keys.
    pub fn permits(
        &self,
        action: &str,
        resource: &str,
        context: &BTreeMap<String, String>,
    ) -> bool {
        let values = context.iter().map(|(key, value)| (key.as_str(), vec![value.clone()]));
        let need = Need::new(action, resource);
        self.allows(&values.fold(need, |need, (key, value)| need.with(key, value)))
    }

    /// Whether it allows this action.
    pub(super) fn allows(&self, need: &Need) -> bool {
        let mut granted = false;
        for rule in self.0.iter().filter(|rule| rule.is_about(need)) {
            match rule.effect {
                Effect::Deny => return false,
                Effect::Allow => granted = true,
            }
        }
        granted
    }
}

impl Rule {
    fn read(statement: &Statement) -> Result<Self, String> {
        let mut actions = Names::read("Action", &statement.action, &statement.not_action)?;
        // Actions are compared without regard to case.
        actions.patterns.iter_mut().for_each(|name| *name = name.to_lowercase());
        Ok(Self {
            effect: statement.effect,
            actions,
            resources: Names::read("Resource", &statement.resource, &statement.not_resource)?,
            tests: condition::read(&statement.condition)?,
        })
    }

    fn is_about(&self, need: &Need) -> bool {
        self.actions.cover(&need.action.to_lowercase())
            && self.resources.cover(&need.resource)
            && self.tests.iter().all(|test| test.holds(&need.context))
    }
}

impl Names {
    fn read(what: &str, these: &OneOrMany, all_but: &OneOrMany) -> Result<Self, String> {
        let (these, all_but) = (these.texts(), all_but.texts());
        match (these.is_empty(), all_but.is_empty()) {
            (false, true) => Ok(Self { patterns: these, named: true }),
            (true, false) => Ok(Self { patterns: all_but, named: false }),
            _ => Err(format!("a statement has either `{what}` or `Not{what}`")),
        }
    }

    fn cover(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| wildcard::matches(pattern, name)) == self.named
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
