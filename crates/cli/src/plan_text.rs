//! A plan as text.

use crate::policy_text;
use crate::table::printable;
use canyon_api::plan::{Plan, PlannedAction, PlannedAttribute, PlannedOutput, PlannedResource};
use canyon_domain::json::Json;
use canyon_domain::kept_plan::PlanSummary;
use std::fmt;

const RESET: &str = "\x1b[0m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";

/// Shows a plan: its counts, then each change, what is destroyed first.
pub(crate) struct PlanText<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) is_colored: bool,
}

impl fmt::Display for PlanText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { plan_digest, summary, policy, resources, outputs, .. } = self.plan;
        writeln!(f, "plan {plan_digest}: {}", PlanSummary::from(*summary))?;
        if summary.drift > 0 {
            writeln!(f, "{} changed outside of OpenTofu since the last apply", summary.drift)?;
        }
        if let Some(policy) = policy {
            f.write_str(&policy_text::lines(policy))?;
        }
        for resource in resources {
            self.resource(f, resource)?;
        }
        if !outputs.is_empty() {
            writeln!(f, "\noutputs")?;
        }
        for output in outputs {
            self.output(f, output)?;
        }
        Ok(())
    }
}

impl PlanText<'_> {
    fn resource(&self, f: &mut fmt::Formatter<'_>, resource: &PlannedResource) -> fmt::Result {
        let (symbol, color) = sign(resource.action, resource.creates_first);
        let (begin, end) = self.color(color);
        let address = printable(&resource.address);
        write!(f, "\n{begin}{symbol:>3}{end} {address}")?;
        let notes = notes(resource);
        if !notes.is_empty() {
            write!(f, "  ({})", notes.join("; "))?;
        }
        writeln!(f)?;
        // What is gone needs no list of what it had.
        if resource.action.is_destructive() && resource.action != PlannedAction::Replace {
            return Ok(());
        }
        for attribute in &resource.attributes {
            writeln!(f, "      {}", line(attribute))?;
        }
        if resource.has_more_attributes {
            writeln!(f, "      ... and more attributes; the log of the deployment has them all")?;
        }
        Ok(())
    }

    fn output(&self, f: &mut fmt::Formatter<'_>, output: &PlannedOutput) -> fmt::Result {
        let (symbol, color) = sign(output.action, false);
        let (begin, end) = self.color(color);
        let side = |value| side(value, output.sensitive, false);
        let before = side(output.before.as_ref());
        let after =
            if output.after_unknown { UNKNOWN.to_owned() } else { side(output.after.as_ref()) };
        writeln!(f, "{begin}{symbol:>3}{end} {}  {before} -> {after}", printable(&output.name))
    }

    fn color(&self, color: &'static str) -> (&'static str, &'static str) {
        if self.is_colored && !color.is_empty() { (color, RESET) } else { ("", "") }
    }
}

const UNKNOWN: &str = "(known after apply)";

fn sign(action: PlannedAction, creates_first: bool) -> (&'static str, &'static str) {
    match action {
        PlannedAction::Replace if creates_first => ("+/-", RED),
        PlannedAction::Replace => ("-/+", RED),
        PlannedAction::Delete => ("-", RED),
        PlannedAction::Forget => ("x", YELLOW),
        PlannedAction::Update => ("~", YELLOW),
        PlannedAction::Create => ("+", GREEN),
        PlannedAction::Import => ("<", GREEN),
        PlannedAction::Move => (">", ""),
        PlannedAction::None => ("", ""),
    }
}

/// What is to be said of a resource beside its action.
fn notes(resource: &PlannedResource) -> Vec<String> {
    let action = match resource.action {
        PlannedAction::Replace => "replaced",
        PlannedAction::Delete => "destroyed",
        PlannedAction::Forget => "leaves the state, and is not destroyed",
        PlannedAction::Update => "changed",
        PlannedAction::Create => "created",
        PlannedAction::Import => "imported",
        PlannedAction::Move => "moved",
        PlannedAction::None => "not changed by the plan",
    };
    // Such as `replace_because_cannot_update`.
    let reason = resource.reason.as_ref().and_then(|reason| reason.split_once('_'));
    let reason = reason.map_or_else(String::new, |(_, why)| format!(" {}", why.replace('_', " ")));
    let mut notes = vec![format!("{action}{reason}")];
    notes.extend(resource.previous_address.as_ref().map(|from| format!("was {}", printable(from))));
    notes.extend(resource.import_id.as_ref().map(|id| format!("import of {}", printable(id))));
    notes.extend(resource.deposed.as_ref().map(|key| format!("deposed object {}", printable(key))));
    if resource.drifted {
        notes.push("changed outside of OpenTofu".to_owned());
    }
    notes
}

fn line(attribute: &PlannedAttribute) -> String {
    let PlannedAttribute { before, after, before_sensitive, after_sensitive, .. } = attribute;
    let after = side(after.as_ref(), *after_sensitive, attribute.after_unknown);
    let before = side(before.as_ref(), *before_sensitive, false);
    let path = printable(&attribute.path);
    let replaces = if attribute.replaces { "  # this replaces the resource" } else { "" };
    format!("{path}: {before} -> {after}{replaces}")
}

fn side(value: Option<&Json>, is_sensitive: bool, is_unknown: bool) -> String {
    match value {
        _ if is_unknown => UNKNOWN.to_owned(),
        _ if is_sensitive => "(sensitive)".to_owned(),
        None => "null".to_owned(),
        Some(value) => printable(&value.to_string()),
    }
}

#[cfg(test)]
#[path = "plan_text_tests.rs"]
mod tests;
