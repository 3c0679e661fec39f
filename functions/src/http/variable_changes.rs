//! Reads the body of a change of variables, with every fault of its form: a value may be a secret, so no reason
//! repeats one.

use canyon_api::variable_set::{SecretReference, VariableBody, VariableSetUpdateBody};
use canyon_domain::field_error::FieldErrors;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How much of a name a path repeats.
const SHOWN: usize = 60;

/// The body of a change of variables.
#[derive(Debug)]
pub(super) struct VariableChanges {
    /// What could be read.
    pub(super) body: VariableSetUpdateBody,
    /// The faults of the rest.
    pub(super) faults: FieldErrors,
}

impl<'de> Deserialize<'de> for VariableChanges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Members(members) = Members::deserialize(deserializer)?;
        let mut faults = FieldErrors::default();
        let mut body = VariableSetUpdateBody::default();
        for (name, value) in distinct(&members, "", &mut faults) {
            match name {
                "terraform" => body.terraform = changes(name, value, &mut faults),
                "environment" => body.environment = changes(name, value, &mut faults),
                _ => faults.add(
                    shown(name),
                    "is not a known field, expected `terraform` or `environment`",
                ),
            }
        }
        Ok(Self { body, faults })
    }
}

type Changes = BTreeMap<String, Option<VariableBody>>;

fn changes(kind: &str, value: &RawValue, faults: &mut FieldErrors) -> Changes {
    let Some(Members(members)) = parsed(value) else {
        faults.add(kind, "is not an object of variables by name");
        return Changes::new();
    };
    let members = distinct(&members, kind, faults);
    let change = |(name, value): (&str, &RawValue)| {
        let path = format!("{kind}[{:?}]", shown(name));
        Some((name.to_owned(), variable(&path, value, faults).ok()?))
    };
    members.into_iter().filter_map(change).collect()
}

/// A fault that was noted.
struct Noted;

/// The change of one variable; `None` removes it.
fn variable(
    path: &str,
    value: &RawValue,
    faults: &mut FieldErrors,
) -> Result<Option<VariableBody>, Noted> {
    if value.get() == "null" {
        return Ok(None);
    }
    let Some(Members(members)) = parsed(value) else {
        faults.add(
            path,
            "is not an object with `value`, `reference`, `secret` or `description`, and not `null`",
        );
        return Err(Noted);
    };
    let mut body = VariableBody::default();
    for (name, value) in distinct(&members, path, faults) {
        let path = format!("{path}.{}", shown(name));
        match name {
            "value" => {
                body.value = field(&path, value, "is nested too deep", faults);
                if body.value.is_some() {
                    repetitions(&path, value, faults);
                }
            }
            "reference" => body.reference = reference(&path, value, faults),
            "secret" => body.secret = field(&path, value, "is not `true` or `false`", faults),
            "description" => body.description = field(&path, value, "is not a text", faults),
            _ => faults.add(
                path,
                "is not a known field, expected one of `value`, `reference`, `secret`, `description`",
            ),
        }
    }
    Ok(Some(body))
}

/// Where a store keeps the value; `None` if there is none, or a fault was noted.
fn reference(path: &str, value: &RawValue, faults: &mut FieldErrors) -> Option<SecretReference> {
    if value.get() == "null" {
        return None;
    }
    let Some(Members(members)) = parsed(value) else {
        faults.add(path, "is not an object with `store`, `ref` and perhaps `version`");
        return None;
    };
    let (mut store, mut locator, mut version) = (None, None, None);
    for (name, value) in distinct(&members, path, faults) {
        let path = format!("{path}.{}", shown(name));
        match name {
            "store" => store = field::<String>(&path, value, "is not a text", faults),
            "ref" => locator = field::<String>(&path, value, "is not a text", faults),
            "version" => version = field::<String>(&path, value, "is not a text", faults),
            _ => {
                faults.add(path, "is not a known field, expected one of `store`, `ref`, `version`");
            }
        }
    }
    for (name, is_given) in [("store", store.is_some()), ("ref", locator.is_some())] {
        let path = format!("{path}.{name}");
        if !is_given && !faults.iter().any(|fault| fault.path == path) {
            faults.add(path, "is required");
        }
    }
    Some(SecretReference { store: store?, locator: locator?, version })
}

