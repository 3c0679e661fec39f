//! `canyon deploy`.

use super::json;
use crate::error::CliError;
use crate::exit::Exit;
#[cfg(feature = "local")]
use crate::here::{Here, Interrupts};
use crate::module_argument;
use crate::output::{Format, Output};
use crate::progress_bar::Display;
use crate::{follow, summary, variables};
use canyon_api::client::{Client, ClientError};
use canyon_api::deployment::{Deployment, DeploymentCreateBody, RequestedMode};
use canyon_domain::deployment::Priority;
use canyon_domain::job::Module;
use std::path::PathBuf;
use std::time::Duration;
use uuid::Uuid;

/// What to deploy, and where to.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Arguments {
    /// The project
    project: String,
    /// The environment
    environment: String,
    /// `./folder[//sub]`, `git::<https|ssh>://...[//sub][?ref=...]`, `sha256:<digest>`, or `-` for
    /// the text of main.tf on stdin
    #[arg(long, required_unless_present = "destroy", allow_hyphen_values = true)]
    module: Option<String>,
    /// Set a variable of the module: `name=value`; `[..]` and `{..}` are lists and objects
    #[arg(long, value_name = "NAME=VALUE", requires = "module")]
    var: Vec<String>,
    /// Take variables from a .tfvars.json or .yaml file
    #[arg(long, value_name = "FILE", requires = "module")]
    var_file: Vec<PathBuf>,
    /// Stop after the plan
    #[arg(long)]
    plan_only: bool,
    /// Destroy everything in the environment's state; without --module, by the last deployment's
    #[arg(long)]
    destroy: bool,
    /// What it goes before, where more wait than agents can launch
    #[arg(long, value_enum, value_name = "WHICH")]
    priority: Option<GivenPriority>,
    /// Run it on this machine, whatever its runner's agents are: `canyon` is the agent, for this alone
    #[cfg(feature = "local")]
    #[arg(long, conflicts_with_all = ["no_wait", "timeout", "idempotency_key"])]
    local: bool,
    /// Print the deployment's id and do not wait for its end
    #[arg(long)]
    no_wait: bool,
    /// Stop waiting after so many seconds; the deployment goes on
    #[arg(long, value_name = "SECONDS", conflicts_with = "no_wait")]
    timeout: Option<u64>,
    /// `age` public key to encrypt all outputs to
    #[arg(long, value_name = "AGE1...")]
    outputs_recipient: Option<String>,
    /// `age` public key to encrypt the logs to
    #[arg(long, value_name = "AGE1...")]
    logs_recipient: Option<String>,
    /// The same key finds the same deployment for 24 hours; a random one without it
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

/// See [`Priority`].
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum GivenPriority {
    Background,
    Normal,
    High,
}

impl From<GivenPriority> for Priority {
    fn from(given: GivenPriority) -> Self {
        match given {
            GivenPriority::Background => Self::Background,
            GivenPriority::Normal => Self::Normal,
            GivenPriority::High => Self::High,
        }
    }
}

/// How often a request whose answer was lost is repeated.
const REPEATS: u32 = 5;

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    #[cfg(feature = "local")]
    let here = if arguments.local {
        Some(Here::prepare(client, &arguments.project, &arguments.environment).await?)
    } else {
        None
    };
    let inputs = variables::values(&arguments.var_file, &arguments.var)?;
    let module = match &arguments.module {
        None => None,
        Some(given) => {
            let source = module_argument::resolve(given, client).await?;
            Some(Module { source: source.source, source_code: source.source_code, inputs })
        }
    };
    let body = body(&arguments, module);
    #[cfg(feature = "local")]
    if let Some(here) = here {
        return run_here(here, body, client, output).await;
    }
    let key = arguments.idempotency_key.unwrap_or_else(|| Uuid::new_v4().to_string());
    let deployment = create(client, &body, &key, output).await?;
    let id = deployment.id.to_string();
    if arguments.no_wait {
        match output.format {
            Format::Table => output.text(&format!("{id}\n"))?,
            Format::Yaml | Format::Json => output.value(&json(&deployment)?)?,
        }
        return Ok(Exit::Ok);
    }
    let display = Display::new(output);
    display.line(&format!("deployment {id}"));
    let ended = follow::until_end(client, &id, &display, arguments.timeout).await;
    drop(display);
    summary::say(client, ended?, output).await?;
    Ok(Exit::Ok)
}

/// Has this process launch it.
#[cfg(feature = "local")]
async fn run_here(
    here: Here,
    body: DeploymentCreateBody,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let mut interrupts = Interrupts::listen()?;
    let mut agent = here.join(client, &mut interrupts, output).await?;
    let body = DeploymentCreateBody { agent: Some(agent.name().to_owned()), ..body };
    let key = Uuid::new_v4().to_string();
    let ended = match create(client, &body, &key, output).await {
        Ok(deployment) => {
            let display = Display::new(output);
            let id = deployment.id.to_string();
            display.line(&format!("deployment {id}, on this machine"));
            agent.serve(client, &id, &mut interrupts, &display).await
        }
        Err(error) => Err(error),
    };
    agent.leave(client, &mut interrupts, output).await;
    summary::say(client, ended?, output).await?;
    Ok(Exit::Ok)
}

fn body(arguments: &Arguments, module: Option<Module>) -> DeploymentCreateBody {
    DeploymentCreateBody {
        mode: if arguments.destroy { RequestedMode::Destroy } else { RequestedMode::Deploy },
        project_id: arguments.project.clone(),
        env_id: arguments.environment.clone(),
        plan_only: arguments.plan_only.then_some(true),
        module,
        manifest: None,
        rollback_to_deployment_id: None,
        encrypted_outputs_recipient: arguments.outputs_recipient.clone(),
        encrypted_logs_recipient: arguments.logs_recipient.clone(),
        is_dry_run: false,
        priority: arguments.priority.map(Priority::from),
        agent: None,
        runner_log_level: None,
    }
}

/// Repeats with the same key while the outcome is unknown, so that a lost answer never deploys
/// twice.
async fn create(
    client: &Client,
    body: &DeploymentCreateBody,
    key: &str,
    output: Output,
) -> Result<Deployment, CliError> {
    let mut repeats = 0;
    loop {
        match client.create_deployment(body, key).await {
            Ok(deployment) => return Ok(deployment),
            Err(error) if error.is_retryable() && repeats < REPEATS => {
                // Nobody listens: nothing was sent, and waiting for a server is not our job.
                let never_sent = matches!(
                    &error, ClientError::Unreachable { source, .. } if source.is_connect()
                );
                if never_sent && repeats == 0 {
                    return Err(error.into());
                }
                repeats += 1;
                output.notice(&format!("no answer ({error}); asking again with the same key"));
                tokio::time::sleep(Duration::from_millis(200 << repeats)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
