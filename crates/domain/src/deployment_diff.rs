//! What one deployment runs differently from another: its module or job, and the names of its inputs.
//!
//! A deployment is one node: the module of its environment, or a resource. What a run changes at a cloud shows its plan only.

use crate::commit::Commit;
use crate::container::ContainerTask;
use crate::job::{Bundle, Module};
use crate::resource_name::ResourceName;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of names in one list of a summary.
const MAX_NAMES: usize = 20;

/// What a deployment runs.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// Its request.
    pub bundle: &'a Bundle,
    /// What its run has fetched.
    pub fetched: Option<&'a Commit>,
    /// Whether it destroys what it names.
    pub destroys: bool,
}

/// How a node differs. The names are part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffType {
    /// It was not there before.
    Added,
    /// It is destroyed.
    Removed,
    /// Another module, another version of it, or another job.
    ModuleChanged,
    /// Other inputs.
    ParamsChanged,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The resource; `None` for the environment's module.
    pub resource: Option<ResourceName>,
    /// How it differs.
    pub diff_type: DiffType,
    /// The difference in words. It has no value of an input.
    pub summary: String,
}

/// The differences from `from`, which is what was there before, to `to`.
pub fn between(from: Option<Node<'_>>, to: Node<'_>) -> Vec<Difference> {
    let resource = to.resource().cloned();
    let one =
        |diff_type, summary: String| Difference { resource: resource.clone(), diff_type, summary };
    let before = from.filter(|from| !from.destroys);
    match (before, to.destroys) {
        (None, true) => Vec::new(),
        (None, false) => vec![one(DiffType::Added, to.in_words())],
        (Some(from), true) => vec![one(DiffType::Removed, from.in_words())],
        (Some(from), false) => {
            let module = module_change(from, to).map(|text| one(DiffType::ModuleChanged, text));
            let inputs = input_changes(from, to).map(|text| one(DiffType::ParamsChanged, text));
            module.into_iter().chain(inputs).collect()
        }
    }
}

impl<'a> Node<'a> {
    fn resource(self) -> Option<&'a ResourceName> {
        let of_container = self.bundle.container.as_ref().map(|task| &task.resource);
        of_container.or(self.bundle.resource.as_ref().map(|task| &task.resource))
    }

    fn in_words(self) -> String {
        match (&self.bundle.container, self.fetched) {
            (Some(task), _) => format!("image {}", task.job.image),
            (None, Some(fetched)) => format!("{} at {fetched}", self.bundle.module.source),
            (None, None) => self.bundle.module.source.to_string(),
        }
    }

    /// The names and values of its inputs; secret ones have none that could be compared.
    fn inputs(self) -> BTreeMap<&'a str, Option<String>> {
        let Bundle { module, sealed_inputs, container, .. } = self.bundle;
        let of_module = module.inputs.iter();
        let plain =
            of_module.map(|(name, value)| (name.as_str(), serde_json::to_string(value).ok()));
        let of_job = container.iter().flat_map(|task| task.job.inputs.iter().flatten());
        let of_job = of_job.map(|(name, value)| (name.as_str(), Some(value.to_string())));
        let secret = sealed_inputs.keys().map(|name| (name.as_str(), None));
        plain.chain(of_job).chain(secret).collect()
    }
}

fn module_change(from: Node<'_>, to: Node<'_>) -> Option<String> {
    match (&from.bundle.container, &to.bundle.container) {
        (Some(one), Some(other)) => job_change(one, other),
        (None, None) => {
            let (one, other) = (&from.bundle.module, &to.bundle.module);
            let is_moved = from.fetched.zip(to.fetched).is_some_and(|(one, other)| one != other);
            if one.source == other.source && is_moved {
                return Some(format!("{} -> {}", from.in_words(), to.in_words()));
            }
            if one.source != other.source {
                return Some(format!("{} -> {}", one.source, other.source));
            }
            let files =
                |node: Node<'_>| node.bundle.resource.as_ref().map(|task| task.files.clone());
            if files(from) != files(to) {
                return Some("the files beside the module have changed".to_owned());
            }
            text_change(one, other)
        }
        _ => Some(format!("{} -> {}", from.in_words(), to.in_words())),
    }
}

fn text_change(one: &Module, other: &Module) -> Option<String> {
    let lines = |of: &Module| of.source_code.as_deref().unwrap_or_default().lines().count();
    (one.source_code != other.source_code).then(|| {
        format!("the text of the module has changed: {} -> {} lines", lines(one), lines(other))
    })
}

