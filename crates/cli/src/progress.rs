//! A deployment's progress, computed from the server's answers and from OpenTofu's `-json` lines. Pure:
//! it takes bytes and answers, and returns the state and the new notices.
//!
//! The lines are documented at <https://opentofu.org/docs/internals/machine-readable-ui/>. Unknown lines
//! are skipped: each version adds some.

use crate::json_lines::JsonLines;
use canyon_api::deployment::Deployment;
use canyon_domain::failure::Phase;
use canyon_domain::kind::Kind;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The `@module` of the lines that the runner adds to OpenTofu's.
const RUNNER: &str = "canyon.runner";

/// A change of the progress that is printed as a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Another phase, or another reason to wait.
    Stage(String),
    /// The changes that the plan contains.
    Planned(String),
    /// A resource is done.
    Resource(String),
    /// The planned changes with their attributes.
    Changes(String),
    /// A warning or an error of OpenTofu, or of the runner.
    Diagnostic(String),
}

/// What the server says of the deployment and its attempt.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The text, unless the attempt runs.
    words: String,
    attempt: u32,
    /// Of an attempt that runs.
    phase: Option<Phase>,
    destroys: bool,
    is_container: bool,
}

/// The progress of a deployment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    stage: String,
    /// The server's last answer, as far as the stage depends on it.
    known: Known,
    /// The phase that the events of this attempt show: the server stores few phases, and events arrive sooner.
    seen: Option<Phase>,
    /// Whether the attempt's plan was shown.
    is_planned: bool,
    /// How often the server has said that the attempt applies.
    applies: u32,
    /// The steps that each planned resource takes: two for a replacement.
    planned: BTreeMap<String, u32>,
    total: Option<u32>,
    done: u32,
    running: BTreeSet<String>,
    lines: JsonLines,
    /// The plan's summary, not yet shown: OpenTofu prints a summary of a failed plan too, without changes or
    /// with some of them, and the errors follow it.
    plan: Option<String>,
}

impl Progress {
    /// The phase as text.
    pub(crate) fn stage(&self) -> &str {
        &self.stage
    }

    /// The number of steps done, and of all steps if it is known.
    pub(crate) fn steps(&self) -> (u32, Option<u32>) {
        let counted = (!self.planned.is_empty()).then(|| self.planned.values().sum());
        (self.done, self.total.or(counted))
    }

    /// The resources that OpenTofu is changing now.
    pub(crate) fn running(&self) -> impl Iterator<Item = &str> {
        self.running.iter().map(String::as_str)
    }

    /// Adds an answer of the server.
    pub(crate) fn update_status(&mut self, deployment: &Deployment) -> Vec<Notice> {
        let known = Known::of(deployment);
        if known.attempt != self.known.attempt {
            (self.seen, self.is_planned, self.applies) = (None, false, 0);
        }
        self.known = known;
        let applies = self.known.phase == Some(Phase::Apply);
        let plan = self.plan.take_if(|_| applies).map(Notice::Planned);
        self.is_planned |= plan.is_some();
        self.applies += u32::from(applies);
        plan.into_iter().chain(self.enter()).collect()
    }

    /// To call when the deployment has ended and every event was added: no error followed its plan.
    pub(crate) fn end(&mut self) -> Vec<Notice> {
        self.plan.take().map(Notice::Planned).into_iter().collect()
    }

