//! Parses a command on the state, and notes its faults by their fields.

use canyon_api::deployment::{DeploymentCreateBody, RequestedMode};
use canyon_api::state_command::StateCommandBody;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::plan_options::{ResourceAddress, addresses};
use canyon_domain::state_command::StateCommand;
use std::fmt::Display;

/// The command of a request; `None` if it has none, or a faulty one.
pub(super) fn parse(body: &DeploymentCreateBody, faults: &mut FieldErrors) -> Option<StateCommand> {
    let Some(command) = &body.state_command else {
        if body.mode == RequestedMode::State {
            faults.add("state_command", "is required with `mode: state`");
        }
        return None;
    };
    if body.mode != RequestedMode::State {
        faults.add("state_command", "goes only with `mode: state`");
    }
    let command = read(command, faults);
    if command.as_ref().is_some_and(StateCommand::reads_secrets)
        && body.encrypted_outputs_recipient.is_none()
    {
        let reason = "is required with `show` and `pull`: a state contains secrets, so they are answered encrypted only";
        faults.add("encrypted_outputs_recipient", reason);
    }
    for (field, is_given) in [
        ("plan_only", body.plan_only.is_some()),
        ("accept_state", body.accept_state),
        ("targets", !body.targets.is_empty()),
        ("replace", !body.replace.is_empty()),
        ("parallelism", body.parallelism.is_some()),
    ] {
        if is_given {
            faults.add(field, "does not go with `mode: state`, which makes no plan");
        }
    }
    command
}

fn read(command: &StateCommandBody, faults: &mut FieldErrors) -> Option<StateCommand> {
    const ADDRESSES: &str = "state_command.addresses";
    Some(match command {
        StateCommandBody::Import { address: at, id } => {
            let (address, id) = (address("address", at, faults), one("id", id, faults));
            StateCommand::Import { address: address?, id: id? }
        }
        StateCommandBody::List { addresses: all } => {
            StateCommand::List { addresses: addresses(ADDRESSES, all, faults) }
        }
        StateCommandBody::Show { address: at } => {
            StateCommand::Show { address: address("address", at, faults)? }
        }
        StateCommandBody::Pull {} => StateCommand::Pull {},
        StateCommandBody::Rm { addresses: all } => {
            if all.is_empty() {
                faults.add(ADDRESSES, "is empty; give the resources to remove");
            }
            StateCommand::Rm { addresses: addresses(ADDRESSES, all, faults) }
        }
        StateCommandBody::Mv { from, to } => {
            let (from, to) = (address("from", from, faults), address("to", to, faults));
            StateCommand::Mv { from: from?, to: to? }
        }
        StateCommandBody::ForceUnlock { lock_id, force } => {
            StateCommand::ForceUnlock { lock_id: one("lock_id", lock_id, faults)?, force: *force }
        }
    })
}

fn address(field: &str, text: &str, faults: &mut FieldErrors) -> Option<ResourceAddress> {
    one(field, text, faults)
}

fn one<T: TryFrom<String, Error: Display>>(
    field: &str,
    text: &str,
    faults: &mut FieldErrors,
) -> Option<T> {
    let read = T::try_from(text.to_owned());
    read.map_err(|error| faults.add(format!("state_command.{field}"), error.to_string())).ok()
}
