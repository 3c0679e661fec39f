//! `canyon deploy` and `canyon plan`.

mod field_flags;
mod flags;
mod limit;
#[cfg(feature = "local")]
mod place;

pub(crate) use self::flags::RunFlags;
use self::limit::{Limit, Next};
#[cfg(feature = "local")]
use self::place::{Choice, Place};
use super::container_flags::{ContainerFlags, ContainerOfRequest};
use super::module_flags::{ModuleFlags, ModuleOfRequest};
use crate::confirm;
use crate::environment_facts::EnvironmentFacts;
use crate::error::CliError;
use crate::exit::Exit;
#[cfg(feature = "local")]
use crate::local_run::{Interrupts, LocalRun, OwnAgent};
use crate::output::{Format, Output};
use crate::progress_bar::Display;
use crate::resource::Resource;
use crate::retry::retry_call;
use crate::{follow, summary};
use canyon_api::client::Client;
use canyon_api::deployment::{
    Deployment, DeploymentCreateBody, RequestedApproval, RequestedMode, Supersede,
};
use canyon_domain::deployment::Priority;
use clap::ArgGroup;
use uuid::Uuid;

/// What to deploy, and to which environment.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["module", "destroy", "container", "resource"])))]
pub(crate) struct Arguments {
    /// The project
    project: String,
    /// The environment
    environment: String,
    #[command(flatten)]
    module: ModuleFlags,
    #[command(flatten)]
    container: ContainerFlags,
    /// Destroy everything in the environment's state; without --module, with the last deployment's module. With --resource,
    /// destroy this resource
    #[arg(long)]
    destroy: bool,
    #[command(flatten)]
    flags: RunFlags,
}

/// A deployment as its command requests it.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) project: String,
    pub(crate) environment: String,
    pub(crate) mode: RequestedMode,
    pub(crate) module: ModuleFlags,
    pub(crate) container: ContainerFlags,
    /// With the mode `rollback`: the deployment to repeat.
    pub(crate) rollback_to: Option<Uuid>,
    /// With the mode `apply`: the deployment whose plan to apply.
    pub(crate) plan_of: Option<Uuid>,
    pub(crate) flags: RunFlags,
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
    let Arguments { project, environment, module, container, destroy, flags } = arguments;
    let mode = if destroy { RequestedMode::Destroy } else { RequestedMode::Deploy };
    let (rollback_to, plan_of) = (None, None);
    let request =
        Request { project, environment, mode, module, container, rollback_to, plan_of, flags };
    execute(request, client, output).await
}

/// `canyon plan`: another name of `canyon deploy --plan-only`.
pub(crate) async fn plan(
    mut arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    arguments.flags.plan_only = true;
    run(arguments, client, output).await
}

/// Runs a deployment, and prints how it ended.
pub(crate) async fn execute(
    request: Request,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    confirm_destroy(&request, client, output).await?;
    #[cfg(feature = "local")]
    let choice = Choice::of(&request, client, output).await?;
    #[cfg(feature = "local")]
    let (module, choice) = {
        let module = request.module.resolve(client, output);
        let (module, choice) = tokio::join!(module, choice.asked(&request, client));
        (module?, choice)
    };
    #[cfg(not(feature = "local"))]
    let module = request.module.resolve(client, output).await?;
    let limit = Limit::of(&request);
    let body = body(&request, module, request.container.resolve()?);
    let key = request.flags.idempotency_key.unwrap_or_else(new_key);
    if request.flags.no_wait {
        let deployment = create(client, &limit.apply_to(&body), &key, output).await?;
        match output.format {
            Format::Table => output.text(&format!("{}\n", deployment.id))?,
            Format::Yaml | Format::Json => summary::value(&deployment, output)?,
        }
        return Ok(Exit::Ok);
    }
    #[cfg(feature = "local")]
    let is_informed = match choice.decided(client, output).await {
        Place::Here(run) => return run_locally(*run, &body, limit, client, output).await,
        Place::Elsewhere { is_informed } => is_informed,
    };
    #[cfg(not(feature = "local"))]
    let is_informed = false;
    let timeout = request.flags.timeout;
    let ended = run_by_launcher(&body, limit, key, timeout, is_informed, client, output).await?;
    summary::print(client, ended.deployment, ended.refusal, output).await?;
    Ok(Exit::Ok)
}

