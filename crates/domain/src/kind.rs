//! The kind of a deployment's job. All kinds share one lifecycle: attempts, fences, streams, failures, limits and cancelling.
//! What differs between them is data, and all of it is here.

use serde::{Deserialize, Serialize};

/// What a job runs. The names are part of the API, and the claim `kind` of the job's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An OpenTofu module, or a command on an environment's state.
    #[default]
    Tofu,
    /// A program in an image of the deployer's choice.
    Container,
}

/// What the jobs of a kind have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindFacts {
    /// Its name.
    pub name: &'static str,
    /// Whether its jobs work on the environment's state. Canyon then compares the state before a run, records it after the
    /// run, and reads what a lost job may have left in no state.
    pub has_state: bool,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Tofu, Self::Container];

    /// What its jobs have in common.
    pub const fn facts(self) -> KindFacts {
        match self {
            Self::Tofu => KindFacts { name: "tofu", has_state: true },
            Self::Container => KindFacts { name: "container", has_state: false },
        }
    }

    /// What makes a resource, in a sentence.
    pub(crate) const fn maker(self) -> &'static str {
        match self {
            Self::Tofu => "an OpenTofu module",
            Self::Container => "a container job",
        }
    }

    /// The name in the API and in tokens.
    pub const fn as_str(self) -> &'static str {
        self.facts().name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_one_name_in_the_api_and_in_tokens() {
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
