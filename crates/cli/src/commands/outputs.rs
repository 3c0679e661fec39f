//! `canyon outputs`.

use crate::answer::exact;
use crate::error::CliError;
use crate::exit::Exit;
use crate::identity::Key;
use crate::output::{Format, Output};
use crate::retry::retry_call;
use crate::{hint, summary};
use canyon_api::client::Client;
use canyon_api::deployment::Output as ModuleOutput;
use canyon_domain::json::Json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The outputs to show.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The deployment's id
    deployment: String,
    /// Print only this output; text is printed without quotes
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
        Some(file) => decrypted(client, id, file, output).await?,
        None => retry_call(output, "retrying", async || client.outputs(id).await).await?,
    };
    match (&arguments.name, output.format) {
        (Some(name), _) => one(&outputs, name, output)?,
        (None, Format::Table) => output.text(&summary::output_lines(&outputs))?,
        (None, Format::Yaml | Format::Json) => output.exact(&exact(&outputs)?)?,
    }
    Ok(Exit::Ok)
}

async fn decrypted(
    client: &Client,
    id: &str,
    file: &Path,
    output: Output,
) -> Result<BTreeMap<String, ModuleOutput>, CliError> {
    let key = Key::read(file)?;
    let read = async || client.encrypted_outputs(id).await;
    let text = key.open_base64(&retry_call(output, "retrying", read).await?.raw)?;
    let values: BTreeMap<String, Json> = serde_json::from_slice(&text)
        .map_err(|_| CliError::usage("the decrypted outputs are not a JSON object"))?;
    Ok(values.into_iter().map(|(name, value)| (name, described(value))).collect())
}

/// An output with its description, or a plain value without one.
fn described(value: Json) -> ModuleOutput {
    match serde_json::from_str::<ModuleOutput>(&value.to_string()) {
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
        (None, _) if !found.sensitive => Err(CliError::usage_with_hint(
            format!("the value of the output `{name}` could not be stored"),
            "read the reason in the deployment's log: canyon logs ID",
        )),
        (None, _) => Err(CliError::usage_with_hint(
            format!("the output `{name}` is sensitive, so Canyon did not store it unencrypted"),
            "deploy with --outputs-recipient, and read it with --identity",
        )),
        (Some(Json::String(text)), Format::Table) => output.text(&format!("{text}\n")),
        (Some(value), _) => output.exact(value),
    }
}
