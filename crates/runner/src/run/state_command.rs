//! Commands on the state, in place of a plan and an apply.

use super::Run;
use super::apply::Applying;
use super::locked::LOCK_TIMEOUT;
use super::state::{TRANSFER, refused_by_storage};
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
use canyon_domain::state_command::StateCommand;
use serde_json::json;
use std::collections::BTreeMap;

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
        let done = async {
            self.prepare(tofu, api).await?;
            self.transcript.log.step(&format!("{} {command}", tofu.name()));
            if let StateCommand::ForceUnlock { lock_id, force } = command {
                self.unlock(lock_id.as_str(), *force, tofu, api).await?;
                return Ok(Outcome::default());
            }
            if command.changes_state() {
                self.refuse_removals(command, tofu).await?;
                self.change_state(command, tofu, api).await?;
                return Ok(Outcome::default());
            }
            self.progress.enter(Phase::Plan);
            let outputs = self.read_state(command, tofu).await?;
            Ok(Outcome { outputs, ..Outcome::default() })
        };
        let outcome = done.await.unwrap_or_else(|outcome: Outcome| outcome);
        self.inspect_state(tofu, self.applying == Applying::Begun).await;
        outcome
    }

    /// Ends a run that would remove more resources from the state than its request and its environment allow.
    async fn refuse_removals(&self, command: &StateCommand, tofu: &Tofu) -> Result<(), Outcome> {
        let (StateCommand::Rm { addresses }, Some(allowed)) = (command, self.job.max_deletions)
        else {
            return Ok(());
        };
        let list = StateCommand::List { addresses: addresses.clone() };
        let listed = self.ask_state(&list, tofu).await?;
        let count = u32::try_from(lines(&listed).count()).unwrap_or(u32::MAX);
        if count <= allowed {
            return Ok(());
        }
        let message = format!(
            "`{command}` removes {count} resources from the state; at most {allowed} are allowed: nothing was changed. If \
             the environment's deletion_protection forbids it, have an administrator raise that; otherwise request it with \
             `max_deletions` {count}"
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
        tofu: &mut Tofu,
        api: &ApiConnection,
    ) -> Result<(), Failure> {
        // Only a command that takes the lock shows which lock there is. It asks for it before it evaluates anything.
        let inputs = format!("-var-file={}", self.inputs_file);
        let probe =
            ["plan", "-json", "-refresh=false", "-input=false", "-lock-timeout=0s", &inputs];
        let mut locks = Locks::default();
        loop {
            self.step(tofu, Phase::Plan, &probe).await?;
            if self.stop.is_requested() {
                return Err(verdict::cancelled(Phase::Plan, false));
            }
            let Some(lock) = self.transcript.facts.error.as_ref().and_then(lock::in_error) else {
                self.transcript.log.step("the state is not locked");
                return Ok(());
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

    /// What a command reads, as outputs.
    async fn read_state(
        &mut self,
        command: &StateCommand,
        tofu: &Tofu,
    ) -> Result<Outputs, Failure> {
        let answer = self.ask_state(command, tofu).await?;
        if !matches!(command, StateCommand::List { .. }) {
            return self.sealed(command, &answer);
        }
        let addresses = json!(lines(&answer).collect::<Vec<_>>()).to_string();
        if addresses.len() > MAX_LIST {
            let message = format!(
                "the list has {} bytes, and at most {MAX_LIST} can be delivered: name modules or resources",
                addresses.len()
            );
            return Err(Failure::new(FailureClass::User, message));
        }
        let value = Json::parse(&addresses);
        let value = value.map_err(|error| unreadable(command, &error.to_string()))?;
        let output = Output { sensitive: false, value: Some(value), kind: None };
        Ok(Outputs { plain: [("addresses".to_owned(), output)].into(), encrypted: None })
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
        Ok(Outputs { plain: BTreeMap::new(), encrypted: Some(STANDARD.encode(file)) })
    }

    async fn ask_state(&self, command: &StateCommand, tofu: &Tofu) -> Result<String, Failure> {
        let mut arguments = command.words().to_vec();
        arguments.push("-no-color");
        arguments.extend(command.arguments());
        let answer = tofu.answer(&arguments, TRANSFER).await;
        let has_no_state = |error: &String| error.contains(NO_STATE_FILE);
        if answer.as_ref().is_err_and(has_no_state) && matches!(command, StateCommand::List { .. })
        {
            return Ok(String::new());
        }
        let answer = answer.map_err(|error| {
            if has_no_state(&error) {
                return Failure::new(FailureClass::User, NO_STATE);
            }
            let error = error.trim_start_matches("Error: ").replace('\n', " ");
            let failure = refused_by_storage(format!("`{command}`: {error}"));
            match failure.class {
                // The storage was read a moment before, so it is the address that OpenTofu refuses.
                FailureClass::Config => Failure::new(FailureClass::User, failure.message),
                _ => failure,
            }
        })?;
        String::from_utf8(answer).map_err(|error| unreadable(command, &error.to_string()))
    }
}

fn unreadable(command: &StateCommand, reason: &str) -> Failure {
    Failure::new(FailureClass::Config, format!("the answer to `{command}` is unreadable: {reason}"))
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}
