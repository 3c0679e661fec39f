//! What OpenTofu's `-json` lines say in sum: counts, outputs, the first error, what was begun.

use crate::event::{Changes, Diagnostic, Event, Hook, Operation, OutputEvent};
use crate::tofu::Tofu;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::{BTreeMap, BTreeSet};

/// As much of a state (version 4) as is counted. Attributes are passed over unread.
#[derive(Deserialize)]
struct State {
    resources: Vec<StateResource>,
}

#[derive(Deserialize)]
struct StateResource {
    mode: String,
    #[serde(default)]
    instances: Vec<StateInstance>,
}

#[derive(Deserialize)]
struct StateInstance {
    deposed: Option<IgnoredAny>,
}

/// How many resources the state has, where the lines do not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateSize {
    /// By the plan and what was applied.
    #[default]
    ByLines,
    /// Counted in the state itself: after a failed apply it also has what was created in part.
    Counted(u32),
    /// The state could not be read.
    Unknown,
}

impl StateSize {
    /// Counts the managed resources in the state, without its lock.
    pub async fn read(tofu: &Tofu) -> Self {
        let state = tofu.ask(&["state", "pull"]).await;
        state.and_then(|state| Self::of(&state)).unwrap_or(Self::Unknown)
    }

    fn of(state: &[u8]) -> Option<Self> {
        if state.trim_ascii().is_empty() {
            return Some(Self::Counted(0));
        }
        let state: State = serde_json::from_slice(state).ok()?;
        let managed = state.resources.iter().filter(|resource| resource.mode == "managed");
        let instances = managed.flat_map(|resource| &resource.instances);
        // A deposed instance is the old one of a replacement, beside the new one.
        let current = instances.filter(|instance| instance.deposed.is_none());
        u32::try_from(current.count()).ok().map(Self::Counted)
    }
}

/// What a run's lines say in sum.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is said by lines of its own")]
pub struct Facts {
    /// Resources in the state, by the plan.
    known: BTreeSet<String>,
    /// What the apply has done so far.
    done: Changes,
    /// What the plan would do.
    pub planned: Option<Changes>,
    /// What OpenTofu says that it has done, when it came to the end.
    pub applied: Option<Changes>,
    /// The outputs, by the last line that named them.
    pub outputs: BTreeMap<String, OutputEvent>,
    /// The first error.
    pub error: Option<Diagnostic>,
    /// Creations that were begun, with the id if they came so far.
    pub creations: BTreeMap<String, Option<String>>,
    /// Resources that were destroyed, or begun to be, with the id that they had.
    pub replaced: BTreeMap<String, Option<String>>,
    /// What `init` does now is to set up the state storage.
    pub in_backend: bool,
    /// OpenTofu has heard a signal.
    pub interrupted: bool,
    /// OpenTofu has begun to change a resource.
    pub has_begun: bool,
    /// OpenTofu or a provider ended in the middle of something: what it was to create may exist.
    pub cut_off: bool,
    /// OpenTofu could not write the state where it belongs.
    pub state_unwritten: bool,
    /// How many resources the state has.
    pub state: StateSize,
}

impl Facts {
    /// A new process begins: what was true of the last one alone is forgotten.
    pub fn begin(&mut self) {
        self.error = None;
        self.interrupted = false;
        self.has_begun = false;
        self.cut_off = false;
        self.state_unwritten = false;
        self.in_backend = false;
    }