    /// Adds the next bytes of the event stream.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Notice> {
        let mut notices = Vec::new();
        for event in self.lines.feed(bytes) {
            let plan = self.judge_plan(&event);
            self.is_planned |= plan.is_some();
            notices.extend(plan);
            notices.extend(self.see_phase(&event));
            notices.extend(self.event(&event));
        }
        notices
    }

    /// The phase in which OpenTofu prints such a line: `init`, `plan` and `apply` are a process each.
    fn see_phase(&mut self, event: &Value) -> Option<Notice> {
        let phase = match event["type"].as_str()? {
            "version" if self.seen.is_none() => Phase::Init,
            "version" | "planned_change" | "change_summary" => Phase::Plan,
            "apply_start" => Phase::Apply,
            _ => return None,
        };
        self.seen = self.seen.max(Some(phase));
        self.known.phase?;
        self.enter()
    }

    fn enter(&mut self) -> Option<Notice> {
        let applies = self.known.phase == Some(Phase::Apply);
        // The events with the plan may still be under way when the server says so first.
        let has_plan = !self.known.is_container;
        let waits =
            has_plan && self.applies < 2 && !self.is_planned && self.seen < Some(Phase::Apply);
        let most = if applies && waits { Phase::Plan } else { Phase::Apply };
        let stage = self.known.stage(self.seen, most);
        if stage == self.stage {
            return None;
        }
        self.stage.clone_from(&stage);
        Some(Notice::Stage(stage))
    }

    /// An error after a plan's summary discards it; the next process confirms it.
    fn judge_plan(&mut self, event: &Value) -> Option<Notice> {
        match event["type"].as_str()? {
            "version" | "apply_start" => self.plan.take().map(Notice::Planned),
            "diagnostic" if event["diagnostic"]["severity"] == "error" && self.plan.is_some() => {
                (self.plan, self.total) = (None, None);
                self.planned.clear();
                None
            }
            _ => None,
        }
    }

    fn event(&mut self, event: &Value) -> Option<Notice> {
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
                    return Some(Notice::Resource(format!("{address}: failed")));
                }
                self.done += 1;
                let done = done_word(event["hook"]["action"].as_str().unwrap_or_default());
                let (count, total) = self.steps();
                let of = total.map_or_else(String::new, |total| format!("/{total}"));
                Some(Notice::Resource(format!("{address}: {done} ({count}{of})")))
            }
            "diagnostic" => {
                let program = if event["@module"] == RUNNER { "" } else { "OpenTofu " };
                diagnostic(program, &event["diagnostic"])
            }
            "canyon_plan" => Some(Notice::Changes(event["@message"].as_str()?.to_owned())),
            _ => None,
        }
    }

    fn summary(&mut self, changes: &Value) -> Option<()> {
        let count = |name: &str| changes[name].as_u64().and_then(|n| u32::try_from(n).ok());
        let (add, change, remove) = (count("add")?, count("change")?, count("remove")?);
        if changes["operation"] != "plan" {
            return None;
        }
        // Another attempt may plan again; its summary replaces this one.
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

/// Whether it waits for people, and no job runs.
pub(crate) fn is_awaited(deployment: &Deployment) -> bool {
    deployment.approval.as_ref().is_some_and(|approval| approval.status == "awaited")
}

impl Known {
    fn of(deployment: &Deployment) -> Self {
        let attempt = deployment.attempts.last();
        let (mut words, mut phase) = (deployment.status.clone(), None);
        match deployment.status.as_str() {
            "queued" => {
                if let Some(waiting) = &deployment.waiting {
                    let by = waiting.blocked_by.map_or_else(String::new, |id| format!(" ({id})"));
                    words = format!("queued: {}{by}", waiting.reason);
                }
            }
            "launching" => {
                let reason = deployment.waiting.as_ref();
                let reason = reason.map_or_else(String::new, |it| format!(": {}", it.reason));
                words = format!("launching on runner `{}`{reason}", deployment.runner_id);
            }
            "running" if is_awaited(deployment) => {
                let reason = deployment.waiting.as_ref().map(|it| it.reason.clone());
                words = reason.unwrap_or_else(|| "its plan waits for approval".to_owned());
            }
            "running" => {
                let name = attempt.map(|attempt| attempt.phase.as_str()).unwrap_or_default();
                phase = Some(serde_json::from_value(name.into()).unwrap_or(Phase::Launch));
            }
            _ => {}
        }
        let destroys = deployment.mode == "destroy";
        let is_container = deployment.kind == Kind::Container.as_str();
        let attempt = attempt.map_or(1, |attempt| attempt.number);
        Self { words, attempt, phase, destroys, is_container }
    }

    /// The stage as text, if the events show the phase `seen`; at most `most`.
    fn stage(&self, seen: Option<Phase>, most: Phase) -> String {
        let phase = self.phase.map(|known| seen.map_or(known, |seen| seen.max(known)).min(most));
        let words = match phase {
            None => self.words.as_str(),
            Some(Phase::Launch) => "starting",
            Some(Phase::Fetch) if self.is_container => "preparing the container",
            Some(Phase::Apply) if self.is_container => "running the program",
            Some(Phase::Fetch) => "fetching the module",
            Some(Phase::Init) => "initializing",
            Some(Phase::Plan) => "planning",
            Some(Phase::Apply) if self.destroys => "destroying",
            Some(Phase::Apply) => "applying",
        };
        match self.attempt {
            0 | 1 => words.to_owned(),
            number => format!("attempt {number}: {words}"),
        }
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

/// `None` for a diagnostic of an encrypted run, which has only a severity.
fn diagnostic(program: &str, diagnostic: &Value) -> Option<Notice> {
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
    // Indented, so that no line of a module's message looks like one of `canyon`.
    let detail = detail.replace('\n', "\n  ");
    Some(Notice::Diagnostic(format!("{program}{severity}{place}: {}{detail}", text("summary"))))
}

#[cfg(test)]
mod tests;
