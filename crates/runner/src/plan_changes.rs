//! The changes of a plan for people, made from `tofu show -json`: what is destroyed first, only attributes that change, and no
//! sensitive value.
//!
//! The format is that of <https://opentofu.org/docs/internals/json-format/>. Only the changes are parsed, each when it is
//! its turn: the document also has the configuration and two whole states.

mod attributes;
pub mod drift;
mod sensitive;

use crate::mask::Mask;
use attributes::Attributes;
use canyon_api::plan::{
    PlanCounts, PlanPage, PlannedAction, PlannedAttribute, PlannedOutput, PlannedResource,
};
use canyon_domain::json::{InvalidJson, Json};
use canyon_domain::kept_plan::MAX_PAGES;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// A page is closed when it has this many bytes. The largest resource adds less than 4 MiB to it, the limit of a piece.
const PAGE_BYTES: usize = 1024 * 1024;
/// From this page on, resources have no attributes: so every plan fits.
const LAST_DETAILED_PAGE: usize = MAX_PAGES as usize - 16;

/// The parts of the document that are read.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, default)]
    resource_changes: Vec<ResourceChange<'a>>,
    #[serde(borrow, default)]
    resource_drift: Vec<ResourceChange<'a>>,
    #[serde(borrow, default)]
    output_changes: BTreeMap<String, Change<'a>>,
    #[serde(borrow, default)]
    variables: BTreeMap<String, VariableValue<'a>>,
    #[serde(default)]
    configuration: Configuration,
}

#[derive(Deserialize)]
struct VariableValue<'a> {
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Configuration {
    #[serde(default)]
    root_module: RootModule,
}

#[derive(Default, Deserialize)]
struct RootModule {
    #[serde(default)]
    variables: BTreeMap<String, DeclaredVariable>,
}

#[derive(Deserialize)]
struct DeclaredVariable {
    #[serde(default)]
    sensitive: bool,
}

impl Configuration {
    fn declares_sensitive(&self, variable: &str) -> bool {
        self.root_module.variables.get(variable).is_some_and(|declared| declared.sensitive)
    }
}

#[derive(Deserialize)]
struct ResourceChange<'a> {
    address: String,
    #[serde(default)]
    mode: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    name: String,
    deposed: Option<String>,
    previous_address: Option<String>,
    action_reason: Option<String>,
    #[serde(borrow)]
    change: Change<'a>,
}

#[derive(Deserialize)]
struct Change<'a> {
    actions: Vec<String>,
    #[serde(borrow)]
    before: Option<&'a RawValue>,
    #[serde(borrow)]
    after: Option<&'a RawValue>,
    #[serde(borrow)]
    after_unknown: Option<&'a RawValue>,
    #[serde(borrow)]
    before_sensitive: Option<&'a RawValue>,
    #[serde(borrow)]
    after_sensitive: Option<&'a RawValue>,
    #[serde(borrow)]
    replace_paths: Option<&'a RawValue>,
    importing: Option<Import>,
}

#[derive(Deserialize)]
struct Import {
    id: Option<String>,
}

/// A change, parsed.
struct ParsedChange {
    before: Json,
    after: Json,
    unknown: Json,
    before_sensitive: Json,
    after_sensitive: Json,
    replace_paths: Json,
}

/// The changes of a plan.
#[derive(Debug, Default)]
pub struct PlanChanges {
    /// How many resources change.
    pub summary: PlanCounts,
    /// The pages, each as JSON of a [`PlanPage`].
    pub pages: Vec<Vec<u8>>,
}

