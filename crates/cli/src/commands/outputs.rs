//! `canyon outputs`.

use super::container_flags::ResourceFlag;
use crate::answer::exact;
use crate::deployment_history::{DeploymentHistory, MAX_SEARCHED, filter_of, no_deployment};
use crate::deployment_target;
use crate::error::CliError;
use crate::exit::Exit;
use crate::identity::Key;
use crate::output::{Format, Output};
use crate::resource::Resource;
use crate::retry::retry_call;
use crate::{environment_resources, hint, summary};
use canyon_api::client::Client;
use canyon_api::deployment::Output as ModuleOutput;
use canyon_domain::json::Json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The outputs to show.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// `DEPLOYMENT [NAME]`, or `PROJECT ENVIRONMENT [NAME]` for the last successful deployment; with NAME,
    /// only this output: text is printed without quotes
    #[arg(value_name = "DEPLOYMENT|PROJECT ENVIRONMENT|NAME", num_args = 1..=3, required = true)]
    what: Vec<String>,
    #[command(flatten)]
    resource: ResourceFlag,
    /// `age` secret key to decrypt the outputs with, the sensitive ones too
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let what = What::parse(arguments.what, arguments.resource.resource)?;
    let id = &what.deployment(client, output).await?;
    let outputs = match &arguments.identity {
        Some(file) => decrypted(client, id, file, output).await?,
        None => retry_call(output, "retrying", async || client.outputs(id).await).await?,
    };
    match (what.name(), output.format) {
        (Some(name), _) => one(&outputs, name, output)?,
        (None, Format::Table) => output.text(&summary::output_lines(&outputs))?,
        (None, Format::Yaml | Format::Json) => output.exact(&exact(&outputs)?)?,
    }
    Ok(Exit::Ok)
}

/// Whose outputs to show, and which of them.
enum What {
    Deployment { given: String, name: Option<String> },
    Environment { environment: Resource, resource: Option<String>, name: Option<String> },
}

impl What {
    /// The id of a project begins with a letter. So does the end of some ids of deployments: with a name, such an
    /// end is read as a project.
    fn parse(given: Vec<String>, resource: Option<String>) -> Result<Self, CliError> {
        let mut given = given.into_iter();
        Ok(match (given.next(), given.next(), given.next()) {
            (Some(_), None, _) if resource.is_some() => {
                return Err(CliError::usage("--resource needs the project and the environment"));
            }
            (Some(given), None, _) => Self::Deployment { given, name: None },
            (Some(given), Some(name), None) if resource.is_none() && is_deployment(&given) => {
                Self::Deployment { given, name: Some(name) }
            }
            (Some(project), Some(environment), name) => {
                let environment = Resource::environment(project, environment);
                Self::Environment { environment, resource, name }
            }
            // clap requires the first one.
            (None, _, _) => return Err(CliError::usage("no deployment is given")),
        })
    }

    fn name(&self) -> Option<&str> {
        match self {
            Self::Deployment { name, .. } | Self::Environment { name, .. } => name.as_deref(),
        }
    }

    async fn deployment(&self, client: &Client, output: Output) -> Result<String, CliError> {
        match self {
            Self::Deployment { given, .. } => deployment_target::of_id(client, given).await,
            Self::Environment { environment, resource, .. } => {
                let id = match resource {
                    Some(resource) => {
                        environment_resources::last_success(client, environment, resource).await?
                    }
                    None => last_applied(client, environment).await?,
                };
                output.notice(&format!("deployment {id}"));
                Ok(id)
            }
        }
    }
}

fn is_deployment(given: &str) -> bool {
    Uuid::try_parse(given).is_ok() || given.starts_with(|c: char| c.is_ascii_digit())
}

/// The deployment whose outputs `environment` has now: the last one that succeeded, unless it destroyed everything.
/// Plans and failed runs change no stored outputs.
async fn last_applied(client: &Client, environment: &Resource) -> Result<String, CliError> {
    let mut history = DeploymentHistory::new(client, filter_of(environment), 20);
    let mut is_empty = true;
    let name = environment.full_name();
    while let Some(deployment) = history.next().await? {
        is_empty = false;
        let is_on_state = deployment.mode == "state";
        let is_of_resource = deployment.resource.is_some();
        if deployment.status != "succeeded" || deployment.plan_only || is_on_state || is_of_resource
        {
            continue;
        }
        let id = deployment.id.to_string();
        if deployment.mode != "destroy" {
            return Ok(id);
        }
        return Err(CliError::Absent {
            message: format!("{name} has no outputs: deployment {id} has destroyed its resources"),
            hint: "read the outputs of an earlier deployment by its id: canyon outputs DEPLOYMENT"
                .to_owned(),
        });
    }
    if is_empty {
        return Err(no_deployment(client, environment).await);
    }
    let searched =
        if history.is_cut() { format!(" among its newest {MAX_SEARCHED}") } else { String::new() };
    Err(CliError::Absent {
        message: format!("{name} has no outputs: it has no successful deployment{searched}"),
        hint: format!(
            "read how the latest one ended: canyon logs {} {}",
            environment.project.as_deref().unwrap_or_default(),
            environment.id
        ),
    })
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
