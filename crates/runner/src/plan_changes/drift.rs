//! What a plan of the module that was deployed last says of drift: addresses and names of attributes, and no value.

use super::attributes::Attributes;
use super::{Document, ResourceChange, Unreadable, action_of, without_warnings};
use canyon_api::drift::{DriftReportBody, DriftedResource};
use canyon_api::plan::PlannedAction;
use canyon_domain::drift::{DriftKind, MAX_CHANGES};
use std::collections::BTreeSet;

/// Reads what differs in `document`, the output of `tofu show -json` for the plan, where the state has `num_resources`. `masked`
/// removes secrets from an address.
///
/// # Errors
///
/// [`Unreadable`].
pub fn read(
    document: &[u8],
    num_resources: u32,
    masked: &dyn Fn(&str) -> String,
) -> Result<DriftReportBody, Unreadable> {
    let document: Document<'_> = serde_json::from_slice(without_warnings(document))?;
    let is_managed = |change: &&ResourceChange<'_>| change.mode == "managed";
    let changed_outside: BTreeSet<_> = document
        .resource_drift
        .iter()
        .filter(is_managed)
        .filter(|change| action_of(&change.change) != PlannedAction::None)
        .map(|change| change.address.as_str())
        .collect();
    let planned = document.resource_changes.iter().filter(is_managed);
    let mut found: Vec<_> = planned
        .map(|change| (change.action(), change))
        .filter(|(action, _)| *action != PlannedAction::None)
        .collect();
    found.sort_by(|(one, a), (other, b)| (one, &a.address).cmp(&(other, &b.address)));
    let num_drifted = u32::try_from(found.len()).unwrap_or(u32::MAX);
    let mut changes = Vec::new();
    for (action, change) in found.into_iter().take(MAX_CHANGES) {
        let is_outside = changed_outside.contains(change.address.as_str());
        changes.push(DriftedResource {
            address: masked(&change.address),
            action,
            kind: if is_outside { DriftKind::Outside } else { DriftKind::Configuration },
            attributes: names_of(change, action)?,
            ignored: false,
        });
    }
    Ok(DriftReportBody { num_resources, num_drifted, changes })
}

/// The names of the attributes that differ, without the places inside of each. Of a resource that comes or goes as a whole, none.
fn names_of(change: &ResourceChange<'_>, action: PlannedAction) -> Result<Vec<String>, Unreadable> {
    if !matches!(action, PlannedAction::Update | PlannedAction::Replace) {
        return Ok(Vec::new());
    }
    // A name is part of a provider's schema, except below a map: so only the first part is one for certain.
    Ok(Attributes::names_of(&change.change.parsed()?).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_attribute_is_named_however_much_differs_inside_of_one() {
        let tags = |value: &str| (0..300).map(|n| (format!("t{n}"), json!(value))).collect();
        let side = |value: &str| {
            let tags: serde_json::Map<_, _> = tags(value);
            json!({ "tags": tags, "user_data": value, "size": 1 })
        };
        let change = json!({
            "actions": ["update"], "before": side("x"), "after": side("y"),
            "after_unknown": { "version": true },
        });
        let change = json!({
            "address": "t.n", "mode": "managed", "type": "t", "name": "n", "change": change,
        });
        let document = json!({ "resource_changes": [change] }).to_string();
        let report = read(document.as_bytes(), 1, &str::to_owned).unwrap();
        assert_eq!(report.changes[0].attributes, ["tags", "user_data", "version"]);
    }

    #[test]
    fn what_was_changed_outside_is_told_from_what_the_module_reads_and_no_value_is_reported() {
        let change = |address: &str, actions: &[&str], before, after| {
            json!({
                "address": address, "mode": "managed", "type": "t", "name": "n",
                "change": { "actions": actions, "before": before, "after": after },
            })
        };
        let secret = "hunter2";
        let tags = |value: &str| json!({ "tags": { "a": value }, "size": 1 });
        let document = json!({
            "resource_drift": [
                change("t.edited", &["update"], tags("x"), tags(secret)),
                change("t.gone", &["delete"], tags("x"), json!(null)),
                change("t.harmless", &["update"], tags("x"), tags("y")),
            ],
            "resource_changes": [
                change("t.edited", &["update"], tags(secret), tags("x")),
                change("t.gone", &["create"], json!(null), tags("x")),
                change("t.harmless", &["no-op"], tags("y"), tags("y")),
                change("t.read", &["delete", "create"], json!({ "size": 1 }), json!({ "size": 2 })),
            ],
        });
        let text = document.to_string();
        let report = read(text.as_bytes(), 4, &str::to_owned).unwrap();
        assert_eq!((report.num_resources, report.num_drifted), (4, 3));
        let found: Vec<_> = report
            .changes
            .iter()
            .map(|it| (it.address.as_str(), it.action, it.kind, it.attributes.join(",")))
            .collect();
        let (outside, read) = (DriftKind::Outside, DriftKind::Configuration);
        let expected = [
            ("t.read", PlannedAction::Replace, read, "size".to_owned()),
            ("t.edited", PlannedAction::Update, outside, "tags".to_owned()),
            ("t.gone", PlannedAction::Create, outside, String::new()),
        ];
        assert_eq!(found, expected);
        assert!(!serde_json::to_string(&report).unwrap().contains(secret));
    }
}