/// Why the changes of a plan cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is not the document of a plan.
    #[error("`show -json` of the plan has another form: {0}")]
    Document(#[from] serde_json::Error),
    /// A value is not JSON.
    #[error("a value of the plan: {0}")]
    Value(#[from] InvalidJson),
}

impl PlanChanges {
    /// Reads the changes in `document`, the output of `tofu show -json` for a plan. `masked` removes secrets that OpenTofu does
    /// not know of from a text.
    ///
    /// # Errors
    ///
    /// [`Unreadable`].
    pub fn read(document: &[u8], masked: &dyn Fn(&str) -> String) -> Result<Self, Unreadable> {
        let document: Document<'_> = serde_json::from_slice(without_warnings(document))?;
        let secrets = sensitive::texts(&document)?;
        let mask = Mask::of_values(secrets.iter().map(String::as_str));
        let masked = &|text: &str| mask.text(&masked(text));
        let Document { resource_changes, resource_drift, output_changes, .. } = document;
        let is_managed = |change: &&ResourceChange<'_>| change.mode == "managed";
        let drift = || {
            let changed = resource_drift.iter().filter(is_managed);
            changed.filter(|drifted| action_of(&drifted.change) != PlannedAction::None)
        };
        let drifted: BTreeSet<_> = drift().map(|change| change.address.as_str()).collect();
        let mut found: Vec<_> = resource_changes
            .iter()
            .filter(is_managed)
            .map(|change| (change.action(), change))
            .filter(|(action, _)| *action != PlannedAction::None)
            .collect();
        let planned: BTreeSet<_> =
            found.iter().map(|(_, change)| change.address.as_str()).collect();
        let only_drifted = drift().filter(|change| !planned.contains(change.address.as_str()));
        found.extend(only_drifted.map(|change| (PlannedAction::None, change)));
        found.sort_by(|(one, a), (other, b)| (one, &a.address).cmp(&(other, &b.address)));
        let mut summary = PlanCounts::default();
        for (action, change) in &found {
            change.count(*action, &mut summary);
        }
        summary.drift = u32::try_from(drifted.len()).unwrap_or(u32::MAX);
        let mut pages = Pages::default();
        for (action, change) in found {
            let is_drifted = drifted.contains(change.address.as_str());
            let with_attributes = pages.whole.len() < LAST_DETAILED_PAGE;
            pages.add_resource(change.shown(action, is_drifted, with_attributes, masked)?)?;
        }
        for (name, change) in output_changes {
            let action = action_of(&change);
            if action != PlannedAction::None {
                pages.add_output(change.output(masked(&name), action, masked)?)?;
            }
        }
        Ok(Self { summary, pages: pages.end()? })
    }
}

/// What hides the sensitive values of the plan in `document` from a text.
///
/// # Errors
///
/// [`Unreadable`].
pub fn mask_of(document: &[u8]) -> Result<Mask, Unreadable> {
    let document: Document<'_> = serde_json::from_slice(without_warnings(document))?;
    let secrets = sensitive::texts(&document)?;
    Ok(Mask::of_values(secrets.iter().map(String::as_str)))
}

/// OpenTofu prints warnings about its own configuration to the same output, before the document.
pub(crate) fn without_warnings(document: &[u8]) -> &[u8] {
    if document.starts_with(b"{") {
        return document;
    }
    let begin = document.windows(2).position(|bytes| bytes == b"\n{");
    begin.map_or(document, |at| &document[at + 1..])
}

/// What a change does to a resource or an output itself.
fn action_of(change: &Change<'_>) -> PlannedAction {
    let has = |action: &str| change.actions.iter().any(|one| one == action);
    match (has("create"), has("delete")) {
        (true, true) => PlannedAction::Replace,
        (true, false) => PlannedAction::Create,
        (false, true) => PlannedAction::Delete,
        (false, false) if has("update") => PlannedAction::Update,
        (false, false) if has("forget") => PlannedAction::Forget,
        (false, false) => PlannedAction::None,
    }
}

impl ResourceChange<'_> {
    fn action(&self) -> PlannedAction {
        match action_of(&self.change) {
            PlannedAction::None if self.change.importing.is_some() => PlannedAction::Import,
            PlannedAction::None if self.previous_address.is_some() => PlannedAction::Move,
            action => action,
        }
    }

    fn count(&self, action: PlannedAction, summary: &mut PlanCounts) {
        let of_action = match action {
            PlannedAction::Replace => Some(&mut summary.replace),
            PlannedAction::Delete => Some(&mut summary.remove),
            PlannedAction::Forget => Some(&mut summary.forget),
            PlannedAction::Update => Some(&mut summary.change),
            PlannedAction::Create => Some(&mut summary.add),
            PlannedAction::Import | PlannedAction::Move | PlannedAction::None => None,
        };
        if let Some(count) = of_action {
            *count += 1;
        }
        if action != PlannedAction::None {
            summary.import += u32::from(self.change.importing.is_some());
            summary.moved += u32::from(self.previous_address.is_some());
        }
    }

    fn shown(
        &self,
        action: PlannedAction,
        drifted: bool,
        with_attributes: bool,
        masked: &dyn Fn(&str) -> String,
    ) -> Result<PlannedResource, InvalidJson> {
        let attributes = if with_attributes {
            Attributes::of(&self.change.parsed()?, masked)
        } else {
            Attributes::left_out()
        };
        let text = |text: &Option<String>| text.as_deref().map(masked);
        Ok(PlannedResource {
            address: masked(&self.address),
            kind: self.kind.clone(),
            name: self.name.clone(),
            action,
            // Of a resource that leaves the state, OpenTofu says why it would be deleted.
            reason: self.action_reason.clone().filter(|_| action != PlannedAction::Forget),
            previous_address: text(&self.previous_address),
            import_id: self.change.importing.as_ref().and_then(|import| text(&import.id)),
            deposed: self.deposed.clone(),
            creates_first: self.change.actions.first().is_some_and(|first| first == "create")
                && action == PlannedAction::Replace,
            drifted,
            has_more_attributes: attributes.has_more,
            attributes: attributes.listed,
        })
    }
}

