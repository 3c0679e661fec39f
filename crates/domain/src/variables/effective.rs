//! The variables that a job gets, and where each comes from.

use super::{Variable, VariableKey, VariableSet};
use crate::variable_scope::VariableScope;
use std::collections::BTreeMap;

/// A variable that applies to an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveVariable {
    /// The variable.
    pub variable: Variable,
    /// The scope of its set.
    pub from: VariableScope,
    /// The wider scopes whose sets have the same key, the widest first.
    pub overrides: Vec<VariableScope>,
}

/// The variables of an environment that `sets` cover, in any order.
pub fn effective(mut sets: Vec<VariableSet>) -> BTreeMap<VariableKey, EffectiveVariable> {
    sets.sort_by(|one, other| one.scope.cmp(&other.scope));
    let mut found: BTreeMap<VariableKey, EffectiveVariable> = BTreeMap::new();
    for VariableSet { scope, variables, .. } in sets {
        for (key, variable) in variables {
            let overrides = match found.remove(&key) {
                Some(wider) => [wider.overrides, vec![wider.from]].concat(),
                None => Vec::new(),
            };
            found.insert(key, EffectiveVariable { variable, from: scope.clone(), overrides });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{VariableKind, VariableValue};
    use super::*;
    use crate::ids::PrincipalId;
    use jiff::Timestamp;

    fn set(scope: &str, names: &[&str]) -> VariableSet {
        let now = Timestamp::UNIX_EPOCH;
        let mut set = VariableSet::empty(scope.parse().unwrap(), None, now);
        for name in names {
            let key = VariableKey::new(VariableKind::Terraform, name).unwrap();
            let variable = Variable {
                value: VariableValue::Plain(scope.into()),
                description: None,
                updated_at: now,
                updated_by: PrincipalId(uuid::Uuid::nil()),
            };
            set.variables.insert(key, variable);
        }
        set
    }

    #[test]
    fn the_nearest_set_wins_whatever_the_order_in_which_sets_are_read() {
        let mut sets = vec![
            set("runner:eu", &["a", "b", "c", "d", "e", "f"]),
            set("organization", &["a", "b", "c", "d", "e"]),
            set("project:pay", &["a", "b", "c", "d"]),
            set("project:pay/shop", &["a", "b", "c"]),
            set("env-type:development", &["a", "b"]),
            set("environment:pay/shop/dev", &["a"]),
        ];
        for _ in 0..sets.len() {
            sets.rotate_left(1);
            let found = effective(sets.clone());
            let from: Vec<_> = found.values().map(|one| one.from.to_string()).collect();
            let expected = [
                "environment:pay/shop/dev",
                "env-type:development",
                "project:pay/shop",
                "project:pay",
                "organization",
                "runner:eu",
            ];
            assert_eq!(from, expected);
            for one in found.values() {
                let value = VariableValue::Plain(one.from.to_string().into());
                assert_eq!(one.variable.value, value, "the value is that of the nearest set");
            }
            let first = found.values().next().unwrap();
            let overridden: Vec<_> = first.overrides.iter().map(ToString::to_string).collect();
            let expected = [
                "runner:eu",
                "organization",
                "project:pay",
                "project:pay/shop",
                "env-type:development",
            ];
            assert_eq!(overridden, expected);
        }
    }

    #[test]
    fn kinds_do_not_override_each_other() {
        let mut environment = set("organization", &[]);
        let key = VariableKey::new(VariableKind::Environment, "region").unwrap();
        let variable = set("organization", &["x"]).variables.into_values().next().unwrap();
        environment.variables.insert(key, variable);
        let found = effective(vec![environment, set("project:shop", &["region"])]);
        assert_eq!(found.len(), 2);
        assert!(found.values().all(|one| one.overrides.is_empty()));
    }
}
