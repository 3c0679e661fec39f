//! What OpenTofu's `-json` lines say in sum: counts, outputs, the first error, what was begun.

use crate::event::{Changes, Diagnostic, Event, Hook, Operation, OutputEvent};
use std::collections::{BTreeMap, BTreeSet};

/// What a run's lines say in sum.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Resources in the state, by the plan.
    known: BTreeSet<String>,
    /// What the apply has done so far.
    done: Changes,
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
}

impl Facts {
    /// A new process begins: what was true of the last one alone is forgotten.
    pub fn begin(&mut self) {
        self.error = None;
        self.interrupted = false;
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
            "apply_start" => self.started(event.hook.as_ref()),
            "apply_complete" => self.completed(event.hook.as_ref()),
            "change_summary" => {
                self.applied = event.changes.filter(|changes| changes.operation != Operation::Plan);
            }
            "outputs" => self.outputs = event.outputs.clone().unwrap_or_default(),
            "diagnostic" => {
                let error = event.diagnostic.as_ref().filter(|found| found.severity == "error");
                self.error = self.error.take().or(error.cloned());
            }
            "log" if event.message.contains("Interrupt received") => self.interrupted = true,
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

    /// Resources in the state at the end.
    pub fn total(&self) -> u32 {
        let changed = self.changed();
        let known = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        known
            .saturating_add(changed.add)
            .saturating_add(changed.import)
            .saturating_sub(changed.remove)
            .saturating_sub(changed.forget)
    }
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
