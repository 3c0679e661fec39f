//! The resources that a killed apply may have left behind.
//!
//! OpenTofu writes its state at most every 20 s while it applies, so a kill loses the resources
//! created since then. Its `-json` lines name each resource when the creation begins and, with its
//! id, when it is complete. OpenTofu writes them before the kill, so they name every resource that
//! may exist.

use canyon_domain::ids::DeploymentId;
use canyon_domain::unwritten_state::{StateEvent, UnwrittenState, is_error_of_unwritten_state};
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
    #[serde(default)]
    diagnostic: Option<Diagnostic>,
}

#[derive(Deserialize)]
struct Diagnostic {
    #[serde(default)]
    summary: String,
    #[serde(default)]
    address: Option<String>,
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

/// What a dead apply may have left behind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Remains {
    /// The resources whose creation had begun, by address. Empty if the apply ended by itself and wrote the state.
    pub(crate) orphans: Vec<OrphanedResource>,
    /// The state that could not be written, if so.
    pub(crate) unwritten: Option<UnwrittenState>,
}

/// Creations that had begun, by address, with the id if they were complete.
type Creations = BTreeMap<String, Option<String>>;

/// Reads what is left of an apply of deployment `by` from its events. `reported` is the unwritten state that its run has
/// reported, if it has: the events may end before the run's own line about it.
pub(crate) fn remains(
    events: &[u8],
    by: DeploymentId,
    reported: Option<UnwrittenState>,
) -> Remains {
    let mut begun = Creations::new();
    // Those of an apply that ended by itself. OpenTofu writes its errors in any order.
    let mut settled = Creations::new();
    let mut unwritten = reported;
    for line in events.split(|byte| *byte == b'\n') {
        if let Ok(event) = serde_json::from_slice::<StateEvent>(line) {
            match event {
                StateEvent::Unwritten { state } => {
                    unwritten = Some(UnwrittenState { by, facts: state });
                }
                StateEvent::Written => {
                    settled.append(&mut begun);
                    unwritten = None;
                }
            }
            continue;
        }
        // The last line may be cut off, and other programs may have written between the lines.
        let Ok(line) = serde_json::from_slice::<Line>(line) else { continue };
        let applied = line.changes.is_some_and(|changes| changes.operation != "plan");
        let is_error = line.kind == "diagnostic" && line.level == "error";
        if is_error && line.diagnostic.is_some_and(|of| of.is_of_unwritten_state()) {
            unwritten.get_or_insert(UnwrittenState { by, facts: None });
        }
        if is_error || line.kind == "change_summary" && applied {
            // OpenTofu writes errors and the summary last, after it has tried to save the state.
            settled.append(&mut begun);
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
    if unwritten.is_some() {
        begun.append(&mut settled);
    }
    let orphans = begun.into_iter().map(|(address, id)| OrphanedResource { address, id });
    Remains { orphans: orphans.collect(), unwritten }
}

impl Diagnostic {
    fn is_of_unwritten_state(&self) -> bool {
        is_error_of_unwritten_state(&self.summary, self.address.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use canyon_domain::environment_state::StateFacts;
    use uuid::Uuid;

    const BY: DeploymentId = DeploymentId(Uuid::from_u128(1));

    fn unwritten(facts: Option<StateFacts>) -> UnwrittenState {
        UnwrittenState { by: BY, facts }
    }

    const START: &str = r#"{"@level":"info","type":"apply_start","hook":{"resource":{"addr":"terraform_data.a"},"action":"create"}}"#;
    const COMPLETE: &str = r#"{"@level":"info","type":"apply_complete","hook":{"resource":{"addr":"terraform_data.a"},"action":"create","id_key":"id","id_value":"42"}}"#;
    const OTHER: &str = r#"{"@level":"info","type":"apply_start","hook":{"resource":{"addr":"terraform_data.b"},"action":"create"}}"#;
    const UPDATE: &str = r#"{"@level":"info","type":"apply_start","hook":{"resource":{"addr":"terraform_data.c"},"action":"update"}}"#;
    const OTHER_ERROR: &str = r#"{"@level":"error","type":"diagnostic","diagnostic":{"severity":"error","summary":"local-exec provisioner error"}}"#;
    const ERROR_OF_A_RESOURCE: &str = r#"{"@level":"error","type":"diagnostic","diagnostic":{"severity":"error","summary":"Failed to save state of the task","address":"acme_task.a"}}"#;
    const UNWRITTEN: &str = r#"{"@level":"error","type":"diagnostic","diagnostic":{"severity":"error","summary":"Failed to save state"}}"#;
    const SUMMARY: &str =
        r#"{"@level":"info","type":"change_summary","changes":{"add":2,"operation":"apply"}}"#;

    #[test]
    fn a_killed_apply_lists_every_resource_that_it_had_begun_to_create() {
        let events =
            [START, COMPLETE, UPDATE, "not json", OTHER, r#"{"type":"apply_pro"#].join("\n");
        let found = remains(events.as_bytes(), BY, None);
        assert_eq!(found.unwritten, None);
        let found: Vec<_> =
            found.orphans.iter().map(|o| (o.address.as_str(), o.id.as_deref())).collect();
        assert_eq!(found, [("terraform_data.a", Some("42")), ("terraform_data.b", None)]);
    }

    #[test]
    fn an_apply_that_ended_by_itself_leaves_no_orphaned_resources() {
        for end in [SUMMARY, OTHER_ERROR, ERROR_OF_A_RESOURCE] {
            let events = [START, COMPLETE, end].join("\n");
            assert_eq!(remains(events.as_bytes(), BY, None), Remains::default(), "{end}");
        }
    }

    #[test]
    fn an_apply_that_could_not_write_its_state_leaves_everything_that_it_created() {
        for ends in [&[UNWRITTEN][..], &[OTHER_ERROR, UNWRITTEN], &[UNWRITTEN, OTHER_ERROR]] {
            let events = [&[START, COMPLETE], ends].concat().join("\n");
            let found = remains(events.as_bytes(), BY, None);
            assert_eq!(found.unwritten, Some(unwritten(None)), "{ends:?}");
            let addresses: Vec<_> = found.orphans.iter().map(|o| o.address.as_str()).collect();
            assert_eq!(addresses, ["terraform_data.a"], "{ends:?}");
        }
    }
    #[test]
    fn the_runners_own_lines_say_which_state_is_unwritten_and_that_it_was_written_afterwards() {
        let facts = StateFacts { lineage: "a".to_owned(), serial: 2, resources: 1, digest: None };
        let line = |event: &StateEvent| serde_json::to_string(event).unwrap();
        let own = line(&StateEvent::Unwritten { state: Some(facts.clone()) });
        let written = line(&StateEvent::Written);
        let read = |lines: &[&str]| remains(lines.join("\n").as_bytes(), BY, None);
        let found = read(&[START, COMPLETE, UNWRITTEN, &own]);
        assert_eq!((found.unwritten, found.orphans.len()), (Some(unwritten(Some(facts))), 1));
        // The shipped events, and the same lines again from the platform.
        let twice = [START, COMPLETE, UNWRITTEN, &own, START, COMPLETE, UNWRITTEN, &own, &written];
        assert_eq!(read(&twice), Remains::default());
    }

    #[test]
    fn a_reported_unwritten_state_counts_although_the_events_do_not_tell_of_it() {
        let events = [START, COMPLETE, OTHER_ERROR].join("\n");
        let found = remains(events.as_bytes(), BY, Some(unwritten(None)));
        assert_eq!((found.unwritten, found.orphans.len()), (Some(unwritten(None)), 1));
    }
}
