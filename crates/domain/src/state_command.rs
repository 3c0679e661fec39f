//! Commands of OpenTofu on an environment's state that run as a deployment of the environment: its queue, its runner,
//! its locks and its record of the state hold for them too.

use crate::plan_options::ResourceAddress;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A command on a state, with OpenTofu's name for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum StateCommand {
    /// `import`: adds a resource that exists to the state, at an address that the module declares.
    Import {
        /// The address.
        address: ResourceAddress,
        /// The resource's id, in the form of its provider.
        id: ImportId,
    },
    /// `state list`: the addresses in the state.
    List {
        /// Only these resources and modules.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<ResourceAddress>,
    },
    /// `state show`: the attributes of one resource.
    Show {
        /// Its address.
        address: ResourceAddress,
    },
    /// `state pull`: the whole state, with every secret in it.
    Pull {},
    /// `state rm`: removes resources from the state, and leaves them where they are.
    Rm {
        /// The resources and modules.
        addresses: Vec<ResourceAddress>,
    },
    /// `state mv`: gives a resource or a module another address.
    Mv {
        /// Its address.
        from: ResourceAddress,
        /// The other address.
        to: ResourceAddress,
    },
    /// `force-unlock`: frees the lock of a holder that is proved dead.
    ForceUnlock {
        /// The id of the lock.
        lock_id: LockId,
        /// Free it also if its holder is not proved dead. Only for administrators.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        force: bool,
    },
}

impl StateCommand {
    /// Whether it changes the state or its lock.
    pub fn changes_state(&self) -> bool {
        match self {
            Self::Import { .. } | Self::Rm { .. } | Self::Mv { .. } | Self::ForceUnlock { .. } => {
                true
            }
            Self::List { .. } | Self::Show { .. } | Self::Pull {} => false,
        }
    }

    /// Whether it needs the module's code: a state alone does not tell what a resource's provider is configured with.
    pub fn needs_module(&self) -> bool {
        matches!(self, Self::Import { .. })
    }

    /// Whether what it reads may be secret: it leaves the job encrypted only.
    pub fn reads_secrets(&self) -> bool {
        matches!(self, Self::Show { .. } | Self::Pull {})
    }

    /// OpenTofu's words for it, without arguments.
    pub fn words(&self) -> &'static [&'static str] {
        match self {
            Self::Import { .. } => &["import"],
            Self::List { .. } => &["state", "list"],
            Self::Show { .. } => &["state", "show"],
            Self::Pull {} => &["state", "pull"],
            Self::Rm { .. } => &["state", "rm"],
            Self::Mv { .. } => &["state", "mv"],
            Self::ForceUnlock { .. } => &["force-unlock"],
        }
    }

    /// The arguments after its options.
    pub fn arguments(&self) -> Vec<&str> {
        match self {
            Self::Import { address, id } => vec![address.as_str(), id.0.as_str()],
            Self::List { addresses } | Self::Rm { addresses } => {
                addresses.iter().map(ResourceAddress::as_str).collect()
            }
            Self::Show { address } => vec![address.as_str()],
            Self::Pull {} => Vec::new(),
            Self::Mv { from, to } => vec![from.as_str(), to.as_str()],
            Self::ForceUnlock { lock_id, .. } => vec![lock_id.as_str()],
        }
    }
}

impl fmt::Display for StateCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join(" "))?;
        self.arguments().iter().try_for_each(|argument| write!(f, " {argument}"))?;
        match self {
            Self::ForceUnlock { force: true, .. } => f.write_str(" (its holder may live)"),
            _ => Ok(()),
        }
    }
}

/// The longest id of a resource, in bytes.
const MAX_ID: usize = 1_024;

/// The id of a resource that exists, as its provider writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImportId(String);

/// Why a text is no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to {MAX_ID} bytes, without control characters")]
pub struct InvalidImportId;

impl TryFrom<String> for ImportId {
    type Error = InvalidImportId;

    fn try_from(text: String) -> Result<Self, InvalidImportId> {
        let is_id = (1..=MAX_ID).contains(&text.len()) && !text.contains(char::is_control);
        if is_id { Ok(Self(text)) } else { Err(InvalidImportId) }
    }
}

impl From<ImportId> for String {
    fn from(id: ImportId) -> Self {
        id.0
    }
}

/// The longest id of a lock, in bytes.
const MAX_LOCK_ID: usize = 256;

/// The id of a lock, as its storage writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LockId(String);

impl LockId {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is no id of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to {MAX_LOCK_ID} bytes without spaces, and begin with no `-`")]
pub struct InvalidLockId;

impl TryFrom<String> for LockId {
    type Error = InvalidLockId;

    fn try_from(text: String) -> Result<Self, InvalidLockId> {
        let has_gap = text.contains(|c: char| c.is_control() || c.is_whitespace());
        let is_id = (1..=MAX_LOCK_ID).contains(&text.len()) && !has_gap && !text.starts_with('-');
        if is_id { Ok(Self(text)) } else { Err(InvalidLockId) }
    }
}

impl From<LockId> for String {
    fn from(id: LockId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_command_is_what_a_person_would_type() {
        for (value, typed, changes) in [
            (json!({ "command": "import", "address": "a.b", "id": "-x" }), "import a.b -x", true),
            (
                json!({ "command": "rm", "addresses": ["a.b", "module.c"] }),
                "state rm a.b module.c",
                true,
            ),
            (
                json!({ "command": "mv", "from": "a.b", "to": "a.c[0]" }),
                "state mv a.b a.c[0]",
                true,
            ),
            (json!({ "command": "force_unlock", "lock_id": "17" }), "force-unlock 17", true),
            (json!({ "command": "list" }), "state list", false),
            (json!({ "command": "show", "address": "a.b" }), "state show a.b", false),
            (json!({ "command": "pull" }), "state pull", false),
        ] {
            let command: StateCommand = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(command.to_string(), typed);
            assert_eq!(command.changes_state(), changes, "{typed}");
            assert_eq!(serde_json::to_value(&command).unwrap(), value);
        }
    }

    #[test]
    fn nothing_that_opentofu_would_read_as_an_option_is_an_address() {
        for value in [
            json!({ "command": "rm", "addresses": ["-lock=false"] }),
            json!({ "command": "show", "address": "-state=x.y" }),
            json!({ "command": "import", "address": "a.b", "id": "" }),
            json!({ "command": "import", "address": "a.b", "id": "a\nb" }),
            json!({ "command": "import", "address": "a.b", "id": "x".repeat(1_025) }),
            json!({ "command": "force_unlock", "lock_id": "-force" }),
            json!({ "command": "force_unlock", "lock_id": "a b" }),
            json!({ "command": "push" }),
        ] {
            assert!(serde_json::from_value::<StateCommand>(value.clone()).is_err(), "{value}");
        }
    }
}
