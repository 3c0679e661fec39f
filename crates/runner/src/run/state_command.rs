//! Commands on the state, in place of a plan and an apply.

use super::Run;
use super::locked::LOCK_TIMEOUT;
use super::state::{TRANSFER, refused_by_storage};
use crate::applying::Applying;
use crate::event::Diagnostic;
use crate::lock::{self, LockContext, Locks};
use crate::outputs::Outputs;
use crate::result::Outcome;
use crate::session::ApiConnection;
use crate::tofu::{Ended, Tofu};
use crate::verdict;
use base64::{Engine, engine::general_purpose::STANDARD};
use canyon_api::deployment::Output;
use canyon_domain::failure::{Failure, FailureClass, Phase};
use canyon_domain::job_identity::TokenPhase;
use canyon_domain::json::Json;
use canyon_domain::plan_options::ResourceAddress;
use canyon_domain::state_command::StateCommand;
use serde_json::json;
use std::collections::BTreeSet;

/// The most bytes of a state that are delivered. A result has at most 2 MiB, and what is encrypted is a third longer there.
const MAX_VALUES: usize = 1024 * 1024;
/// The longest list that is delivered, in bytes.
const MAX_LIST: usize = 512 * 1024;
/// The failure of a command that reads what is not there.
const NO_STATE: &str =
    "there is no state yet: nothing was deployed to or imported into this environment";
/// OpenTofu's words for that (`errStateNotFound` in its `command/state_list.go`).
const NO_STATE_FILE: &str = "No state file was found";

impl Run {
    /// Runs the command of a deployment with the mode `state`.
    pub(super) async fn run_on_state(
        &mut self,
        command: &StateCommand,
        tofu: &mut Tofu,
        api: &ApiConnection,
    ) -> Outcome {
        // A state that the comparison refuses is not the environment's: nothing is reported of it.
        if let Err(failure) = self.prepare(tofu, api).await {
            return failure.into();
        }
        self.transcript.log.step(&format!("{} {command}", tofu.name()));
        let done = self.run_prepared(command, tofu, api).await;
        self.inspect_state(tofu, self.applying == Applying::Begun).await;
        let succeeded = |outputs| Outcome { outputs: Box::new(outputs), ..Outcome::default() };
        done.map_or_else(|outcome| outcome, succeeded)
    }

    async fn run_prepared(
        &mut self,
        command: &StateCommand,
        tofu: &mut Tofu,
        api: &ApiConnection,
    ) -> Result<Outputs, Outcome> {
        match command {
            StateCommand::ForceUnlock { lock_id, force } => {
                Ok(self.unlock(lock_id.as_str(), *force, tofu, api).await?)
            }
            StateCommand::Rm { addresses } => {
                let removed = self.listed(addresses, tofu).await?;
                self.refuse_removals(command, removed.len())?;
                self.change_state(command, tofu, api).await?;
                Ok(output("removed", &self.shown(&removed))?)
            }
            StateCommand::Mv { from, .. } => {
                self.listed(std::slice::from_ref(from), tofu).await?;
                self.change_state(command, tofu, api).await?;
                Ok(Outputs::default())
            }
            StateCommand::Import { .. } => {
                self.change_state(command, tofu, api).await?;
                Ok(Outputs::default())
            }
            StateCommand::List { addresses } => {
                self.progress.enter(Phase::Plan);
                let listed = self.listed_or_none(addresses, tofu).await?;
                Ok(output("addresses", &self.shown(&listed))?)
            }
            StateCommand::Show { .. } | StateCommand::Pull {} => {
                self.progress.enter(Phase::Plan);
                let values = self.ask_state(command, tofu).await?;
                Ok(self.sealed(command, &values)?)
            }
        }
    }

    /// The resources in the state that `addresses` mean, each once. Any that means none ends the run before it changes
    /// anything.
    async fn listed(
        &self,
        addresses: &[ResourceAddress],
        tofu: &Tofu,
    ) -> Result<BTreeSet<String>, Failure> {
        let list = StateCommand::List { addresses: addresses.to_vec() };
        let listed = self.ask_state(&list, tofu).await?;
        let lines = listed.lines().map(str::trim).filter(|line| !line.is_empty());
        Ok(lines.map(str::to_owned).collect())
    }

