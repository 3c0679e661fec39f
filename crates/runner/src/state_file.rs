//! OpenTofu's state, as `state pull` prints it.
//!
//! Only what identifies a version of the state, and the addresses of its resources, are read. Attributes, which may be
//! secret, are skipped. The format is that of `internal/states/statefile/version4.go` of OpenTofu 1.12, the same
//! in Terraform.

use canyon_api::attempt::MAX_ADDRESSES;
use canyon_domain::environment_state::StateFacts;
use canyon_domain::json::Json;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// The name of the output that marks a state as moved. Its value is the new location.
pub const MOVED_TO: &str = "canyon_state_moved_to";
/// The most bytes of all reported addresses together.
const MAX_ADDRESS_BYTES: usize = 64 * 1024;

/// The facts about a state that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSeen {
    /// What identifies this version of the state.
    pub facts: StateFacts,
    /// The location that the state was moved to; the copy here is only kept.
    pub moved_to: Option<String>,
    /// The addresses of the resources, as many as fit into a report.
    pub addresses: Vec<String>,
}

/// The members of an object, each as its exact text.
type Members = BTreeMap<String, Box<RawValue>>;

#[derive(Deserialize)]
struct StateFile {
    lineage: String,
    serial: u64,
    #[serde(default)]
    resources: Vec<Resource>,
    #[serde(default)]
    outputs: BTreeMap<String, Output>,
}

#[derive(Deserialize)]
struct Resource {
    mode: String,
    module: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    name: String,
    #[serde(default)]
    instances: Vec<Instance>,
}

#[derive(Deserialize)]
struct Instance {
    index_key: Option<Box<RawValue>>,
    /// The key of an old object of the same address that is still to be destroyed.
    deposed: Option<String>,
}

#[derive(Deserialize)]
struct Output {
    /// Not parsed: OpenTofu writes numbers that are larger than other parsers accept.
    value: Option<Box<RawValue>>,
}

impl Resource {
    fn addresses(&self) -> impl Iterator<Item = String> {
        let module = self.module.as_ref().map_or_else(String::new, |module| format!("{module}."));
        self.instances.iter().map(move |instance| {
            let index = instance.index_key.as_ref();
            let index = index.map_or_else(String::new, |index| format!("[{index}]"));
            let deposed = instance.deposed.as_ref();
            let deposed = deposed.map_or_else(String::new, |key| format!(" (deposed {key})"));
            format!("{module}{}.{}{index}{deposed}", self.kind, self.name)
        })
    }
}

/// Reads a state; `None` if there is none. In that case OpenTofu prints nothing; or a state without a lineage, if a
/// backend has created an empty state that was never written.
///
/// # Errors
///
/// When the bytes are not a state of version 4.
pub fn read(bytes: &[u8]) -> Result<Option<StateSeen>, serde_json::Error> {
    if bytes.trim_ascii().is_empty() {
        return Ok(None);
    }
    let file: StateFile = serde_json::from_slice(bytes)?;
    if file.lineage.is_empty() {
        return Ok(None);
    }
    Ok(Some(seen(file)))
}

/// Reads a state that OpenTofu could not write. A first one has no lineage yet: that is drawn when it is written.
///
/// # Errors
///
/// What is wrong with it.
pub fn read_unwritten(bytes: &[u8]) -> Result<StateFacts, serde_json::Error> {
    serde_json::from_slice(bytes).map(|file| seen(file).facts)
}

fn seen(file: StateFile) -> StateSeen {
    let managed = file.resources.iter().filter(|resource| resource.mode == "managed");
    let mut all: Vec<_> = managed.flat_map(Resource::addresses).collect();
    let resources = all.len();
    all.sort_unstable();
    let mut digest = Sha256::new();
    for address in &all {
        digest.update(address);
        digest.update(b"\n");
    }
    let mut left = MAX_ADDRESS_BYTES;
    let addresses = all.into_iter().take(MAX_ADDRESSES).take_while(|address| {
        left = left.saturating_sub(address.len());
        left > 0
    });
    let mark = file.outputs.get(MOVED_TO).and_then(|output| output.value.as_ref());
    let moved_to = mark.and_then(|place| serde_json::from_str(place.get()).ok());
    StateSeen {
        facts: StateFacts {
            lineage: file.lineage,
            serial: file.serial,
            resources: u32::try_from(resources).unwrap_or(u32::MAX),
            digest: Some(hex::encode(digest.finalize())),
        },
        moved_to,
        addresses: addresses.collect(),
    }
}