/// A field that may be `null`.
fn field<T: DeserializeOwned>(
    path: &str,
    value: &RawValue,
    reason: &str,
    faults: &mut FieldErrors,
) -> Option<T> {
    parsed::<Option<T>>(value).unwrap_or_else(|| {
        faults.add(path, reason);
        None
    })
}

/// Notes every name that an object within `value` has twice. The value was parsed, so its depth is limited.
fn repetitions(path: &str, value: &RawValue, faults: &mut FieldErrors) {
    match value.get().as_bytes().first() {
        Some(b'{') => {
            let Members(members) = parsed(value).unwrap_or_default();
            for (name, item) in distinct(&members, path, faults) {
                repetitions(&format!("{path}.{}", shown(name)), item, faults);
            }
        }
        Some(b'[') => {
            let items: Vec<Box<RawValue>> = parsed(value).unwrap_or_default();
            for (index, item) in items.iter().enumerate() {
                repetitions(&format!("{path}[{index}]"), item, faults);
            }
        }
        _ => {}
    }
}

/// The first of each name. A name that the object at `path` has again is a fault.
fn distinct<'a>(
    members: &'a [(String, Box<RawValue>)],
    path: &str,
    faults: &mut FieldErrors,
) -> Vec<(&'a str, &'a RawValue)> {
    let (mut known, mut repeated) = (BTreeSet::new(), BTreeSet::new());
    let mut first = Vec::new();
    for (name, value) in members {
        if known.insert(name) {
            first.push((name.as_str(), &**value));
        } else if repeated.insert(name) {
            let path = match path {
                "" => shown(name),
                "terraform" | "environment" => format!("{path}[{:?}]", shown(name)),
                _ => format!("{path}.{}", shown(name)),
            };
            faults.add(path, "is given twice");
        }
    }
    first
}

fn parsed<T: DeserializeOwned>(value: &RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

fn shown(name: &str) -> String {
    name.chars().take(SHOWN).collect()
}

/// The members of a JSON object, as they are written: serde's maps keep the last of two with the same name.
#[derive(Default)]
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (VariableSetUpdateBody, String) {
        let VariableChanges { body, faults } = serde_json::from_str(text).unwrap();
        (body, faults.into_result(()).map_or_else(|faults| faults.to_string(), |()| String::new()))
    }

    #[test]
    fn every_fault_of_the_form_is_named_at_once_without_a_value() {
        let text = r#"{
            "terraform": {
                "a": {"value": {"k": "hunter2", "k": [{"x": 1, "x": 2}]}, "secret": "hunter2", "valeu": "hunter2"},
                "b": "hunter2", "b": null, "c": {"description": 7, "description": 8},
                "d": {"reference": {"store": 7, "refs": "hunter2"}}, "e": {"reference": "hunter2"}
            },
            "environment": ["hunter2"], "enviroment": {}, "terraform": {}
        }"#;
        let (_, said) = read(text);
        for fault in [
            "`terraform` is given twice",
            "`enviroment` is not a known field",
            "`environment` is not an object of variables by name",
            "`terraform[\"b\"]` is given twice",
            "`terraform[\"b\"]` is not an object with",
            "`terraform[\"a\"].value.k` is given twice",
            "`terraform[\"a\"].secret` is not `true` or `false`",
            "`terraform[\"a\"].valeu` is not a known field",
            "`terraform[\"c\"].description` is given twice",
            "`terraform[\"c\"].description` is not a text",
            "`terraform[\"d\"].reference.store` is not a text",
            "`terraform[\"d\"].reference.refs` is not a known field",
            "`terraform[\"d\"].reference.ref` is required",
            "`terraform[\"e\"].reference` is not an object",
        ] {
            assert!(said.contains(fault), "{fault}: {said}");
        }
        assert!(!said.contains("hunter2"), "{said}");
    }

    #[test]
    fn a_good_body_is_read_as_before() {
        let text =
            r#"{"terraform": {"a": {"value": [1.10, {"b": null}], "secret": null}, "c": null}}"#;
        let (body, said) = read(text);
        assert_eq!(said, "");
        assert_eq!(body, serde_json::from_str(text).unwrap());
        let (open, close) = ("[".repeat(200), "]".repeat(200));
        let (_, said) = read(&format!(r#"{{"terraform": {{"a": {{"value": {open}1{close}}}}}}}"#));
        assert!(said.contains("nested too deep"), "{said}");
    }
}
