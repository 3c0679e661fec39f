//! What a runner reports of the module that it has fetched.

use crate::commit::{Commit, InvalidCommit};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Maximum number of names in [`FetchedModule::secret_inputs`].
const MAX_NAMES: usize = 20;
/// Maximum length of these names together, in bytes: every step of a deployment writes them.
const MAX_BYTES: usize = 500;

/// The module that an attempt has fetched.
///
/// It is stored as one short text, because an item of more than 1 KB costs another write unit at each step: the commit in
/// base64 (27 characters instead of 40), and if the secret inputs are known, `:` and their names, separated by `,`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FetchedModule {
    /// The commit, if the source is a git repository; the SHA-256 of the manifest, if it is a package in an OCI registry.
    pub commit: Option<Commit>,
    /// The inputs whose values Canyon shows to no one: the module declares them sensitive or ephemeral, or does not
    /// declare them. `None` if that is not known, or if there are too many: then Canyon shows no value.
    pub secret_inputs: Option<Vec<String>>,
}

impl FetchedModule {
    /// Limits what is stored of a report: too many names count as not known.
    pub fn new(commit: Option<Commit>, secret_inputs: Option<Vec<String>>) -> Self {
        let is_name = |name: &String| !name.is_empty() && !name.contains([',', ':']);
        let fits = |names: &Vec<String>| {
            names.len() <= MAX_NAMES
                && names.iter().all(is_name)
                && names.iter().map(String::len).sum::<usize>() <= MAX_BYTES
        };
        Self { commit, secret_inputs: secret_inputs.filter(fits) }
    }

    /// Whether the value of the input `name` may be shown.
    pub fn may_show(&self, name: &str) -> bool {
        self.secret_inputs.as_ref().is_some_and(|secret| !secret.iter().any(|one| one == name))
    }
}

impl fmt::Display for FetchedModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.commit.as_ref().map_or_else(String::new, Commit::in_base64))?;
        match &self.secret_inputs {
            Some(names) => write!(f, ":{}", names.join(",")),
            None => Ok(()),
        }
    }
}

impl FromStr for FetchedModule {
    type Err = InvalidCommit;
    fn from_str(text: &str) -> Result<Self, InvalidCommit> {
        let (commit, names) =
            text.split_once(':').map_or((text, None), |(commit, names)| (commit, Some(names)));
        let commit = match commit {
            "" => None,
            commit => Some(Commit::from_base64(commit)?),
        };
        let split = |names: &str| {
            names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        Ok(Self { commit, secret_inputs: names.map(split) })
    }
}

impl TryFrom<String> for FetchedModule {
    type Error = InvalidCommit;
    fn try_from(text: String) -> Result<Self, InvalidCommit> {
        text.parse()
    }
}

impl From<FetchedModule> for String {
    fn from(module: FetchedModule) -> Self {
        module.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_text_is_short_and_reads_back() {
        for commit in [None, Some("0a".repeat(20)), Some("ff".repeat(32))] {
            for secret in [None, Some(vec![]), Some(vec!["a"]), Some(vec!["a-b", "c_d"])] {
                let secret = secret.map(|names| names.into_iter().map(str::to_owned).collect());
                let commit = commit.as_ref().map(|commit| commit.parse().unwrap());
                let module = FetchedModule::new(commit, secret);
                assert_eq!(module.to_string().parse(), Ok(module.clone()), "{module}");
            }
        }
        let module = FetchedModule::new(Some("0a".repeat(20).parse().unwrap()), Some(vec![]));
        assert_eq!(module.to_string(), "CgoKCgoKCgoKCgoKCgoKCgoKCgo:");
        for text in ["main", "CgoKCgoK:", "!"] {
            assert!(text.parse::<FetchedModule>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_value_of_an_input_is_shown_only_if_the_runner_knows_that_it_is_no_secret() {
        let of = |secret: Option<&[&str]>| {
            let secret = secret.map(|names| names.iter().map(ToString::to_string).collect());
            FetchedModule::new(None, secret)
        };
        assert!(!of(None).may_show("size"));
        assert!(of(Some(&[])).may_show("size"));
        assert!(of(Some(&["password"])).may_show("size"));
        assert!(!of(Some(&["password"])).may_show("password"));
        let many: Vec<_> = (0..=MAX_NAMES).map(|n| n.to_string()).collect();
        assert!(!FetchedModule::new(None, Some(many)).may_show("size"));
        assert!(!FetchedModule::new(None, Some(vec!["a,b".to_owned()])).may_show("size"));
        let long = vec!["x".repeat(MAX_BYTES + 1)];
        assert!(!FetchedModule::new(None, Some(long)).may_show("size"));
    }
}
