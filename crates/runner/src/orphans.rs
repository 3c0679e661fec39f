//! Orphaned resources: what an apply created and the state does not list, after OpenTofu was killed.

use crate::{facts::Facts, tofu::Tofu};
use canyon_api::deployment::Orphan;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The resources whose creation had begun and that the state does not know. If the state cannot be
/// read, all whose creation had begun.
pub async fn find(tofu: &Tofu, facts: &Facts) -> Vec<Orphan> {
    if facts.creations.is_empty() {
        return Vec::new();
    }
    // This command takes no lock: the killed process may have left its lock behind.
    let state = tofu.ask(&["show", "-json", "-no-color"]).await;
    let state: Option<State> = state.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let mut known = BTreeMap::new();
    if let Some(values) = state.as_ref().and_then(|state| state.values.as_ref()) {
        collect(&values.root_module, &mut known);
    }
    let missing = facts.creations.iter().filter(|(address, id)| {
        let was = facts.replaced.get(*address).and_then(Option::as_deref);
        !known.get(address.as_str()).is_some_and(|values| is_created(values, id.as_deref(), was))
    });
    missing.map(|(address, id)| Orphan { address: address.clone(), id: id.clone() }).collect()
}

/// All resources whose creation had begun: the state was not written.
pub fn all(facts: &Facts) -> Vec<Orphan> {
    let created = facts.creations.iter();
    created.map(|(address, id)| Orphan { address: address.clone(), id: id.clone() }).collect()
}

/// As much of `show -json` as is looked at. Attributes are texts of JSON: one that cannot be read, as a
/// number of 400 digits, must not make all resources orphans.
#[derive(Deserialize)]
struct State {
    values: Option<Values>,
}

#[derive(Deserialize)]
struct Values {
    #[serde(default)]
    root_module: Module,
}

#[derive(Default, Deserialize)]
struct Module {
    #[serde(default)]
    resources: Vec<Resource>,
    #[serde(default)]
    child_modules: Vec<Module>,
}

#[derive(Deserialize)]
struct Resource {
    address: String,
    #[serde(default)]
    values: Attributes,
}

type Attributes = BTreeMap<String, Box<RawValue>>;

/// Adds the attributes of each resource, by address, of a module and its child modules.
fn collect<'a>(module: &'a Module, known: &mut BTreeMap<&'a str, &'a Attributes>) {
    for resource in &module.resources {
        known.insert(&resource.address, &resource.values);
    }
    for child in &module.child_modules {
        collect(child, known);
    }
}

/// Whether the resource at an address of the state is the created one, and not the one that it replaced. Which
/// attribute holds the id depends on the resource, so all are compared.
fn is_created(values: &Attributes, id: Option<&str>, was: Option<&str>) -> bool {
    let is = |value: &RawValue, id: &str| {
        serde_json::from_str::<String>(value.get()).is_ok_and(|value| value == id)
    };
    let has = |id: &str| values.values().any(|value| is(value, id));
    match (id, was) {
        (Some(id), _) => has(id),
        (None, Some(was)) => !has(was),
        (None, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_created_resource_is_found_in_the_state_and_the_one_that_it_replaced_is_not_taken_for_it() {
        let state = r#"{"values": {"root_module": {
            "resources": [{"address": "a.a[0]", "values": {"id": "new", "n": 1e400, "o": null}}],
            "child_modules": [{"resources": [{"address": "module.m.a.b", "values": {"id": "old"}}]}]
        }}}"#;
        let state: State = serde_json::from_str(state).unwrap();
        let state = state.values.unwrap().root_module;
        let mut known = BTreeMap::new();
        collect(&state, &mut known);
        for (address, id, was, expected) in [
            ("a.a[0]", Some("new"), None, true),
            ("a.a[0]", Some("other"), None, false),
            ("a.a[0]", None, None, true),
            ("module.m.a.b", Some("new"), Some("old"), false),
            ("module.m.a.b", None, Some("old"), false),
            ("module.m.a.b", None, Some("older"), true),
        ] {
            assert_eq!(is_created(known[address], id, was), expected, "{address} {id:?} {was:?}");
        }
    }
}