/// Asks for confirmation before a run that destroys everything.
async fn confirm_destroy(
    request: &Request,
    client: &Client,
    output: Output,
) -> Result<(), CliError> {
    if request.mode != RequestedMode::Destroy || request.flags.plan_only {
        return Ok(());
    }
    let environment = request.target();
    let name = environment.full_name();
    let action = match (request.container.resource(), &request.flags.target[..]) {
        (Some(resource), _) => format!("destroy the resource {resource} of {name}"),
        (None, _) if request.container.is_given() => format!("destroy a resource of {name}"),
        (None, []) => format!("destroy everything in the state of {name}"),
        (None, targets) => format!("destroy {} in the state of {name}", targets.join(", ")),
    };
    confirm::require_yes(request.flags.yes, &action)?;
    if request.flags.yes {
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
    is_informed: bool,
    client: &Client,
    output: Output,
) -> Result<Ended, CliError> {
    loop {
        let id = create(client, &limit.apply_to(body), &key, output).await?.id.to_string();
        let display = Display::new(output);
        display.line(&format!("deployment {id}"));
        let ended = follow::until_end_for(client, &id, &display, timeout, is_informed).await;
        drop(display);
        let deployment = summary::or_unended(client, ended, output).await?;
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

pub(crate) fn new_key() -> String {
    Uuid::new_v4().to_string()
}

impl Request {
    fn target(&self) -> Resource {
        Resource::environment(self.project.clone(), self.environment.clone())
    }
}

/// The form of several `age` public keys in a request.
fn joined(recipients: &[String]) -> Option<String> {
    (!recipients.is_empty()).then(|| recipients.join(","))
}

fn body(request: &Request, of: ModuleOfRequest, job: ContainerOfRequest) -> DeploymentCreateBody {
    let flags = &request.flags;
    DeploymentCreateBody {
        plan_only: flags.plan_only.then_some(true),
        module: of.module,
        container: job.container,
        resource: job.resource,
        params: job.params,
        secret_inputs: of.secret_inputs,
        rollback_to_deployment_id: request.rollback_to,
        plan_deployment_id: request.plan_of,
        encrypted_outputs_recipient: joined(&flags.outputs_recipient),
        encrypted_logs_recipient: joined(&flags.logs_recipient),
        priority: flags.priority.map(Priority::from),
        accept_state: flags.accept_state,
        role: flags.role.clone(),
        reason: flags.reason.clone(),
        targets: flags.target.clone(),
        replace: flags.replace.clone(),
        parallelism: flags.parallelism,
        approval: flags.require_approval.then_some(RequestedApproval::Required),
        supersede: flags.supersede_queued.then_some(Supersede::Queued),
        ..DeploymentCreateBody::new(request.mode, &request.project, &request.environment)
    }
}

/// Retries with the same key while the outcome is unknown, so that a lost answer never causes a second
/// deployment.
pub(crate) async fn create(
    client: &Client,
    body: &DeploymentCreateBody,
    key: &str,
    output: Output,
) -> Result<Deployment, CliError> {
    let create = async || client.create_deployment(body, key).await;
    match retry_call(output, "retrying with the same key", create).await {
        Ok(deployment) => Ok(deployment),
        Err(error) => {
            let explained = Resource::explain_target(&body.project_id, &body.env_id, client, error);
            Err(match explained.await {
                CliError::Client(error) => field_flags::renamed(error).into(),
                explained => explained,
            })
        }
    }
}
