//! The published form of commands on the state.

use canyon_domain::state_command::StateCommand;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A command of OpenTofu on the state, with OpenTofu's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum StateCommandBody {
    /// Adds a resource that exists to the state.
    Import {
        /// An address that the module declares.
        address: String,
        /// The resource's id, as its provider writes it.
        id: String,
    },
    /// Lists the addresses in the state, as the output `addresses`.
    List {
        /// Only these resources and modules.
        #[serde(default)]
        addresses: Vec<String>,
    },
    /// Shows the attributes of one resource without the sensitive ones, as the output `resource`. It only exists encrypted:
    /// `encrypted_outputs_recipient` is required.
    Show {
        /// Its address.
        address: String,
    },
    /// Reads the whole state, as the output `state`. It only exists encrypted: `encrypted_outputs_recipient` is required.
    Pull {},
    /// Removes resources from the state, and leaves them where they are.
    Rm {
        /// The resources and modules.
        addresses: Vec<String>,
    },
    /// Frees the lock of a holder that is proved dead.
    ForceUnlock {
        /// The id of the lock.
        lock_id: String,
        /// Free it also if its holder is not proved dead. Only for administrators.
        #[serde(default)]
        force: bool,
    },
    /// Gives a resource or a module another address.
    Mv {
        /// Its address.
        from: String,
        /// The other address.
        to: String,
    },
}

impl From<StateCommand> for StateCommandBody {
    fn from(command: StateCommand) -> Self {
        let texts = |addresses: Vec<_>| addresses.into_iter().map(String::from).collect();
        match command {
            StateCommand::Import { address, id } => {
                Self::Import { address: address.into(), id: id.into() }
            }
            StateCommand::List { addresses } => Self::List { addresses: texts(addresses) },
            StateCommand::Show { address } => Self::Show { address: address.into() },
            StateCommand::Pull {} => Self::Pull {},
            StateCommand::Rm { addresses } => Self::Rm { addresses: texts(addresses) },
            StateCommand::Mv { from, to } => Self::Mv { from: from.into(), to: to.into() },
            StateCommand::ForceUnlock { lock_id, force } => {
                Self::ForceUnlock { lock_id: lock_id.into(), force }
            }
        }
    }
}
