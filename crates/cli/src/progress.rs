//! How far a deployment is, computed from what the server says about it and from OpenTofu's `-json`
//! lines. Pure: bytes and answers go in, the state and what is new come out.
//!
//! The lines are documented at <https://opentofu.org/docs/internals/machine-readable-ui/>. Unknown
//! ones are skipped: each version adds some.

use crate::json_lines::JsonLines;
use canyon_api::deployment::Deployment;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Something worth a line of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Another phase, or another reason to wait.
    Stage(String),
    /// What the plan will do.
    Planned(String),
    /// A resource is done.
    Resource(String),
    /// A warning or an error of OpenTofu.
    Diagnostic(String),
}

/// How far a deployment is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    stage: String,
    /// The steps that each planned resource takes: two for a replacement.
    planned: BTreeMap<String, u32>,
    total: Option<u32>,
    done: u32,
    running: BTreeSet<String>,
    lines: JsonLines,
    /// What the plan will do, not yet told: OpenTofu sums up a failed plan too, as one without changes or
    /// with some of them, and its errors follow.
    plan: Option<String>,
}

impl Progress {
    /// The phase in words.
    pub(crate) fn stage(&self) -> &str {
        &self.stage
    }

    /// Steps done, and of how many if that is known.
    pub(crate) fn steps(&self) -> (u32, Option<u32>) {
        let counted = (!self.planned.is_empty()).then(|| self.planned.values().sum());
        (self.done, self.total.or(counted))
    }

    /// The resources that are being worked on.
    pub(crate) fn running(&self) -> impl Iterator<Item = &str> {
        self.running.iter().map(String::as_str)
    }

    /// Takes in what the server says.
    pub(crate) fn see(&mut self, deployment: &Deployment) -> Vec<News> {
        let applies = deployment.attempts.last().is_some_and(|attempt| attempt.phase == "apply");
        let plan = self.plan.take_if(|_| applies).map(News::Planned);
        plan.into_iter().chain(self.enter(stage_of(deployment))).collect()
    }

    /// The deployment has ended, and every event was taken in: no error followed its plan.
    pub(crate) fn end(&mut self) -> Vec<News> {
        self.plan.take().map(News::Planned).into_iter().collect()
    }

    /// Takes in the next bytes of the stream of events.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<News> {
        let mut news = Vec::new();
        for event in self.lines.feed(bytes) {
            news.extend(self.judge_plan(&event));
            news.extend(self.event(&event));
        }
        news
    }

    fn enter(&mut self, stage: String) -> Option<News> {
        if stage == self.stage {
            return None;
        }
        self.stage.clone_from(&stage);
        Some(News::Stage(stage))
    }

    /// An error after a plan means that there is none; the next process, that there is.
    fn judge_plan(&mut self, event: &Value) -> Option<News> {
        match event["type"].as_str()? {
            "version" | "apply_start" => self.plan.take().map(News::Planned),
            "diagnostic" if event["diagnostic"]["severity"] == "error" && self.plan.is_some() => {
                (self.plan, self.total) = (None, None);
                self.planned.clear();
                None
            }
            _ => None,
        }
    }

    fn event(&mut self, event: &Value) -> Option<News> {
        let kind = event["type"].as_str()?;
        let address = |under: &str| event[under]["resource"]["addr"].as_str().map(str::to_owned);
        match kind {
            "planned_change" => {
                let steps = steps_of(event["change"]["action"].as_str()?);
                if steps > 0 {
                    self.planned.insert(address("change")?, steps);
                }
                None
            }
            "change_summary" => {
                self.summary(&event["changes"]);
                None
            }
            "apply_start" => {
                self.running.insert(address("hook")?);
                None
            }
            "apply_complete" | "apply_errored" => {
                let address = address("hook")?;
                self.running.remove(&address);
                if kind == "apply_errored" {
                    return Some(News::Resource(format!("{address}: failed")));
                }
                self.done += 1;
                let done = done_word(event["hook"]["action"].as_str().unwrap_or_default());
                let (count, total) = self.steps();
                let of = total.map_or_else(String::new, |total| format!("/{total}"));
                Some(News::Resource(format!("{address}: {done} ({count}{of})")))
            }
            "diagnostic" => diagnostic(&event["diagnostic"]),
            _ => None,
        }
    }

    fn summary(&mut self, changes: &Value) -> Option<()> {
        let count = |name: &str| changes[name].as_u64().and_then(|n| u32::try_from(n).ok());
        let (add, change, remove) = (count("add")?, count("change")?, count("remove")?);
        if changes["operation"] != "plan" {
            return None;
        }
        // Another attempt may plan again; what it says then counts.
        self.total = Some(add.saturating_add(change).saturating_add(remove));
        self.done = 0;
        let (import, forget) = (count("import").unwrap_or(0), count("forget").unwrap_or(0));
        let mut plan = format!("plan: {add} to add, {change} to change, {remove} to destroy");
        for (count, what) in [(import, "import"), (forget, "forget")] {
            if count > 0 {
                // Writing to a String cannot fail.
                let _ = write!(plan, ", {count} to {what}");
            }
        }
        let is_empty = self.total == Some(0) && import == 0 && forget == 0;
        self.plan = Some(if is_empty { "plan: no changes".to_owned() } else { plan });
        Some(())
    }
}

fn stage_of(deployment: &Deployment) -> String {
    let attempt = deployment.attempts.last();
    let words = match (deployment.status.as_str(), attempt.map(|attempt| attempt.phase.as_str())) {
        ("queued", _) => match &deployment.waiting {
            Some(waiting) => {
                let by = waiting.blocked_by.map_or_else(String::new, |id| format!(" ({id})"));
                format!("queued: {}{by}", waiting.reason)
            }
            None => "queued".to_owned(),
        },
        ("launching", _) => {
            let reason = deployment.waiting.as_ref().map(|waiting| format!(": {}", waiting.reason));
            format!("launching on runner `{}`{}", deployment.runner_id, reason.unwrap_or_default())
        }
        ("running", Some("fetch")) => "fetching the module".to_owned(),
        ("running", Some("init")) => "initializing".to_owned(),
        ("running", Some("plan")) => "planning".to_owned(),
        ("running", Some("apply")) if deployment.mode == "destroy" => "destroying".to_owned(),
        ("running", Some("apply")) => "applying".to_owned(),
        ("running", _) => "starting".to_owned(),
        (status, _) => status.to_owned(),
    };
    match attempt.map_or(1, |attempt| attempt.number) {
        0 | 1 => words,
        number => format!("attempt {number}: {words}"),
    }
}

fn steps_of(action: &str) -> u32 {
    match action {
        "create" | "update" | "delete" => 1,
        "replace" => 2,
        _ => 0,
    }
}

fn done_word(action: &str) -> &'static str {
    match action {
        "create" => "created",
        "update" => "changed",
        "delete" => "destroyed",
        _ => "done",
    }
}

/// `None` for one of an encrypted run, of which only the severity is told.
fn diagnostic(diagnostic: &Value) -> Option<News> {
    let text = |name: &str| diagnostic[name].as_str().map(str::trim).unwrap_or_default();
    diagnostic.get("summary")?;
    let severity = if text("severity") == "warning" { "warning" } else { "error" };
    let range = &diagnostic["range"];
    let place = match (range["filename"].as_str(), range["start"]["line"].as_u64()) {
        (Some(file), Some(line)) => format!(" ({file}, line {line})"),
        _ => String::new(),
    };
    let detail = text("detail");
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    Some(News::Diagnostic(format!("OpenTofu {severity}{place}: {}{detail}", text("summary"))))
}

#[cfg(test)]
mod tests;
