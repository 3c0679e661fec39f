//! `canyon deploy`.

mod limit;

use self::limit::{Limit, Next};
use crate::answer::json;
use crate::confirm;
use crate::environment_facts::EnvironmentFacts;
use crate::error::CliError;
use crate::exit::Exit;
#[cfg(feature = "local")]
use crate::local_run::{Interrupts, LocalRun, OwnAgent};
use crate::module_argument;
use crate::output::{Format, Output};
use crate::progress_bar::Display;
use crate::resource::Resource;
use crate::retry::retry_call;
use crate::{follow, summary, variables};
use canyon_api::client::Client;
use canyon_api::deployment::{Deployment, DeploymentCreateBody, RequestedMode};
use canyon_domain::deployment::Priority;
use canyon_domain::job::Module;
use std::path::PathBuf;
use uuid::Uuid;

/// What to deploy, and to which environment.
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
    /// Set a variable of the module: `name=value`, where lists and maps are written in HCL
    #[arg(long, value_name = "NAME=VALUE", requires = "module")]
    var: Vec<String>,
    /// Read variables from a .tfvars, .tfvars.json or .yaml file
    #[arg(long, value_name = "FILE", requires = "module")]
    var_file: Vec<PathBuf>,
    /// Stop after the plan
    #[arg(long)]
    plan_only: bool,
    /// Destroy everything in the environment's state; without --module, with the last deployment's module
    #[arg(long)]
    destroy: bool,
    /// Delete, replace and destroy without asking for confirmation
    #[arg(long)]
    yes: bool,
    /// End the run before its apply if its plan deletes or replaces more resources than this; those
    /// that the provider does not find count too
    #[arg(long, value_name = "N")]
    max_deletions: Option<u32>,
    /// Use the state that is in the runner's storage, although the last run did not write it; for
    /// administrators
    #[arg(long)]
    accept_state: bool,
    /// Which deployments it precedes when more are waiting than agents can launch
    #[arg(long, value_enum, value_name = "WHICH")]
    priority: Option<GivenPriority>,
    /// Run it on this machine, whatever agents its runner has: `canyon` is the agent for this deployment alone
    #[cfg(feature = "local")]
    #[arg(long, conflicts_with_all = ["no_wait", "timeout", "idempotency_key"])]
    local: bool,
    /// Print the deployment's id and do not wait for its end
    #[arg(long)]
    no_wait: bool,
    /// Stop waiting after this many seconds; the deployment continues
    #[arg(long, value_name = "SECONDS", conflicts_with = "no_wait")]
    timeout: Option<u64>,
    /// `age` public key to encrypt all outputs to
    #[arg(long, value_name = "AGE1...")]
    outputs_recipient: Option<String>,
    /// `age` public key to encrypt the logs to
    #[arg(long, value_name = "AGE1...")]
    logs_recipient: Option<String>,
    /// The same key returns the same deployment for 24 hours; without it, the command uses a random one
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

/// How a deployment ended, and the refusal if a limit or the user ended it before its apply.
struct Ended {
    deployment: Deployment,
    refusal: Option<CliError>,
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    confirm_destroy(&arguments, client, output).await?;
    #[cfg(feature = "local")]
    let local_run = if arguments.local {
        Some(LocalRun::prepare(client, &arguments.project, &arguments.environment).await?)
    } else {
        None
    };
    let folder = arguments.module.as_deref().and_then(module_argument::folder);
    let inputs = variables::values(&arguments.var_file, &arguments.var, folder.as_deref())?;
    let module = match &arguments.module {
        None => None,
        Some(given) => {
            let source = module_argument::resolve(given, client, output).await?;
            Some(Module { source: source.source, source_code: source.source_code, inputs })
        }
    };
    let limit = Limit::from_arguments(&arguments);
    let body = body(&arguments, module);
    let key = arguments.idempotency_key.unwrap_or_else(new_key);
    if arguments.no_wait {
        let deployment = create(client, &limit.apply_to(&body), &key, output).await?;
        match output.format {
            Format::Table => output.text(&format!("{}\n", deployment.id))?,
            Format::Yaml | Format::Json => output.value(&json(&deployment)?)?,
        }
        return Ok(Exit::Ok);
    }
    #[cfg(feature = "local")]
    if let Some(local_run) = local_run {
        return run_locally(local_run, &body, limit, client, output).await;
    }
    let ended = run_by_launcher(&body, limit, key, arguments.timeout, client, output).await?;
    summary::print(client, ended.deployment, ended.refusal, output).await?;
    Ok(Exit::Ok)
}

