//! The resources that a killed apply may have left behind.
//!
//! OpenTofu writes its state at most every 20 s while it applies, so a kill loses the resources
//! created since then. Its `-json` lines name each resource when the creation begins and, with its
//! id, when it is complete. OpenTofu writes them before the kill, so they name every resource that
//! may exist.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A resource that may exist although the state does not contain it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OrphanedResource {
    /// Its address in the module.
    pub(crate) address: String,
    /// Its id at the provider, if the creation was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    hook: Option<Hook>,
    #[serde(default)]
    changes: Option<Changes>,
    #[serde(rename = "@level", default)]
    level: String,
}

#[derive(Deserialize)]
struct Hook {
    #[serde(default)]
    resource: Option<Resource>,
    #[serde(default)]
    action: String,
    #[serde(default)]
    id_value: Option<String>,
}

#[derive(Deserialize)]
struct Resource {
    addr: String,
}

#[derive(Deserialize)]
struct Changes {
    #[serde(default)]
    operation: String,
}

/// Every resource whose creation had begun, by address. Empty if the apply ended by itself, because
/// the state was written then.
pub(crate) fn orphaned_resources(events: &[u8]) -> Vec<OrphanedResource> {
    let mut begun: BTreeMap<String, Option<String>> = BTreeMap::new();
    for line in events.split(|byte| *byte == b'\n') {
        // The last line may be cut off, and other programs may have written between the lines.
        let Ok(line) = serde_json::from_slice::<Line>(line) else { continue };
        let applied = line.changes.is_some_and(|changes| changes.operation != "plan");
        let ended = line.kind == "change_summary" && applied
            || line.kind == "diagnostic" && line.level == "error";
        if ended {
            // OpenTofu writes errors last, after the state is saved.
            begun.clear();
            continue;
        }
        let Some(Hook { resource: Some(resource), action, id_value }) = line.hook else { continue };
        match line.kind.as_str() {
            "apply_start" if action == "create" => {
                begun.insert(resource.addr, None);
            }
            "apply_complete" if action == "create" => {
                begun.insert(resource.addr, id_value);
            }
            _ => {}
        }
    }
    begun.into_iter().map(|(address, id)| OrphanedResource { address, id }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = r#"{"@level":"info","type":"apply_start","hook":{"resource":{"addr":"terraform_data.a"},"action":"create"}}"#;
    const COMPLETE: &str = r#"{"@level":"info","type":"apply_complete","hook":{"resource":{"addr":"terraform_data.a"},"action":"create","id_key":"id","id_value":"42"}}"#;
    const OTHER: &str = r#"{"@level":"info","type":"apply_start","hook":{"resource":{"addr":"terraform_data.b"},"action":"create"}}"#;
    const UPDATE: &str = r#"{"@level":"info","type":"apply_start","hook":{"resource":{"addr":"terraform_data.c"},"action":"update"}}"#;
    const SUMMARY: &str =
        r#"{"@level":"info","type":"change_summary","changes":{"add":2,"operation":"apply"}}"#;

    #[test]
    fn a_killed_apply_lists_every_resource_that_it_had_begun_to_create() {
        let events =
            [START, COMPLETE, UPDATE, "not json", OTHER, r#"{"type":"apply_pro"#].join("\n");
        let found = orphaned_resources(events.as_bytes());
        let found: Vec<_> = found.iter().map(|o| (o.address.as_str(), o.id.as_deref())).collect();
        assert_eq!(found, [("terraform_data.a", Some("42")), ("terraform_data.b", None)]);
    }

    #[test]
    fn an_apply_that_ended_by_itself_leaves_no_orphaned_resources() {
        let events = [START, COMPLETE, SUMMARY].join("\n");
        assert_eq!(orphaned_resources(events.as_bytes()), []);
    }
}
