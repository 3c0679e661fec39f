//! OpenTofu's `-json` lines.
//!
//! The format is OpenTofu's "machine-readable UI" <https://opentofu.org/docs/internals/machine-readable-ui>,
//! version 1; unknown kinds and fields are passed over, as it asks for.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// One line.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Event {
    /// For people.
    #[serde(rename = "@message", default)]
    pub message: String,
    /// What kind of line it is.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// With `apply_*`, `refresh_*`, `provision_*`: what it is about.
    pub hook: Option<Hook>,
    /// With `planned_change` and `resource_drift`.
    pub change: Option<Hook>,
    /// With `change_summary`.
    pub changes: Option<Changes>,
    /// With `outputs`.
    pub outputs: Option<BTreeMap<String, OutputEvent>>,
    /// With `diagnostic`.
    pub diagnostic: Option<Diagnostic>,
}

/// What is done to a resource.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Hook {
    /// The resource.
    #[serde(default)]
    pub resource: Resource,
    /// `create`, `update`, `delete`, `replace`, `read` or `noop`.
    #[serde(default)]
    pub action: String,
    /// Its id at the provider.
    pub id_value: Option<String>,
}

/// A resource.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Resource {
    /// Its address in the module.
    #[serde(default)]
    pub addr: String,
}

/// How many resources a plan would change, or an apply has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Created.
    #[serde(default)]
    pub add: u32,
    /// Changed in place.
    #[serde(default)]
    pub change: u32,
    /// Destroyed.
    #[serde(default)]
    pub remove: u32,
    /// Taken into the state.
    #[serde(default)]
    pub import: u32,
    /// Dropped from the state.
    #[serde(default)]
    pub forget: u32,
    /// `plan`, `apply` or `destroy`.
    #[serde(default)]
    pub operation: Operation,
}

/// What a sum is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// What would be done.
    Plan,
    /// What was done.
    Apply,
    /// What was destroyed.
    Destroy,
    /// Anything else.
    #[default]
    #[serde(other)]
    Other,
}

/// An output, with its value once it is known.
///
/// Type and value are texts of JSON: an output that cannot be kept must not cost the line, and with it
/// all others.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct OutputEvent {
    /// In a plan: `create`, `update`, `delete` or `noop`.
    #[serde(default)]
    pub action: String,
    /// Whether the value is withheld.
    #[serde(default)]
    pub sensitive: bool,
    /// The type, as OpenTofu writes it.
    #[serde(rename = "type")]
    pub kind: Option<Box<RawValue>>,
    /// The value.
    pub value: Option<Box<RawValue>>,
}

/// A warning or an error.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Diagnostic {
    /// `error` or `warning`.
    #[serde(default)]
    pub severity: String,
    /// What happened, in a few words.
    #[serde(default)]
    pub summary: String,
    /// What happened, in many words; may repeat values.
    #[serde(default)]
    pub detail: String,
    /// The resource it is about.
    pub address: Option<String>,
    /// Where in the module.
    pub range: Option<Range>,
    /// The lines there.
    pub snippet: Option<Snippet>,
}

/// A place in a file of the module.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Range {
    /// The file.
    #[serde(default)]
    pub filename: String,
    /// Where it begins.
    #[serde(default)]
    pub start: Position,
}

/// A line of a file.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Position {
    /// Its number, from 1.
    #[serde(default)]
    pub line: u64,
}

/// Lines of a file.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Snippet {
    /// The block that they are in.
    pub context: Option<String>,
    /// The lines.
    #[serde(default)]
    pub code: String,
    /// The number of the first one.
    #[serde(default)]
    pub start_line: u64,
}

/// The part of a line that may leave an encrypted run in clear: no values, no messages, no ids.
pub fn reduced(event: &Event) -> Option<Value> {
    let about = event.hook.as_ref().or(event.change.as_ref());
    match event.kind.as_str() {
        "apply_start" | "apply_complete" | "apply_errored" | "planned_change" => {
            about.map(|about| {
                let name = if event.hook.is_some() { "hook" } else { "change" };
                serde_json::json!({
                    "type": event.kind,
                    name: {"resource": {"addr": about.resource.addr}, "action": about.action},
                })
            })
        }
        "change_summary" => Some(serde_json::json!({"type": event.kind, "changes": event.changes})),
        // A failed plan has a sum too: that it failed, its errors alone tell.
        "diagnostic" => event.diagnostic.as_ref().map(|found| {
            let severity = &found.severity;
            serde_json::json!({
                "type": event.kind, "@level": severity, "diagnostic": {"severity": severity},
            })
        }),
        _ => None,
    }
}

/// The part of a line that tells, after a kill, what may have been created: the lines that the
/// launcher's `orphans` reads, and of them what it reads. No messages, and of values only ids.
pub fn begun(event: &Event) -> Option<Value> {
    match event.kind.as_str() {
        "apply_start" | "apply_complete" | "apply_errored" => event.hook.as_ref().map(|hook| {
            serde_json::json!({
                "type": event.kind,
                "hook": {
                    "resource": {"addr": hook.resource.addr},
                    "action": hook.action,
                    "id_value": hook.id_value,
                },
            })
        }),
        "change_summary" => Some(serde_json::json!({"type": event.kind, "changes": event.changes})),
        "diagnostic" => {
            let severity = &event.diagnostic.as_ref()?.severity;
            Some(serde_json::json!({"type": event.kind, "@level": severity}))
        }
        _ => None,
    }
}
