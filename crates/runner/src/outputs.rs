//! The module's outputs.
//!
//! Mostly they are in the `-json` stream already. OpenTofu is asked for them only when it has not
//! said them: the plan of an unchanged environment has no values, and no stream has sensitive ones.

use crate::{facts::Facts, seal::Seal, tofu::Tofu};
use base64::{Engine, engine::general_purpose::STANDARD};
use canyon_api::deployment::Output;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The outputs as they are delivered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs {
    /// In clear; sensitive ones have no value.
    pub plain: BTreeMap<String, Output>,
    /// All of them, as base64 of an `age` file.
    pub encrypted: Option<String>,
}

/// The outputs at the end of a run, encrypted too if there is a `seal`. `None` when OpenTofu does
/// not tell them.
pub async fn read(tofu: &Tofu, facts: &Facts, seal: Option<&Seal>) -> Option<Outputs> {
    let said = &facts.outputs;
    let has_values = said.values().all(|output| output.kind.is_some());
    let has_sensitive = said.values().any(|output| output.sensitive);
    let all: BTreeMap<String, Output> = if has_values && !(has_sensitive && seal.is_some()) {
        let output = |(name, output): (&String, &crate::event::OutputEvent)| {
            let (kind, value) = (output.kind.clone(), output.value.clone());
            (name.clone(), Output { sensitive: output.sensitive, value, kind })
        };
        said.iter().map(output).collect()
    } else {
        serde_json::from_slice(&tofu.ask(&["output", "-json", "-no-color"]).await?).ok()?
    };
    let encrypted = match seal {
        Some(seal) => Some(encrypt(&all, seal)?),
        None => None,
    };
    let withhold = |(name, output): (String, Output)| {
        let value = output.value.filter(|_| !output.sensitive);
        (name, Output { value, ..output })
    };
    Some(Outputs { plain: all.into_iter().map(withhold).collect(), encrypted })
}

/// A JSON object: name to value.
fn encrypt(outputs: &BTreeMap<String, Output>, seal: &Seal) -> Option<String> {
    let values = outputs
        .iter()
        .map(|(name, output)| (name.clone(), output.value.clone().unwrap_or_default()));
    let object = Value::Object(values.collect::<Map<_, _>>());
    seal.file(object.to_string().as_bytes()).ok().map(|file| STANDARD.encode(file))
}
