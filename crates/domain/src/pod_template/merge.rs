//! Strategic merge, as the Kubernetes API server does it for pods.

use super::{CONTAINER, CONTAINER_ALIAS};
use crate::field_error::{FieldErrors, join, shown};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// The field by which entries of the list `name` are matched: the `patchMergeKey` of the Kubernetes API types
/// (core/v1). Other lists are replaced, such as `tolerations` and `envFrom`. No two lists of a pod template
/// have the same name and different keys.
fn merge_key(name: &str) -> Option<&'static str> {
    match name {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "imagePullSecrets"
        | "schedulingGates"
        | "resourceClaims"
        | "env" => Some("name"),
        "volumeMounts" => Some("mountPath"),
        "volumeDevices" => Some("devicePath"),
        "ports" => Some("containerPort"),
        "hostAliases" => Some("ip"),
        "topologySpreadConstraints" => Some("topologyKey"),
        _ => None,
    }
}

/// Merges the template `user` into `default`: maps are merged, lists with a merge key are merged entry by
/// entry, other values are replaced, `null` deletes. Entries of `default` come first.
///
/// A volume of the same name is replaced completely (patch strategy `retainKeys`): two sources in one volume
/// are never intended.
///
/// # Errors
/// A template that is not an object, directives (`$patch` and similar), and list entries without their key or
/// with a repeated one.
pub fn merge(default: Value, user: &Value) -> Result<Value, FieldErrors> {
    let Value::Object(user) = user else {
        let mut errors = FieldErrors::default();
        errors.add("", "must be an object");
        return Err(errors);
    };
    let (merged, errors) = lay_over(default, user);
    errors.into_result(merged)
}

/// The same, with the faults beside the result, for the judge alone: a list entry that cannot be matched is one more entry
/// in it, so that what stands in the entry is judged too.
pub(super) fn lay_over(default: Value, user: &Map<String, Value>) -> (Value, FieldErrors) {
    let mut errors = FieldErrors::default();
    let default = match default {
        Value::Object(default) => default,
        _ => Map::new(),
    };
    let merged = merge_maps(default, &with_alias_resolved(user), "", &mut errors);
    (Value::Object(merged), errors)
}

/// Renames `main` to `canyon-runner`. If both exist, `main` stays and is refused as a second container.
fn with_alias_resolved(user: &Map<String, Value>) -> Map<String, Value> {
    let mut user = user.clone();
    let containers = user
        .get_mut("spec")
        .and_then(|spec| spec.get_mut("containers"))
        .and_then(Value::as_array_mut);
    if let Some(containers) = containers
        && !containers.iter().any(|container| container["name"] == CONTAINER)
    {
        for container in containers {
            if let Some(name) = container.get_mut("name")
                && name == CONTAINER_ALIAS
            {
                *name = CONTAINER.into();
            }
        }
    }
    user
}

fn merge_maps(
    mut base: Map<String, Value>,
    user: &Map<String, Value>,
    path: &str,
    errors: &mut FieldErrors,
) -> Map<String, Value> {
    for (name, value) in user {
        let at = join(path, &shown(name));
        if name.starts_with('$') {
            errors.add(at, "is a directive, which is not supported here; use null to delete");
            continue;
        }
        let old = base.remove(name);
        if let Some(new) = merge_value(name, old, value, &at, errors) {
            base.insert(name.clone(), new);
        }
    }
    base
}

fn merge_value(
    name: &str,
    base: Option<Value>,
    user: &Value,
    path: &str,
    errors: &mut FieldErrors,
) -> Option<Value> {
    match (user, merge_key(name)) {
        (Value::Null, _) => None,
        (Value::Object(user), _) => {
            let base = match base {
                Some(Value::Object(base)) => base,
                _ => Map::new(),
            };
            Some(Value::Object(merge_maps(base, user, path, errors)))
        }
        (Value::Array(user), Some(key)) => {
            let base = match base {
                Some(Value::Array(base)) => base,
                _ => vec![],
            };
            let whole = name == "volumes";
            Some(Value::Array(merge_lists(base, user, ListKey { key, whole }, path, errors)))
        }
        (Value::Array(items), None) => {
            let item = |(n, item): (usize, &Value)| {
                merge_value("", None, item, &format!("{path}[{n}]"), errors)
            };
            Some(Value::Array(items.iter().enumerate().filter_map(item).collect()))
        }
        (Value::Bool(_) | Value::Number(_) | Value::String(_), _) => Some(user.clone()),
    }
}

/// How entries of a list are matched.
#[derive(Clone, Copy)]
struct ListKey {
    key: &'static str,
    /// Whether an entry replaces the matching one instead of being merged into it.
    whole: bool,
}

/// A key that is good for any entry.
fn stand_in(key: &str) -> Value {
    match key {
        "containerPort" => 1.into(),
        "mountPath" => "/unnamed".into(),
        _ => "unnamed".into(),
    }
}

fn merge_lists(
    mut base: Vec<Value>,
    user: &[Value],
    ListKey { key, whole }: ListKey,
    path: &str,
    errors: &mut FieldErrors,
) -> Vec<Value> {
    // By hash: a template of thousands of entries is judged at every look at its runner.
    let mut places = HashMap::with_capacity(base.len() + user.len());
    for (place, old) in base.iter().enumerate() {
        if let Some(id) = old.get(key) {
            places.entry(id.clone()).or_insert(place);
        }
    }
    let mut given = HashSet::with_capacity(user.len());
    for (n, item) in user.iter().enumerate() {
        let at = format!("{path}[{n}]");
        let Some(id) = item.get(key).filter(|id| !id.is_null()) else {
            let reason = format!("must be an object with `{key}`, which entries are matched by");
            errors.add(&at, reason);
            if let Some(Value::Object(mut entry)) = merge_value("", None, item, &at, errors) {
                entry.insert(key.to_owned(), stand_in(key));
                base.push(Value::Object(entry));
            }
            continue;
        };
        if !given.insert(id) {
            errors.add(&at, format!("has the same `{key}` as an earlier entry"));
            base.extend(merge_value("", None, item, &at, errors));
            continue;
        }
        let place = places.get(id).copied();
        let old = place.map(|place| base[place].take()).filter(|_| !whole);
        let merged = merge_value("", old, item, &at, errors).unwrap_or_default();
        match place {
            Some(place) => base[place] = merged,
            None => base.push(merged),
        }
    }
    base
}
