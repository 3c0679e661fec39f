//! The summary of OpenTofu's `-json` lines: counts, outputs, the first error, which creations began.

use crate::event::{Changes, Diagnostic, Event, Hook, Operation, OutputEvent};
use canyon_domain::unwritten_state::is_error_of_unwritten_state;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::{BTreeMap, BTreeSet};

/// The parts of a state (version 4) that are counted. Attributes are skipped.
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

/// How many resources the state has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateSize {
    /// Computed from the lines of the plan and the apply.
    #[default]
    ByLines,
    /// Counted in the state itself: after a failed apply it also has resources that were created in part.
    Counted(u32),
    /// The state could not be read.
    Unknown,
}

impl StateSize {
    /// Counts the managed resources in a state; `None` if it could not be read.
    pub fn of_pulled(state: Option<&[u8]>) -> Self {
        state.and_then(Self::of).unwrap_or(Self::Unknown)
    }

    fn of(state: &[u8]) -> Option<Self> {
        if state.trim_ascii().is_empty() {
            return Some(Self::Counted(0));
        }
        let state: State = serde_json::from_slice(state).ok()?;
        let managed = state.resources.iter().filter(|resource| resource.mode == "managed");
        let instances = managed.flat_map(|resource| &resource.instances);
        // A deposed instance is the old object of a replacement, beside the new one.
        let current = instances.filter(|instance| instance.deposed.is_none());
        u32::try_from(current.count()).ok().map(Self::Counted)
    }
}

/// The summary of a run's lines.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each one comes from a different line")]
pub struct Facts {
    /// The addresses that the plan has read from the state.
    known: BTreeSet<String>,
    /// The addresses in the state of which the provider did not find the resource.
    vanished: BTreeSet<String>,
    /// What the apply has changed so far, counted here.
    done: Changes,
    /// What the plan would change.
    pub planned: Option<Changes>,
    /// OpenTofu's own count of what it changed; only if the apply came to its end.
    pub applied: Option<Changes>,
    /// The outputs of the last line that had any.
    pub outputs: BTreeMap<String, OutputEvent>,
    /// The first error.
    pub error: Option<Diagnostic>,
    /// The first error that was mere text, without the fields of a diagnostic: some of `import` have nothing else.
    pub plain_error: Option<Diagnostic>,
    /// Creations that began, by address, with the id if the creation completed.
    pub creations: BTreeMap<String, Option<String>>,
    /// Resources whose destruction began, by address, with their id.
    pub replaced: BTreeMap<String, Option<String>>,
    /// Whether `init` is now initializing the backend.
    pub in_backend: bool,
    /// Whether OpenTofu has received an interrupt signal.
    pub interrupted: bool,
    /// OpenTofu has begun to change a resource.
    pub has_begun: bool,
    /// Whether OpenTofu or a provider ended before an operation was complete: the resource may exist.
    pub cut_off: bool,
    /// Whether OpenTofu could not write the state to its storage.
    pub state_unwritten: bool,
    /// How many resources the state has.
    pub state: StateSize,
}

impl Facts {
    /// Resets what holds for one process only, before the next process starts.
    pub fn begin(&mut self) {
        self.error = None;
        self.plain_error = None;
        self.interrupted = false;
        self.has_begun = false;
        self.cut_off = false;
        self.state_unwritten = false;
        self.in_backend = false;
    }

    /// Adds one line to the summary.
    pub fn take(&mut self, event: &Event) {
        match event.kind.as_str() {
            "refresh_complete" => {
                self.known.extend(event.hook.as_ref().map(|hook| hook.resource.addr.clone()));
            }
            "resource_drift" => {
                if let Some(change) =
                    event.change.as_ref().filter(|change| change.action == "delete")
                {
                    self.known.remove(&change.resource.addr);
                    // What the provider `local` has written, such as `local_file`, is gone with the former job's folder.
                    if change.resource.implied_provider != "local" {
                        self.vanished.insert(change.resource.addr.clone());
                    }
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
                        // A program of the module can write such a line too: the largest count is kept.
                        let largest = self.planned.map_or(0, |planned| planned.remove);
                        (Some(Changes { remove: changes.remove.max(largest), ..changes }), None)
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
            "" if event.level == "error" => {
                let error = || Diagnostic {
                    severity: event.level.clone(),
                    summary: event.message.clone(),
                    ..Diagnostic::default()
                };
                self.plain_error.get_or_insert_with(error);
            }
            "log" if event.message.contains("Interrupt received") => self.interrupted = true,
            // OpenTofu then exits at once with 1 and does not write its state (`internal/command/meta.go`).
            "log" if event.message.contains("Two interrupts received") => self.cut_off = true,
            // Only `init` writes lines without a kind, or with the kind `init_output`.
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

    /// What was changed: OpenTofu's own count, or the runner's count if the apply did not come to its end.
    pub fn changed(&self) -> Changes {
        self.applied.unwrap_or(self.done)
    }

    /// How many resources the provider did not find although the state lists them. They were deleted elsewhere, or the
    /// provider looks in another place; an apply drops them from the state.
    pub fn vanished(&self) -> u32 {
        u32::try_from(self.vanished.len()).unwrap_or(u32::MAX)
    }

    /// How many resources the state has at the end; `None` if that is not known.
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
        // At the end of an apply, OpenTofu 1.12 does not count the old objects that replacements leave behind.
        let planned = self.applied.and(self.planned).map_or(0, |planned| planned.forget);
        // An imported resource was read before, so it is in `known` already.
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

/// Whether a provider died, a call to it was cancelled, or its answer did not arrive. The summaries are those of
/// `internal/plugin/grpc_error.go` of OpenTofu 1.12.
fn is_of_dead_provider(error: &Diagnostic) -> bool {
    matches!(
        error.summary.as_str(),
        "Plugin did not respond" | "Request cancelled" | "Plugin error"
    )
}

fn is_of_unwritten_state(error: &Diagnostic) -> bool {
    is_error_of_unwritten_state(&error.summary, error.address.as_deref())
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