/// A state without resources, marked as moved to `place`.
pub fn empty_and_moved(lineage: &str, place: &str) -> Vec<u8> {
    let state = json!({
        "version": 4, "terraform_version": "1.6.0", "serial": 1, "lineage": lineage,
        "outputs": { MOVED_TO: { "value": place, "type": "string" } }, "resources": [],
    });
    state.to_string().into_bytes()
}

/// Whether both states have the same resources and outputs. Versions and marks are not compared.
///
/// OpenTofu 1.12 writes instances and the results of checks in a different order each time. The results of checks
/// belong to the last plan only.
///
/// # Errors
///
/// When one of them is not JSON.
pub fn same_content(one: &[u8], other: &[u8]) -> Result<bool, serde_json::Error> {
    let content = |bytes: &[u8]| -> Result<_, serde_json::Error> {
        let mut file: Members = serde_json::from_slice(bytes)?;
        for varying in ["serial", "lineage", "terraform_version", "check_results"] {
            file.remove(varying);
        }
        let mut content = BTreeMap::new();
        for (name, value) in file {
            let mut value: Json = serde_json::from_str(value.get())?;
            if let Json::Object(outputs) = &mut value
                && name == "outputs"
            {
                outputs.retain(|name, _| name != MOVED_TO);
            }
            if name == "resources" {
                sort_resources(&mut value)?;
            }
            content.insert(name, value);
        }
        Ok(content)
    };
    Ok(content(one)? == content(other)?)
}

/// Sorts resources, and the instances of each, by their JSON text.
fn sort_resources(resources: &mut Json) -> Result<(), serde_json::Error> {
    let Json::Array(resources) = resources else { return Ok(()) };
    for resource in &mut *resources {
        if let Json::Object(members) = resource
            && let Some(Json::Array(instances)) = members.get_mut("instances")
        {
            sort_by_text(instances)?;
        }
    }
    sort_by_text(resources)
}

fn sort_by_text(values: &mut Vec<Json>) -> Result<(), serde_json::Error> {
    let texts = values.drain(..).map(|value| Ok((serde_json::to_string(&value)?, value)));
    let mut texts: Vec<_> = texts.collect::<Result<_, serde_json::Error>>()?;
    texts.sort_by(|(one, _), (other, _)| one.cmp(other));
    values.extend(texts.into_iter().map(|(_, value)| value));
    Ok(())
}

