//! OpenTofu's `-json` lines as text for people.

use crate::event::{Diagnostic, Event, OutputEvent};
use std::fmt::Write as _;

/// The text of a line; `None` for one that people need not see. With `applying`, the plan is not
/// told a second time.
pub fn text(event: &Event, applying: bool) -> Option<String> {
    match event.kind.as_str() {
        "diagnostic" => {
            Some(event.diagnostic.as_ref().map_or_else(|| event.message.clone(), diagnostic))
        }
        "version" | "planned_change" | "resource_drift" if applying => None,
        "planned_change" => Some(planned_change(event)),
        "outputs" => outputs(event),
        // The provisioner's own words follow on lines of their own.
        "provision_progress" | "log" => Some(event.message.trim().to_owned()),
        // Advice for somebody at a terminal.
        _ if event.message.starts_with("You may now begin working with") => None,
        _ => Some(event.message.trim_end().to_owned()),
    }
}

/// OpenTofu 1.12 calls it `noop` when a resource is replaced whose old object is to be left behind.
fn planned_change(event: &Event) -> String {
    match event.change.as_ref().filter(|change| change.action == "noop") {
        Some(change) => format!(
            "{}: Plan to create it anew, and to leave the old one behind: it lives on, and no state lists it",
            change.resource.addr
        ),
        None => event.message.trim_end().to_owned(),
    }
}

fn outputs(event: &Event) -> Option<String> {
    let outputs = event.outputs.as_ref()?;
    // In a plan they have no values yet.
    if !outputs.values().any(|output| output.kind.is_some()) {
        return None;
    }
    let mut text = "Outputs:".to_owned();
    for (name, output) in outputs {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  {name} = {}", value(output));
    }
    Some(text)
}

fn value(output: &OutputEvent) -> String {
    match &output.value {
        _ if output.sensitive => "<sensitive>".to_owned(),
        Some(value) => value.get().to_owned(),
        None => "null".to_owned(),
    }
}

/// A diagnostic as OpenTofu shows it: what, where, the lines there, and why.
fn diagnostic(found: &Diagnostic) -> String {
    let kind = if found.severity == "error" { "Error" } else { "Warning" };
    let mut text = format!("{kind}: {}", found.summary);
    if let Some(address) = &found.address {
        let _ = write!(text, "\n  with {address}");
    }
    if let Some(range) = &found.range {
        let _ = write!(text, "\n  on {} line {}", range.filename, range.start.line);
        if let Some(context) = found.snippet.as_ref().and_then(|snippet| snippet.context.as_ref()) {
            let _ = write!(text, ", in {context}");
        }
    }
    if let Some(snippet) = &found.snippet {
        for (number, line) in (snippet.start_line..).zip(snippet.code.lines()) {
            let _ = write!(text, "\n  {number:>4}: {line}");
        }
    }
    for line in found.detail.lines() {
        let _ = write!(text, "\n  {line}");
    }
    text
}

/// A diagnostic as the message of a failure. Details may repeat values, so an encrypted run leaves
/// them out.
pub fn failure_message(found: &Diagnostic, with_detail: bool) -> String {
    let mut text = found.summary.clone();
    if with_detail && !found.detail.is_empty() {
        let _ = write!(text, ": {}", found.detail.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let place =
        found.range.as_ref().map(|range| format!("{}:{}", range.filename, range.start.line));
    let places: Vec<_> = found.address.clone().into_iter().chain(place).collect();
    if !places.is_empty() {
        let _ = write!(text, " ({})", places.join(", "));
    }
    text
}
