//! `canyon outputs`.

use super::json;
use crate::error::CliError;
use crate::exit::Exit;
use crate::identity::Key;
use crate::output::{Format, Output};
use crate::{hint, summary};
use canyon_api::client::Client;
use canyon_api::deployment::Output as ModuleOutput;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which outputs.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The deployment's id
    deployment: String,
    /// Only this one; text is printed as it is
    name: Option<String>,
    /// `age` secret key to decrypt the outputs with, the sensitive ones too
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let id = &arguments.deployment;
    let outputs = match &arguments.identity {
        Some(file) => decrypted(client, id, file).await?,
        None => client.outputs(id).await?,
    };
    match (&arguments.name, output.format) {
        (Some(name), _) => one(&outputs, name, output)?,
        (None, Format::Table) => output.text(&summary::output_lines(&outputs))?,
        (None, Format::Yaml | Format::Json) => output.value(&json(&outputs)?)?,
    }
    Ok(Exit::Ok)
}

async fn decrypted(
    client: &Client,
    id: &str,
    file: &Path,
) -> Result<BTreeMap<String, ModuleOutput>, CliError> {
    let key = Key::read(file)?;
    let text = key.open_base64(&client.encrypted_outputs(id).await?.raw)?;
    let values: BTreeMap<String, Value> = serde_json::from_slice(&text)
        .map_err(|_| CliError::usage("the decrypted outputs are not a JSON object"))?;
    Ok(values.into_iter().map(|(name, value)| (name, described(value))).collect())
}

/// An output with its description, or a bare value.
fn described(value: Value) -> ModuleOutput {
    match serde_json::from_value::<ModuleOutput>(value.clone()) {
        Ok(output) => output,
        Err(_) => ModuleOutput { sensitive: false, value: Some(value), kind: None },
    }
}

fn one(
    outputs: &BTreeMap<String, ModuleOutput>,
    name: &str,
    output: Output,
) -> Result<(), CliError> {
    let Some(found) = outputs.get(name) else {
        let names: Vec<String> = outputs.keys().cloned().collect();
        let message = format!("the deployment has no output `{name}`");
        return Err(match hint::nearest(name, &names) {
            Some(nearest) => {
                CliError::usage_with_hint(message, format!("did you mean `{nearest}`?"))
            }
            None => CliError::usage_with_hint(message, format!("it has: {}", names.join(", "))),
        });
    };
    match (&found.value, output.format) {
        (None, _) => Err(CliError::usage_with_hint(
            format!("the output `{name}` is sensitive, and was not kept in clear"),
            "deploy with --outputs-recipient, and read it with --identity",
        )),
        (Some(Value::String(text)), Format::Table) => output.text(&format!("{text}\n")),
        (Some(value), _) => output.value(value),
    }
}