    /// The same; none if there is no state.
    async fn listed_or_none(
        &self,
        addresses: &[ResourceAddress],
        tofu: &Tofu,
    ) -> Result<BTreeSet<String>, Failure> {
        match self.listed(addresses, tofu).await {
            Err(failure) if failure.message == NO_STATE => Ok(BTreeSet::new()),
            listed => listed,
        }
    }

    /// Addresses for people. The key of an instance may be a secret: it is masked as in the log.
    fn shown(&self, addresses: &BTreeSet<String>) -> serde_json::Value {
        addresses.iter().map(|address| self.transcript.log.masked(address)).collect()
    }

    /// Ends a run that would remove more resources from the state than its request and its environment allow.
    fn refuse_removals(&self, command: &StateCommand, count: usize) -> Result<(), Outcome> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let Some(allowed) = self.job.max_deletions.filter(|allowed| count > *allowed) else {
            return Ok(());
        };
        let resources = if count == 1 { "resource" } else { "resources" };
        let message = format!(
            "`{command}` removes {count} {resources} from the state, and at most {allowed} may leave it at once: nothing was \
             changed. Name fewer, or have an administrator raise the environment's deletion_protection"
        );
        let failure = Failure::new(FailureClass::User, message);
        Err(Outcome { refused_deletions: Some(count), ..failure.into() })
    }

    /// Changes the state, once Canyon knows of it.
    async fn change_state(
        &mut self,
        command: &StateCommand,
        tofu: &mut Tofu,
        api: &ApiConnection,
    ) -> Result<(), Failure> {
        self.applying = Applying::Announced;
        if !self.progress.ask_to_apply(false, &self.stop).await {
            self.progress.enter(Phase::Plan);
            return Err(verdict::cancelled(Phase::Plan, false));
        }
        self.identify(tofu, TokenPhase::Apply).await?;
        let inputs = format!("-var-file={}", self.inputs_file);
        let mut arguments = command.words().to_vec();
        arguments.extend([LOCK_TIMEOUT, "-no-color"]);
        if command.needs_module() {
            arguments.extend(["-input=false", inputs.as_str()]);
        }
        let with_lines = arguments.len();
        arguments.push("-json");
        arguments.extend(command.arguments());
        let mut ended = self.step_past_locks(tofu, api, Phase::Apply, &arguments).await?;
        if ended == Ended::Exited(1) && self.transcript.refused_an_option() {
            // Before OpenTofu 1.12 and in Terraform, these commands had no option `-json`.
            arguments.remove(with_lines);
            ended = self.step_past_locks(tofu, api, Phase::Apply, &arguments).await?;
        }
        if ended != Ended::NotStarted {
            self.applying = Applying::Begun;
        }
        self.expect(tofu, Phase::Apply, ended, &[0])
    }

    /// Frees the lock `id` of a holder that is proved dead; with `force`, also of any other.
    async fn unlock(
        &mut self,
        id: &str,
        force: bool,
        tofu: &Tofu,
        api: &ApiConnection,
    ) -> Result<Outputs, Failure> {
        // Only a command that takes the lock shows which lock there is. It asks for it before it evaluates anything.
        let inputs = format!("-var-file={}", self.inputs_file);
        let probe =
            ["plan", "-no-color", "-refresh=false", "-input=false", "-lock-timeout=0s", &inputs];
        let mut locks = Locks::default();
        self.progress.enter(Phase::Plan);
        loop {
            if self.stop.is_requested() {
                return Err(verdict::cancelled(Phase::Plan, false));
            }
            let said = tofu.answer(&probe, TRANSFER).await.err().unwrap_or_default();
            let error = Diagnostic { detail: said, ..Diagnostic::default() };
            let Some(lock) = lock::in_error(&error) else {
                let text = if locks.has_freed() { "freed" } else { "not locked" };
                return output("lock", &json!(text));
            };
            if lock.id != id {
                let message = format!("{}: it is not the lock {id}", lock::describe(&lock));
                return Err(Failure::new(FailureClass::User, message));
            }
            let context = LockContext { api, tofu, job: &self.job, stop: &self.stop };
            let log = &mut self.transcript.log;
            if force {
                locks.free(&lock, "an administrator has said so", context, log).await?;
            } else {
                locks.free_if_dead(&lock, context, log).await?;
            }
        }
    }

    /// Values of the state, which leave the job encrypted only: not each secret is marked as one.
    fn sealed(&self, command: &StateCommand, values: &str) -> Result<Outputs, Failure> {
        if values.trim().is_empty() {
            return Err(Failure::new(FailureClass::User, NO_STATE));
        }
        if values.len() > MAX_VALUES {
            let message = format!(
                "`{command}` reads {} bytes, and at most {MAX_VALUES} can be delivered: read the state at `{}`",
                values.len(),
                self.job.state.location
            );
            return Err(Failure::new(FailureClass::User, message));
        }
        let refused = |reason: &str| {
            Failure::new(FailureClass::Config, format!("cannot deliver what was read: {reason}"))
        };
        let seal =
            self.seal.as_ref().ok_or_else(|| refused("no key to encrypt it to was given"))?;
        let name = if matches!(command, StateCommand::Pull {}) { "state" } else { "resource" };
        let object = json!({ name: values }).to_string();
        let file = seal.file(object.as_bytes()).map_err(|error| refused(&error.to_string()))?;
        Ok(Outputs { encrypted: Some(STANDARD.encode(file)), ..Outputs::default() })
    }

    async fn ask_state(&self, command: &StateCommand, tofu: &Tofu) -> Result<String, Failure> {
        let mut arguments = command.words().to_vec();
        arguments.push("-no-color");
        arguments.extend(command.arguments());
        let answer = tofu.answer(&arguments, TRANSFER).await;
        let answer = answer.map_err(|error| {
            if error.contains(NO_STATE_FILE) {
                return Failure::new(FailureClass::User, NO_STATE);
            }
            let failure = refused_by_storage(format!("`{command}`: {}", in_one_line(&error)));
            match failure.class {
                // The storage was read a moment before, so it is the address that OpenTofu refuses.
                FailureClass::Config => Failure::new(FailureClass::User, failure.message),
                _ => failure,
            }
        })?;
        String::from_utf8(answer).map_err(|error| unreadable(command, &error.to_string()))
    }
}

