//! `agents` of a runner: which agents may launch its jobs.

use super::{fields::Fields, patterns};
use crate::ids::AgentId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of agents that a target names, and of labels that it requires.
const MAX_ENTRIES: usize = 16;

/// `agents`: agents by id, or by labels. A runner without it uses the agents that name the runner themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentTarget {
    /// These agents.
    Ids(Vec<AgentId>),
    /// Agents that have at least these labels, with these values.
    Labels(BTreeMap<String, String>),
}

/// Continues "an agent that": `is called a or b`, `has the labels x=y`.
impl std::fmt::Display for AgentTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ids(ids) => {
                let ids: Vec<_> = ids.iter().map(|id| format!("`{id}`")).collect();
                write!(f, "is called {}", ids.join(" or "))
            }
            Self::Labels(labels) => {
                let labels: Vec<_> =
                    labels.iter().map(|(name, value)| format!("`{name}={value}`")).collect();
                write!(f, "has the labels {}", labels.join(", "))
            }
        }
    }
}

impl AgentTarget {
    /// Whether it selects the agent `id` with the labels `labels`.
    ///
    /// ```
    /// # use canyon_domain::runner::agents::AgentTarget;
    /// # use std::collections::BTreeMap;
    /// let labels = |of: &str| BTreeMap::from([("region".to_owned(), of.to_owned())]);
    /// let target = AgentTarget::Labels(labels("eu"));
    /// assert!(target.matches(&"berlin-1".parse()?, &labels("eu")));
    /// assert!(!target.matches(&"boston-1".parse()?, &labels("us")));
    /// # Ok::<(), canyon_domain::ids::InvalidId>(())
    /// ```
    pub fn matches(&self, id: &AgentId, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Ids(ids) => ids.contains(id),
            Self::Labels(wanted) => {
                wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
            }
        }
    }

    /// `None` with at least one fault noted.
    pub(crate) fn read(fields: &mut Fields) -> Option<Self> {
        let given = fields.has("ids") || fields.has("labels");
        let ids = fields.about("The ids of these agents.").texts(
            "ids",
            &(1..=MAX_ENTRIES),
            &patterns::AGENT_ID,
        );
        let labels = fields
            .about("The labels, with their values, that an agent has at least.")
            .text_map("labels", MAX_ENTRIES, &patterns::LABEL, &patterns::LABEL_VALUE);
        match (ids, labels) {
            (Some(ids), None) => {
                Some(Self::Ids(ids.into_iter().filter_map(|id| id.parse().ok()).collect()))
            }
            (None, Some(labels)) if !labels.is_empty() => Some(Self::Labels(labels)),
            (None, Some(_)) => {
                fields
                    .fault("labels", "must have 1 to 16 entries; leave `agents` out for any agent");
                None
            }
            (Some(_), Some(_)) => {
                fields.fault("", "must have either `ids` or `labels`, not both");
                None
            }
            (None, None) => {
                if !given {
                    fields.fault("", "must have `ids` or `labels`; leave it out for any agent");
                }
                None
            }
        }
    }
}
