//! What a killed apply leaves behind.

use crate::{facts::Facts, tofu::Tofu, transcript::Transcript};
use canyon_api::deployment::Orphan;
use serde_json::Value;
use std::collections::BTreeMap;

/// Where OpenTofu leaves a state that it could not write to its storage.
const ERRORED_STATE: &str = "errored.tfstate";

/// Pushes a state that OpenTofu could not write. Returns what became of it, if there was one.
pub async fn push_errored_state(tofu: &Tofu, transcript: &mut Transcript) -> Option<String> {
    if !tofu.has_file(ERRORED_STATE) {
        return None;
    }
    transcript.log.step("pushing errored.tfstate to the state storage");
    let said = if tofu.ask(&["state", "push", ERRORED_STATE]).await.is_some() {
        "the state could not be written at first; it was pushed afterwards".to_owned()
    } else {
        "the state could not be written, nor pushed afterwards: what was created is not in it"
            .to_owned()
    };
    transcript.log.warn(&said);
    Some(said)
}

/// The resources whose creation had begun and that the state does not know. If nobody can read the
/// state, all whose creation had begun.
pub async fn find(tofu: &Tofu, facts: &Facts) -> Vec<Orphan> {
    if facts.creations.is_empty() {
        return Vec::new();
    }
    // Reads without the lock, which the killed process may have left.
    let state = tofu.ask(&["show", "-json", "-no-color"]).await;
    let state: Option<Value> = state.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let mut known = BTreeMap::new();
    if let Some(state) = &state {
        collect(&state["values"]["root_module"], &mut known);
    }
    let missing = facts.creations.iter().filter(|(address, id)| {
        let was = facts.replaced.get(*address).and_then(Option::as_deref);
        !known.get(address.as_str()).is_some_and(|values| is_it(values, id.as_deref(), was))
    });
    missing.map(|(address, id)| Orphan { address: address.clone(), id: id.clone() }).collect()
}

/// Address to attributes, of a module and those in it.
fn collect<'a>(module: &'a Value, known: &mut BTreeMap<&'a str, &'a Value>) {
    for resource in module["resources"].as_array().into_iter().flatten() {
        if let Some(address) = resource["address"].as_str() {
            known.insert(address, &resource["values"]);
        }
    }
    for child in module["child_modules"].as_array().into_iter().flatten() {
        collect(child, known);
    }
}

/// Whether the resource that the state has at an address is the created one, and not the one that it
/// replaced. Which attribute is the id depends on the resource, so any may be.
fn is_it(values: &Value, id: Option<&str>, was: Option<&str>) -> bool {
    let has =
        |id: &str| values.as_object().is_some_and(|all| all.values().any(|value| value == id));
    match (id, was) {
        (Some(id), _) => has(id),
        (None, Some(was)) => !has(was),
        (None, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_state_knows_a_resource_by_its_address_and_not_by_its_predecessor() {
        let state = json!({
            "resources": [{"address": "a.a[0]", "values": {"id": "new"}}],
            "child_modules": [{"resources": [{"address": "module.m.a.b", "values": {"id": "old"}}]}],
        });
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
            assert_eq!(is_it(known[address], id, was), expected, "{address} {id:?} {was:?}");
        }
    }
}
