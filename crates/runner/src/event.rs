//! OpenTofu's `-json` lines.
//!
//! The format is OpenTofu's "machine-readable UI" <https://opentofu.org/docs/internals/machine-readable-ui>,
//! version 1. The runner ignores unknown kinds and fields, as that page asks for.

use canyon_domain::unwritten_state::{StateEvent, UNWRITTEN_SUMMARY, is_error_of_unwritten_state};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One line.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Event {
    /// The text for people.
    #[serde(rename = "@message", default)]
    pub message: String,
    /// `info`, `warn` or `error`.
    #[serde(rename = "@level", default)]
    pub level: String,
    /// The part of a program that wrote the line: [`RUNNER`] for the runner's own.
    #[serde(rename = "@module", default)]
    pub module: String,
    /// The kind of the line.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// With `apply_*`, `refresh_*`, `provision_*`: the resource and the action.
    pub hook: Option<Hook>,
    /// With `planned_change` and `resource_drift`: the resource and the action.
    pub change: Option<Hook>,
    /// With `change_summary`: the counts.
    pub changes: Option<Changes>,
    /// With `outputs`: the outputs by name.
    pub outputs: Option<BTreeMap<String, OutputEvent>>,
    /// With `diagnostic`: the warning or the error.
    pub diagnostic: Option<Diagnostic>,
}

/// The `@module` of the runner's own lines. The log has their text already.
pub const RUNNER: &str = "canyon.runner";

/// A warning of the runner, in OpenTofu's format.
pub fn warning(text: &str) -> Value {
    let diagnostic = json!({ "severity": "warning", "summary": text, "detail": "" });
    json!({
        "@level": "warn", "@message": format!("Warning: {text}"), "@module": RUNNER,
        "type": "diagnostic", "diagnostic": diagnostic,
    })
}

/// The changes of a plan with their attributes, as text for people.
pub fn plan_text(text: &str) -> Value {
    json!({ "@level": "info", "@message": text, "@module": RUNNER, "type": "canyon_plan" })
}

/// The runner's own line about the state, if this is one.
fn of_state(line: &str) -> Option<Value> {
    if !line.contains("canyon_state_") {
        return None;
    }
    let event: StateEvent = serde_json::from_str(line).ok()?;
    serde_json::to_value(event).ok()
}

/// An action on a resource.
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
    /// The name of its provider, as its type begins.
    #[serde(default)]
    pub implied_provider: String,
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
    /// Imported into the state.
    #[serde(default)]
    pub import: u32,
    /// Removed from the state, but not destroyed.
    #[serde(default)]
    pub forget: u32,
    /// `plan`, `apply` or `destroy`.
    #[serde(default)]
    pub operation: Operation,
}

/// What a summary counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// What the plan would do.
    Plan,
    /// What the apply did.
    Apply,
    /// What the destroy did.
    Destroy,
    /// Any other operation.
    #[default]
    #[serde(other)]
    Other,
}

/// An output, with its value once it is known.
///
/// Type and value are kept as JSON text: one output that Canyon cannot keep must not make the whole line
/// unreadable, and with it all other outputs.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct OutputEvent {
    /// In a plan: `create`, `update`, `delete` or `noop`.
    #[serde(default)]
    pub action: String,
    /// Whether OpenTofu withholds the value.
    #[serde(default)]
    pub sensitive: bool,
    /// The type, in OpenTofu's notation.
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
    /// What happened, in one line.
    #[serde(default)]
    pub summary: String,
    /// The full text; may repeat values.
    #[serde(default)]
    pub detail: String,
    /// The address of the resource, if the diagnostic is about one.
    pub address: Option<String>,
    /// The position in the module.
    pub range: Option<Range>,
    /// The lines of the module at that position.
    pub snippet: Option<Snippet>,
}

/// A position in a file of the module.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Range {
    /// The file name.
    #[serde(default)]
    pub filename: String,
    /// The first line.
    #[serde(default)]
    pub start: Position,
}

/// A line of a file, by number.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Position {
    /// The number, from 1.
    #[serde(default)]
    pub line: u64,
}

/// Lines of a file.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Snippet {
    /// The block that contains the lines.
    pub context: Option<String>,
    /// The lines.
    #[serde(default)]
    pub code: String,
    /// The number of the first one.
    #[serde(default)]
    pub start_line: u64,
}

/// The part of an event that an encrypted run may show in clear: no values, no messages, no ids.
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
        // A failed plan has a summary too. Only its errors show that it failed.
        "diagnostic" => event.diagnostic.as_ref().map(wordless),
        _ => None,
    }
}

/// A diagnostic without its text, which may repeat values. If it reports that the state could not be written, it keeps
/// OpenTofu's summary: the launcher reads it if the runner can no longer report.
fn wordless(of: &Diagnostic) -> Value {
    let mut kept = serde_json::json!({"severity": of.severity});
    if is_error_of_unwritten_state(&of.summary, of.address.as_deref()) {
        kept["summary"] = UNWRITTEN_SUMMARY.into();
    }
    serde_json::json!({"type": "diagnostic", "@level": of.severity, "diagnostic": kept})
}

/// The part of a line that shows, after the runner was killed, which resources may exist and whether the state was
/// written. The launcher's `orphaned_resources` reads these lines and fields. They hold no messages, and of the values
/// only ids.
pub fn begun(line: &str) -> Option<Value> {
    if let Some(event) = of_state(line) {
        return Some(event);
    }
    let event: Event = serde_json::from_str(line).ok()?;
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
        "diagnostic" => event.diagnostic.as_ref().map(wordless),
        _ => None,
    }
}