    /// Takes in one line.
    pub fn take(&mut self, event: &Event) {
        match event.kind.as_str() {
            "refresh_complete" => {
                self.known.extend(event.hook.as_ref().map(|hook| hook.resource.addr.clone()));
            }
            "resource_drift" => {
                // Somebody has deleted it behind OpenTofu's back.
                if let Some(change) =
                    event.change.as_ref().filter(|change| change.action == "delete")
                {
                    self.known.remove(&change.resource.addr);
                }
            }
            "apply_start" => {
                self.has_begun = true;
                self.started(event.hook.as_ref());
            }
            "apply_complete" => self.completed(event.hook.as_ref()),
            "change_summary" => {
                let (planned, applied) = match event.changes {
                    Some(changes) if changes.operation == Operation::Plan => {
                        // A module's own program can write such a line as well: the most that was said counts.
                        let said = self.planned.map_or(0, |planned| planned.remove);
                        (Some(Changes { remove: changes.remove.max(said), ..changes }), None)
                    }
                    changes => (self.planned, changes),
                };
                (self.planned, self.applied) = (planned, applied);
            }
            "outputs" => self.outputs = event.outputs.clone().unwrap_or_default(),
            "diagnostic" => {
                let error = event.diagnostic.as_ref().filter(|found| found.severity == "error");
                self.cut_off |= error.is_some_and(is_of_dead_provider);
                self.state_unwritten |= error.is_some_and(is_of_unwritten_state);
                self.error = self.error.take().or(error.cloned());
            }
            "log" if event.message.contains("Interrupt received") => self.interrupted = true,
            // Then it exits at once, with 1 and without its state (`internal/command/meta.go`).
            "log" if event.message.contains("Two interrupts received") => self.cut_off = true,
            // Only `init` writes lines without a kind, or with this one.
            "" | "init_output" => self.in_backend = self.in_backend_after(&event.message),
            _ => {}
        }
    }

    fn in_backend_after(&self, message: &str) -> bool {
        message.contains("Initializing the backend")
            || (self.in_backend
                && !message.starts_with("Initializing")
                && !message.contains("Successfully configured"))
    }

    fn started(&mut self, hook: Option<&Hook>) {
        let Some(hook) = hook else { return };
        let address = hook.resource.addr.clone();
        match hook.action.as_str() {
            "create" => drop(self.creations.insert(address, None)),
            "delete" => drop(self.replaced.insert(address, hook.id_value.clone())),
            _ => {}
        }
    }

    fn completed(&mut self, hook: Option<&Hook>) {
        let Some(hook) = hook else { return };
        match hook.action.as_str() {
            "create" => {
                self.done.add += 1;
                self.creations.insert(hook.resource.addr.clone(), hook.id_value.clone());
            }
            "update" => self.done.change += 1,
            "delete" => self.done.remove += 1,
            _ => {}
        }
    }

    /// What was changed: OpenTofu's own sum, or ours when it did not come to its end.
    pub fn changed(&self) -> Changes {
        self.applied.unwrap_or(self.done)
    }

    /// Resources in the state at the end, if that is known.
    pub fn total(&self) -> Option<u32> {
        match self.state {
            StateSize::ByLines => Some(self.total_by_lines()),
            StateSize::Counted(count) => Some(count),
            StateSize::Unknown => None,
        }
    }

    fn total_by_lines(&self) -> u32 {
        let changed = self.changed();
        let known = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        // At the end of an apply OpenTofu 1.12 does not count what a replacement has left behind.
        let planned = self.applied.and(self.planned).map_or(0, |planned| planned.forget);
        // What is imported was read before, and so is known.
        known
            .saturating_add(changed.add)
            .saturating_sub(changed.remove)
            .saturating_sub(changed.forget.max(planned))
    }

    /// Whether the plan has read resources of the state.
    pub fn knows_resources(&self) -> bool {
        !self.known.is_empty()
    }

    /// Whether the module has an output of this name.
    pub fn declares(&self, output: &str) -> bool {
        self.outputs.get(output).is_some_and(|output| output.action != "delete")
    }
}

/// As `internal/plugin/grpc_error.go` of OpenTofu 1.12 words the end of a provider, of a call that was broken off, and of
/// one whose answer did not arrive.
fn is_of_dead_provider(error: &Diagnostic) -> bool {
    matches!(
        error.summary.as_str(),
        "Plugin did not respond" | "Request cancelled" | "Plugin error"
    )
}

/// As `internal/backend/local/backend_apply.go` words it, before and after it tries `errored.tfstate`.
fn is_of_unwritten_state(error: &Diagnostic) -> bool {
    ["Failed to save state", "Failed to persist state"]
        .iter()
        .any(|words| error.summary.starts_with(words))
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
