//! OpenTofu's `-json` lines as text for people.

use crate::event::{Diagnostic, Event, OutputEvent};
use std::fmt::Write as _;

/// The text of an event; `None` for an event that people need not see. With `applying`, the lines of the plan are left
/// out, because the plan has printed them already.
pub fn text(event: &Event, applying: bool) -> Option<String> {
    match event.kind.as_str() {
        "diagnostic" => {
            Some(event.diagnostic.as_ref().map_or_else(|| event.message.clone(), diagnostic))
        }
        "version" | "planned_change" | "resource_drift" if applying => None,
        "planned_change" => Some(planned_change(event)),
        "outputs" => outputs(event),
        // The provisioner's output follows on lines of its own.
        "provision_progress" | "log" => Some(event.message.trim().to_owned()),
        // Advice for a user at a terminal.
        _ if event.message.starts_with("You may now begin working with") => None,
        _ => Some(event.message.trim_end().to_owned()),
    }
}

/// `text` with at most `most` bytes, in whole lines.
pub fn shortened(text: &str, most: usize) -> String {
    let Some(rest) = text.len().checked_sub(most).filter(|rest| *rest > 0) else {
        return text.to_owned();
    };
    let fits = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= most);
    let head = &text[..fits.last().unwrap_or(0)];
    let head = head.rsplit_once('\n').map_or(head, |(head, _)| head);
    format!("{head}\n… {rest} bytes more are not shown")
}

/// The text of a planned change. If a replacement leaves the old object behind, OpenTofu 1.12 calls the action `noop`.
fn planned_change(event: &Event) -> String {
    match event.change.as_ref().filter(|change| change.action == "noop") {
        Some(change) => format!(
            "{}: Plan to create it again, and to leave the old object behind: it continues to exist, and no state lists it",
            change.resource.addr
        ),
        None => event.message.trim_end().to_owned(),
    }
}

fn outputs(event: &Event) -> Option<String> {
    let outputs = event.outputs.as_ref()?;
    // In a plan the outputs have no values yet.
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

/// A diagnostic in OpenTofu's layout: summary, address, position, source lines, detail.
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

/// A diagnostic as the message of a failure. An encrypted run leaves out the detail, because it may repeat values.
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