/// Asks for confirmation before a run that destroys everything.
async fn confirm_destroy(
    arguments: &Arguments,
    client: &Client,
    output: Output,
) -> Result<(), CliError> {
    if !arguments.destroy || arguments.plan_only {
        return Ok(());
    }
    let environment = arguments.target();
    let action = format!("destroy everything in the state of {}", environment.full_name());
    confirm::require_yes(arguments.yes, &action)?;
    if arguments.yes {
        return Ok(());
    }
    output.notice(&EnvironmentFacts::read(client, &environment).await?.describe());
    confirm::ask(&action, confirm::ctrl_c(), output).await
}

/// Lets a launcher run the deployment, and again each time the user allows more deletions.
async fn run_by_launcher(
    body: &DeploymentCreateBody,
    mut limit: Limit,
    mut key: String,
    timeout: Option<u64>,
    client: &Client,
    output: Output,
) -> Result<Ended, CliError> {
    loop {
        let id = create(client, &limit.apply_to(body), &key, output).await?.id.to_string();
        let display = Display::new(output);
        display.line(&format!("deployment {id}"));
        let ended = follow::until_end(client, &id, &display, timeout).await;
        drop(display);
        let deployment = ended?;
        match limit.next(&deployment, client, confirm::ctrl_c(), output).await {
            Next::Rerun(raised) => limit = raised,
            Next::End(refusal) => return Ok(Ended { deployment, refusal }),
        }
        key = new_key();
    }
}

/// Runs the deployment in this process.
#[cfg(feature = "local")]
async fn run_locally(
    local_run: LocalRun,
    body: &DeploymentCreateBody,
    limit: Limit,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let mut interrupts = Interrupts::listen()?;
    let mut agent = local_run.join(client, &mut interrupts, output).await?;
    let body = DeploymentCreateBody { agent: Some(agent.name().to_owned()), ..body.clone() };
    let ended = serve_locally(&mut agent, &mut interrupts, &body, limit, client, output).await;
    agent.leave(client, &mut interrupts, output).await;
    let ended = ended?;
    summary::print(client, ended.deployment, ended.refusal, output).await?;
    Ok(Exit::Ok)
}

/// Does what [`run_by_launcher`] does, with this process as the agent.
#[cfg(feature = "local")]
async fn serve_locally(
    agent: &mut OwnAgent,
    interrupts: &mut Interrupts,
    body: &DeploymentCreateBody,
    mut limit: Limit,
    client: &Client,
    output: Output,
) -> Result<Ended, CliError> {
    loop {
        let id = create(client, &limit.apply_to(body), &new_key(), output).await?.id.to_string();
        let display = Display::new(output);
        display.line(&format!("deployment {id}, on this machine"));
        let ended = agent.serve(client, &id, interrupts, &display).await;
        drop(display);
        let deployment = ended?;
        let interrupted = async {
            interrupts.next().await;
        };
        match limit.next(&deployment, client, interrupted, output).await {
            Next::Rerun(raised) => limit = raised,
            Next::End(refusal) => return Ok(Ended { deployment, refusal }),
        }
    }
}

fn new_key() -> String {
    Uuid::new_v4().to_string()
}

impl Arguments {
    fn target(&self) -> Resource {
        Resource::environment(self.project.clone(), self.environment.clone())
    }
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
        accept_state: arguments.accept_state,
        max_deletions: None,
    }
}

/// Retries with the same key while the outcome is unknown, so that a lost answer never causes a second
/// deployment.
async fn create(
    client: &Client,
    body: &DeploymentCreateBody,
    key: &str,
    output: Output,
) -> Result<Deployment, CliError> {
    let create = async || client.create_deployment(body, key).await;
    Ok(retry_call(output, "retrying with the same key", create).await?)
}
