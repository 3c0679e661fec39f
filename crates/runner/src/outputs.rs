//! The module's outputs.
//!
//! Usually they are in the `-json` stream. The runner calls `output -json` only in three cases: the plan of an
//! unchanged environment has no values; no stream has sensitive values; and a stream without outputs may mean
//! that its line was lost.
//!
//! Each output is parsed separately. If one cannot be kept, the log names it and it has no value; the others
//! are kept.

use crate::{event::OutputEvent, facts::Facts, log::Log, mask::Mask, seal::Seal, tofu::Tofu};
use base64::{Engine, engine::general_purpose::STANDARD};
use canyon_api::deployment::Output;
use canyon_domain::json::{InvalidJson, Json};
use canyon_domain::variables::secret_json::SecretJson;
use std::collections::BTreeMap;

/// The most bytes of all values and their types together. The API accepts 2 MiB for a result, which also has the last
/// pieces of the log, and the values a second time if they are encrypted.
const MAX_BYTES: usize = 512 * 1024;

/// The outputs as they are delivered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs {
    /// In clear; sensitive outputs have no value.
    pub plain: BTreeMap<String, Output>,
    /// The values of sensitive outputs, if Canyon keeps them sealed.
    pub secret: BTreeMap<String, SecretJson>,
    /// All outputs, as base64 of an `age` file.
    pub encrypted: Option<String>,
}

/// Why an output has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Dropped {
    #[error("{0}")]
    Invalid(#[from] InvalidJson),
    #[error("all outputs together have more than {} KiB", MAX_BYTES / 1024)]
    Size,
}

/// Where the values of outputs go.
#[derive(Clone, Copy, Debug)]
pub struct Receivers<'a> {
    /// The requester's key, to which all of them are encrypted.
    pub seal: Option<&'a Seal>,
    /// Whether Canyon keeps those of sensitive outputs, sealed: they are a resource's, and other resources may need them.
    pub keeps_secrets: bool,
}

impl Receivers<'_> {
    fn wants_secrets(self) -> bool {
        self.seal.is_some() || self.keeps_secrets
    }
}

/// The outputs at the end of a run, as [`for_delivery`] makes them. Warnings in `log` name what is missing.
pub async fn read(
    tofu: &Tofu,
    facts: &Facts,
    to: Receivers<'_>,
    secrets: &Mask,
    log: &mut Log,
) -> Outputs {
    let reported = &facts.outputs;
    // No output at all may mean that the line with them was lost, for example because the disk was full for a moment.
    let has_values = !reported.is_empty() && reported.values().all(|output| output.kind.is_some());
    let has_sensitive = reported.values().any(|output| output.sensitive);
    let all = if has_values && !(has_sensitive && to.wants_secrets()) {
        Some(reported.clone())
    } else {
        let answer = tofu.ask(&["output", "-json", "-no-color"]).await;
        answer.and_then(|answer| serde_json::from_slice(&answer).ok())
    };
    let Some(all) = all else {
        log.warn("the outputs cannot be read; they are not in the result");
        return Outputs::default();
    };
    let (all, dropped) = kept(&all);
    for (name, reason) in dropped {
        log.warn(&format!("the value of the output `{name}` is not in the result: {reason}"));
    }
    for_delivery(all, to, secrets, "mark it `sensitive = true`", log)
}

/// `all` outputs as they are delivered. One that contains one of the `secrets` counts as
/// sensitive; `advice` says how the author of the program makes it so.
pub fn for_delivery(
    mut all: BTreeMap<String, Output>,
    to: Receivers<'_>,
    secrets: &Mask,
    advice: &str,
    log: &mut Log,
) -> Outputs {
    let before = all.len();
    all.retain(|name, _| secrets.text(name) == *name);
    if all.len() < before {
        log.warn("an output whose name contains a secret variable is not in the result");
    }
    for name in mark_secret(&mut all, secrets) {
        log.warn(&format!(
            "the output `{name}` contains a secret variable, so it counts as sensitive; {advice}"
        ));
    }
    let encrypted = to.seal.and_then(|seal| {
        let file = encrypt(&all, seal);
        if file.is_none() {
            log.warn("the outputs could not be encrypted; only those in clear are in the result");
        }
        file
    });
    let withhold = |(name, output): (String, Output)| {
        let value = output.value.filter(|_| !output.sensitive);
        (name, Output { value, ..output })
    };
    let mut secret = BTreeMap::new();
    if to.keeps_secrets {
        let sensitive = all.iter().filter(|(_, output)| output.sensitive);
        let sensitive =
            sensitive.filter_map(|(name, of)| Some((name.clone(), of.value.clone()?.into())));
        secret.extend(sensitive);
    }
    Outputs { plain: all.into_iter().map(withhold).collect(), secret, encrypted }
}

