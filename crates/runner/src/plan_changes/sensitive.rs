//! The sensitive values of a plan. OpenTofu marks a value where the module or a provider declares it, and not where a resource returns it
//! as another attribute: there it is found by its text.

use super::{Document, ParsedChange};
use canyon_domain::json::{InvalidJson, Json};
use std::collections::BTreeSet;

/// Shorter values are not looked for: they would be found by chance.
const MIN_LENGTH: usize = 6;

/// The sensitive texts in `document`: of the module's variables, and of what its changes mark.
pub(super) fn texts(document: &Document<'_>) -> Result<BTreeSet<String>, InvalidJson> {
    let mut found = BTreeSet::new();
    for (name, variable) in &document.variables {
        if document.configuration.declares_sensitive(name)
            && let Some(value) = variable.value
        {
            add_all(&Json::parse(value.get())?, &mut found);
        }
    }
    let of_resources = document.resource_changes.iter().chain(&document.resource_drift);
    let changes =
        of_resources.map(|resource| &resource.change).chain(document.output_changes.values());
    for change in changes.filter(|change| change.marks_something()) {
        let ParsedChange { before, after, before_sensitive, after_sensitive, .. } =
            change.parsed()?;
        add_marked(&before, &before_sensitive, &mut found);
        add_marked(&after, &after_sensitive, &mut found);
    }
    Ok(found)
}

fn add_marked(value: &Json, marks: &Json, found: &mut BTreeSet<String>) {
    match (value, marks) {
        (_, Json::Bool(true)) => add_all(value, found),
        (Json::Object(members), Json::Object(marks)) => {
            for (key, marks) in marks {
                if let Some(value) = members.get(key) {
                    add_marked(value, marks, found);
                }
            }
        }
        (Json::Array(items), Json::Array(marks)) => {
            for (value, marks) in items.iter().zip(marks) {
                add_marked(value, marks, found);
            }
        }
        _ => {}
    }
}

fn add_all(value: &Json, found: &mut BTreeSet<String>) {
    match value {
        Json::String(text) if text.len() >= MIN_LENGTH => _ = found.insert(text.clone()),
        Json::Array(items) => items.iter().for_each(|item| add_all(item, found)),
        Json::Object(members) => members.values().for_each(|member| add_all(member, found)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}