fn job_change(one: &ContainerTask, other: &ContainerTask) -> Option<String> {
    if one.job.image != other.job.image {
        return Some(format!("image {} -> {}", one.job.image, other.job.image));
    }
    let without_inputs = |task: &ContainerTask| {
        let mut job = task.job.clone();
        job.inputs = None;
        job
    };
    let has_changed = without_inputs(one) != without_inputs(other);
    has_changed.then(|| "the job has changed: its program, variables, files or limits".to_owned())
}

fn input_changes(from: Node<'_>, to: Node<'_>) -> Option<String> {
    let (before, after) = (from.inputs(), to.inputs());
    let names: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
    let mut lists: [(&str, Vec<&str>); 3] =
        [("added", Vec::new()), ("changed", Vec::new()), ("removed", Vec::new())];
    for name in names {
        let at = match (before.get(name), after.get(name)) {
            (None, _) => 0,
            (_, None) => 2,
            (Some(one), Some(other)) if one != other => 1,
            (Some(_), Some(_)) => continue,
        };
        if let Some((_, names)) = lists.get_mut(at) {
            names.push(name);
        }
    }
    let said: Vec<_> = lists
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {}", shortened(names)))
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn shortened(names: &[&str]) -> String {
    let shown = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(MAX_NAMES);
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn bundle(module: &Value, more: &Value) -> Bundle {
        let mut value = json!({ "module": module });
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    fn said(from: Option<&Bundle>, to: &Bundle) -> Vec<String> {
        let node = |bundle| Node { bundle, fetched: None, destroys: false };
        let found = between(from.map(node), node(to));
        found.iter().map(|one| format!("{:?}: {}", one.diff_type, one.summary)).collect()
    }

    #[test]
    fn a_difference_names_inputs_and_shows_no_value() {
        let git = |reference: &str, inputs: Value| {
            bundle(
                &json!({ "source": format!("git::https://h/a?ref={reference}"), "inputs": inputs }),
                &json!({}),
            )
        };
        let before = git("v1", json!({ "size": 1, "zone": "a", "same": true }));
        let after = git("v2", json!({ "size": 2, "region": "hunter2", "same": true }));
        assert_eq!(
            said(Some(&before), &after),
            [
                "ModuleChanged: git::https://h/a?ref=v1 -> git::https://h/a?ref=v2",
                "ParamsChanged: added: region; changed: size; removed: zone",
            ]
        );
        assert_eq!(said(Some(&before), &before), [""; 0]);
        assert_eq!(said(None, &before), ["Added: git::https://h/a?ref=v1"]);
        let secret = bundle(
            &json!({ "source": "inline", "source_code": "a\n" }),
            &json!({ "sealed_inputs": { "k": "x" } }),
        );
        let other = bundle(
            &json!({ "source": "inline", "source_code": "a\nb\n" }),
            &json!({ "sealed_inputs": { "k": "y" } }),
        );
        let expected = ["ModuleChanged: the text of the module has changed: 1 -> 2 lines"];
        assert_eq!(said(Some(&secret), &other), expected, "sealed anew is not changed");
    }

    #[test]
    fn a_destroy_removes_what_was_there_and_a_deployment_after_it_adds() {
        let bundle = bundle(&json!({ "source": "inline" }), &json!({}));
        let node = |destroys| Node { bundle: &bundle, fetched: None, destroys };
        let types =
            |from, to| between(from, to).iter().map(|one| one.diff_type).collect::<Vec<_>>();
        assert_eq!(types(Some(node(false)), node(true)), [DiffType::Removed]);
        assert_eq!(types(Some(node(true)), node(false)), [DiffType::Added]);
        assert_eq!(types(Some(node(true)), node(true)), []);
    }

    #[test]
    fn jobs_differ_by_their_image_and_the_rest() {
        let job = |image: &str, command: &str, inputs: Value| {
            let job = json!({ "image": image, "command": [command], "inputs": inputs });
            bundle(
                &json!({ "source": "inline" }),
                &json!({ "container": { "resource": "s3#photos", "job": job } }),
            )
        };
        let before = job("a:1", "/x", json!({ "k": 1 }));
        assert_eq!(
            said(Some(&before), &job("a:2", "/x", json!({ "k": 1 }))),
            ["ModuleChanged: image a:1 -> a:2"]
        );
        let other = job("a:1", "/y", json!({ "k": 2 }));
        assert_eq!(said(Some(&before), &other).len(), 2);
    }
}