/// The outputs whose values can be kept, smallest first; and the others, without values.
fn kept(
    found: &BTreeMap<String, OutputEvent>,
) -> (BTreeMap<String, Output>, Vec<(&String, Dropped)>) {
    let size = |output: &OutputEvent| -> usize {
        [&output.value, &output.kind].into_iter().flatten().map(|text| text.get().len()).sum()
    };
    let mut by_size: Vec<_> = found.iter().collect();
    by_size.sort_by_key(|(_, output)| size(output));
    let (mut all, mut dropped, mut bytes) = (BTreeMap::new(), Vec::new(), 0);
    for (name, output) in by_size {
        bytes += size(output);
        let value = match &output.value {
            None => Ok(None),
            Some(_) if bytes > MAX_BYTES => Err(Dropped::Size),
            Some(value) => Json::parse(value.get()).map(Some).map_err(Dropped::from),
        };
        let value = value.unwrap_or_else(|reason| {
            dropped.push((name, reason));
            None
        });
        // A type only describes a value, so a type that is nested too deep or too long is left out.
        let kind = output.kind.as_ref().filter(|_| bytes <= MAX_BYTES);
        let kind = kind.and_then(|kind| Json::parse(kind.get()).ok());
        all.insert(name.clone(), Output { sensitive: output.sensitive, value, kind });
    }
    (all, dropped)
}

/// Marks the outputs that contain one of the `secrets` as sensitive. Returns their names.
fn mark_secret(outputs: &mut BTreeMap<String, Output>, secrets: &Mask) -> Vec<String> {
    let mut marked = Vec::new();
    for (name, output) in outputs.iter_mut().filter(|(_, output)| !output.sensitive) {
        let text = output.value.as_ref().map(ToString::to_string).unwrap_or_default();
        if secrets.text(&text) != text {
            output.sensitive = true;
            marked.push(name.clone());
        }
    }
    marked
}

/// Encrypts a JSON object with the value of each output by name.
fn encrypt(outputs: &BTreeMap<String, Output>, seal: &Seal) -> Option<String> {
    let values: BTreeMap<_, _> =
        outputs.iter().map(|(name, output)| (name, output.value.as_ref())).collect();
    let object = serde_json::to_vec(&values).ok()?;
    seal.file(&object).ok().map(|file| STANDARD.encode(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_cannot_be_kept_costs_no_other() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let large = "x".repeat(MAX_BYTES - 5);
        let found = format!(
            r#"{{"deep": {{"sensitive": false, "type": "string", "value": {deep}}},
                "large": {{"sensitive": false, "type": "string", "value": "{large}"}},
                "odd": {{"sensitive": false, "type": {deep}, "value": 1e400}},
                "wide": {{"sensitive": false, "type": "{large}", "value": [1]}},
                "word": {{"sensitive": false, "type": "string", "value": "one"}}}}"#
        );
        let found = serde_json::from_str(&found).unwrap();
        let (all, dropped) = kept(&found);
        let value = |name: &str| all[name].value.as_ref().map(ToString::to_string);
        assert_eq!(value("word").as_deref(), Some("\"one\""));
        assert_eq!((value("odd").as_deref(), &all["odd"].kind), (Some("1e400"), &None));
        assert_eq!((value("deep"), value("large"), value("wide")), (None, None, None));
        assert_eq!((&all["large"].kind, &all["wide"].kind), (&None, &None), "a type counts too");
        let warnings: Vec<_> =
            dropped.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
        insta::assert_snapshot!(warnings.join("\n"), @r"
        deep: nested more than 128 levels deep
        wide: all outputs together have more than 512 KiB
        large: all outputs together have more than 512 KiB
        ");
    }
}