/// The same state with `serial`, and with a mark for the location `moved_to`, or without a mark if that is `None`.
///
/// # Errors
///
/// When the bytes are not a JSON object.
pub fn rewritten(
    bytes: &[u8],
    serial: u64,
    moved_to: Option<&str>,
) -> Result<Vec<u8>, serde_json::Error> {
    // Attributes are copied as text: a number that is parsed and written again may lose digits.
    let mut file: Members = serde_json::from_slice(bytes)?;
    let outputs = file.get("outputs").map(|outputs| serde_json::from_str(outputs.get()));
    let mut outputs: Members = outputs.transpose()?.unwrap_or_default();
    outputs.remove(MOVED_TO);
    if let Some(place) = moved_to {
        let mark = Map::from_iter([
            ("value".to_owned(), json!(place)),
            ("type".to_owned(), json!("string")),
        ]);
        outputs.insert(MOVED_TO.to_owned(), serde_json::value::to_raw_value(&mark)?);
    }
    file.insert("serial".to_owned(), serde_json::value::to_raw_value(&serial)?);
    file.insert("outputs".to_owned(), serde_json::value::to_raw_value(&outputs)?);
    serde_json::to_vec(&file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn state() -> Vec<u8> {
        json!({
            "version": 4, "terraform_version": "1.12.6", "serial": 7, "lineage": "a-b",
            "outputs": { "n": { "value": 1, "type": "number" } },
            "resources": [
                { "mode": "managed", "type": "x", "name": "one", "provider": "p",
                  "instances": [{ "schema_version": 0, "attributes": { "secret": "hush" } }] },
                { "mode": "data", "type": "x", "name": "read", "provider": "p", "instances": [{}] },
                { "mode": "managed", "module": "module.m[\"k\"]", "type": "x", "name": "many", "provider": "p",
                  "instances": [{ "index_key": 0 }, { "index_key": "a" }, { "index_key": 0, "deposed": "6f" }] },
            ],
        })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn a_state_shows_its_version_and_its_managed_resources() {
        assert_eq!(read(b"\n").unwrap(), None);
        let never_written = br#"{"version":4,"serial":0,"lineage":"","outputs":{},"resources":[]}"#;
        assert_eq!(
            read(never_written).unwrap(),
            None,
            "the output of the s3 backend of OpenTofu 1.12"
        );
        let seen = read(&state()).unwrap().unwrap();
        assert_eq!(
            (seen.facts.lineage.as_str(), seen.facts.serial, seen.facts.resources),
            ("a-b", 7, 4)
        );
        let mut reversed: Value = serde_json::from_slice(&state()).unwrap();
        reversed["resources"].as_array_mut().unwrap().reverse();
        let digest_of = |state: &str| read(state.as_bytes()).unwrap().unwrap().facts.digest;
        assert_eq!(digest_of(&reversed.to_string()), seen.facts.digest);
        let renamed = reversed.to_string().replace("\"one\"", "\"two\"");
        assert_ne!(digest_of(&renamed), seen.facts.digest);
        assert_eq!(seen.moved_to, None);
        insta::assert_snapshot!(seen.addresses.join("\n"), @r#"
        module.m["k"].x.many["a"]
        module.m["k"].x.many[0]
        module.m["k"].x.many[0] (deposed 6f)
        x.one
        "#);
        assert!(read(b"<html>").is_err());
    }

    #[test]
    fn a_mark_names_the_new_location_and_is_removed_when_the_state_moves_back() {
        let marked = rewritten(&state(), 8, Some("s3://b/k")).unwrap();
        let seen = read(&marked).unwrap().unwrap();
        assert_eq!((seen.facts.serial, seen.moved_to.as_deref()), (8, Some("s3://b/k")));
        assert_eq!(seen.facts.resources, 4, "all resources are kept");
        let back = rewritten(&marked, 9, None).unwrap();
        let (back, whole): (Value, Value) =
            (serde_json::from_slice(&back).unwrap(), serde_json::from_slice(&state()).unwrap());
        assert_eq!(back["outputs"], whole["outputs"]);
        assert_eq!(back["resources"], whole["resources"]);
    }

    #[test]
    fn a_copy_is_recognized_by_its_resources_and_outputs() {
        let copy = rewritten(&state(), 90, Some("s3://b/k")).unwrap();
        let copy = String::from_utf8(copy).unwrap().replace("a-b", "c-d");
        assert!(same_content(&state(), copy.as_bytes()).unwrap());
        let mut shuffled: Value = serde_json::from_str(&copy).unwrap();
        shuffled["check_results"] = json!([{ "object_kind": "var" }]);
        shuffled["resources"].as_array_mut().unwrap().reverse();
        shuffled["resources"][0]["instances"].as_array_mut().unwrap().reverse();
        assert!(same_content(&state(), shuffled.to_string().as_bytes()).unwrap());
        for (was, becomes) in [("hush", "other"), ("\"n\"", "\"m\""), ("\"one\"", "\"two\"")] {
            let other = copy.replace(was, becomes);
            assert!(!same_content(&state(), other.as_bytes()).unwrap(), "{becomes}");
        }
    }

    #[test]
    fn a_rewritten_state_keeps_every_digit() {
        let text = r#"{"version":4,"serial":1,"lineage":"a","outputs":{"o":{"value":1e400,"type":"number"}},"resources":[{"mode":"managed","type":"x","name":"y","instances":[{"attributes":{"n":9007199254740993.000000000000000000001}}]}]}"#;
        let written = rewritten(text.as_bytes(), 2, None).unwrap();
        assert_eq!(read(&written).unwrap().unwrap().facts.resources, 1);
        assert!(same_content(text.as_bytes(), &written).unwrap());
        assert!(
            String::from_utf8(written).unwrap().contains("9007199254740993.000000000000000000001")
        );
    }
}