/// OpenTofu's error: its summary, and its detail behind a colon.
fn in_one_line(error: &str) -> String {
    let error = error.trim_start_matches("Error: ");
    match error.split_once('\n') {
        Some((summary, detail)) => format!("{summary}: {}", detail.replace('\n', " ")),
        None => error.to_owned(),
    }
}

fn unreadable(command: &StateCommand, reason: &str) -> Failure {
    Failure::new(FailureClass::Config, format!("the answer to `{command}` is unreadable: {reason}"))
}

/// One output in clear.
fn output(name: &str, value: &serde_json::Value) -> Result<Outputs, Failure> {
    let text = value.to_string();
    if text.len() > MAX_LIST {
        let message = format!(
            "the list has {} bytes, and at most {MAX_LIST} can be delivered: name modules or resources",
            text.len()
        );
        return Err(Failure::new(FailureClass::User, message));
    }
    let value = Json::parse(&text).map_err(|error| {
        Failure::new(FailureClass::Config, format!("what was read is no JSON: {error}"))
    })?;
    let output = Output { sensitive: false, value: Some(value), kind: None };
    Ok(Outputs { plain: [(name.to_owned(), output)].into(), ..Outputs::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_an_error_is_separated_from_its_detail() {
        let error =
            "Error: No instance found for the given address\nThis command requires\nan address.";
        let expected = "No instance found for the given address: This command requires an address.";
        assert_eq!(in_one_line(error), expected);
        assert_eq!(in_one_line("Error: no"), "no");
    }
}
