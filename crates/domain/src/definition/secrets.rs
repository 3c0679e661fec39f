//! The secret inputs of a definition.
//!
//! They are a tree of objects. Its leaves are `{"store": …, "ref": …, "version": …}`, which a job reads in a secret store, or
//! `{"value": …}`. Before a definition is stored, a value becomes `{"sealed": …}`, unless it is one placeholder, which is no secret.
//! `secrets` of a published definition has texts in place of such values.

use super::placeholder::{self, Part};
use crate::field_error::FieldErrors;
use crate::secret_reference::SecretReference;
use serde_json::{Map, Value, json};

/// The member of a value that was sealed, and was opened for a resolution. What looks like a placeholder in it is none.
pub const OPENED: &str = "opened";
/// The members of a leaf.
const MEMBERS: [&str; 5] = ["store", "ref", "version", "value", "sealed"];

/// A leaf of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaf<'a> {
    /// A value.
    Value(&'a str),
    /// A value, sealed.
    Sealed(&'a str),
    /// A secret that a store has.
    Reference,
}

/// What an object of the tree is, if it is a leaf.
pub fn leaf(object: &Map<String, Value>) -> Option<Leaf<'_>> {
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    match (text("value").or(text(OPENED)), text("sealed")) {
        (Some(value), _) => Some(Leaf::Value(value)),
        (None, Some(sealed)) => Some(Leaf::Sealed(sealed)),
        (None, None) => {
            (text("store").is_some() || text("ref").is_some()).then_some(Leaf::Reference)
        }
    }
}

/// Makes a value of an opened one. Returns whether it was one.
pub(super) fn close(object: &mut Map<String, Value>) -> bool {
    let opened = object.remove(OPENED);
    let is_opened = opened.is_some();
    object.extend(opened.map(|value| ("value".to_owned(), value)));
    is_opened
}

/// Makes the value of a leaf a text, which an output of another type is not.
pub(super) fn make_text(leaf: &mut Map<String, Value>) {
    if let Some(value) = leaf.get_mut("value").filter(|value| !value.is_string()) {
        *value = Value::String(value.to_string());
    }
}

/// Whether a value is one placeholder and nothing else.
pub fn is_placeholder(text: &str) -> bool {
    let parts = placeholder::parse(text);
    matches!(parts.as_deref(), Ok([Part::Output(_) | Part::Context(_)]))
}

/// The tree of `secrets`, whose leaves are texts.
pub fn from_texts(texts: Map<String, Value>) -> Map<String, Value> {
    let convert = |value: Value| match value {
        Value::String(text) => json!({ "value": text }),
        Value::Object(members) => Value::Object(from_texts(members)),
        other => other,
    };
    texts.into_iter().map(|(name, value)| (name, convert(value))).collect()
}

/// Calls `visit` with each leaf and its path.
pub fn each_leaf(
    tree: &mut Map<String, Value>,
    path: &str,
    visit: &mut dyn FnMut(&str, &mut Map<String, Value>),
) {
    for (name, value) in tree {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Value::Object(members) = value {
            if leaf(members).is_some() {
                visit(&path, members);
            } else {
                each_leaf(members, &path, visit);
            }
        }
    }
}

/// The leaf at `path`.
pub(super) fn at<'t>(tree: &'t Map<String, Value>, path: &[&str]) -> Option<&'t Value> {
    let (first, rest) = path.split_first()?;
    let found = tree.get(*first)?;
    if rest.is_empty() { Some(found) } else { at(found.as_object()?, rest) }
}

/// The faults of the tree.
pub(super) fn check(tree: &Map<String, Value>, path: &str) -> FieldErrors {
    let mut faults = FieldErrors::default();
    for (name, value) in tree {
        let shown: String = name.chars().take(80).collect();
        let path = format!("{path}.{shown}");
        match value {
            Value::Object(members) if leaf(members).is_some() => {
                check_leaf(members, &path, &mut faults);
            }
            Value::Object(members) => faults.add_under("", check(members, &path)),
            _ => faults.add(path, "must be an object: with `value`, or with `store` and `ref`"),
        }
    }
    faults
}

fn check_leaf(members: &Map<String, Value>, path: &str, faults: &mut FieldErrors) {
    if !members.keys().all(|name| MEMBERS.contains(&name.as_str())) {
        faults.add(path, "has another field than `store`, `ref`, `version` and `value`");
        return;
    }
    if leaf(members) != Some(Leaf::Reference) {
        if members.len() != 1 {
            faults.add(path, "has either `value`, or `store`, `ref` and perhaps `version`");
        }
        return;
    }
    match serde_json::from_value::<SecretReference>(Value::Object(members.clone())) {
        Ok(reference) => {
            for (field, reason) in reference.faults() {
                faults.add(format!("{path}.{field}"), reason);
            }
        }
        Err(_) => faults.add(
            path,
            "needs the id of a secret store as `store`, and texts as `ref` and `version`",
        ),
    }
}