impl Change<'_> {
    /// Whether a part of it is sensitive.
    fn marks_something(&self) -> bool {
        let marks = [self.before_sensitive, self.after_sensitive];
        marks.into_iter().flatten().any(|marks| marks.get().contains("true"))
    }

    fn parsed(&self) -> Result<ParsedChange, InvalidJson> {
        let parse =
            |raw: Option<&RawValue>| raw.map_or(Ok(Json::Null), |raw| Json::parse(raw.get()));
        Ok(ParsedChange {
            before: parse(self.before)?,
            after: parse(self.after)?,
            unknown: parse(self.after_unknown)?,
            before_sensitive: parse(self.before_sensitive)?,
            after_sensitive: parse(self.after_sensitive)?,
            replace_paths: parse(self.replace_paths)?,
        })
    }

    fn output(
        &self,
        name: String,
        action: PlannedAction,
        masked: &dyn Fn(&str) -> String,
    ) -> Result<PlannedOutput, InvalidJson> {
        let whole = attributes::whole(&self.parsed()?, masked);
        let PlannedAttribute { before, after, after_unknown, .. } = whole;
        let sensitive = whole.before_sensitive || whole.after_sensitive;
        let shown = |value: Option<Json>| value.filter(|_| !sensitive);
        let (before, after) = (shown(before), shown(after));
        Ok(PlannedOutput { name, action, before, after, sensitive, after_unknown })
    }
}

/// Collects pages.
#[derive(Default)]
struct Pages {
    whole: Vec<Vec<u8>>,
    open: PlanPage,
    bytes: usize,
}

impl Pages {
    fn add_resource(&mut self, resource: PlannedResource) -> Result<(), serde_json::Error> {
        self.bytes += serde_json::to_vec(&resource)?.len();
        self.open.resources.push(resource);
        self.close_full()
    }

    fn add_output(&mut self, output: PlannedOutput) -> Result<(), serde_json::Error> {
        self.bytes += serde_json::to_vec(&output)?.len();
        self.open.outputs.push(output);
        self.close_full()
    }

    fn close_full(&mut self) -> Result<(), serde_json::Error> {
        if self.bytes >= PAGE_BYTES { self.close() } else { Ok(()) }
    }

    fn close(&mut self) -> Result<(), serde_json::Error> {
        self.whole.push(serde_json::to_vec(&std::mem::take(&mut self.open))?);
        self.bytes = 0;
        Ok(())
    }

    fn end(mut self) -> Result<Vec<Vec<u8>>, serde_json::Error> {
        if self.bytes > 0 {
            self.close()?;
        }
        Ok(self.whole)
    }
}

#[cfg(test)]
#[path = "plan_changes/tests.rs"]
mod tests;
