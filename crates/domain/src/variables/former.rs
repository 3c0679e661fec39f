//! Former values of a set's secrets. A state may still have them, so runs mask them too.

use super::VariableKey;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most former values of a set.
const MAX_VALUES: usize = 40;
/// Their largest length together, in bytes as they are sealed: with the largest set they fit an item of the table.
const MAX_BYTES: usize = 32 * 1024;

/// A value that a secret variable had.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerSecret {
    /// The variable.
    pub key: VariableKey,
    /// The JSON of the value, sealed as it was in the variable.
    pub sealed: String,
    /// Until when the variable had it.
    pub until: Timestamp,
}

impl fmt::Debug for FormerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormerSecret").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The former values of a set, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FormerSecrets(Vec<FormerSecret>);

impl FormerSecrets {
    /// Adds a value, and forgets the oldest beyond the limits.
    pub fn add(&mut self, secret: FormerSecret) {
        self.0.insert(0, secret);
        self.0.truncate(MAX_VALUES);
        let mut bytes = 0;
        self.0.retain(|one| {
            bytes += one.sealed.len();
            bytes <= MAX_BYTES
        });
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl IntoIterator for FormerSecrets {
    type Item = FormerSecret;
    type IntoIter = std::vec::IntoIter<FormerSecret>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::super::VariableKind;
    use super::*;

    #[test]
    fn the_newest_values_are_kept_within_the_limits() {
        let key = VariableKey::new(VariableKind::Terraform, "password").unwrap();
        let secret = |n: usize, bytes: usize| FormerSecret {
            key: key.clone(),
            sealed: format!("{n:0bytes$}"),
            until: Timestamp::UNIX_EPOCH,
        };
        let mut small = FormerSecrets::default();
        (0..50).for_each(|n| small.add(secret(n, 10)));
        assert_eq!(small.clone().into_iter().count(), MAX_VALUES);
        assert_eq!(small.into_iter().next(), Some(secret(49, 10)));
        let mut large = FormerSecrets::default();
        (0..5).for_each(|n| large.add(secret(n, 10 * 1024)));
        let kept: Vec<_> = large.clone().into_iter().collect();
        assert_eq!(kept, [secret(4, 10 * 1024), secret(3, 10 * 1024), secret(2, 10 * 1024)]);
        assert!(!format!("{large:?}").contains("0000"), "a sealed value is not printed");
    }
}
