//! `canyon delete`.

mod wait;

use self::wait::Wait;
use crate::commands::{named_variables, retention, schedules};
use crate::confirm;
use crate::environment_facts::EnvironmentFacts;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::plain_resource;
use crate::resource::{Kind, Resource};
use canyon_api::client::Client;
use serde_json::Value;

/// The resource to delete.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// A runner that no environment uses
    #[command(visible_alias = "runners")]
    Runner {
        /// Its id
        id: String,
    },
    /// A runner rule
    #[command(visible_alias = "runner-rules")]
    RunnerRule {
        /// Its id
        id: String,
    },
    /// A project
    #[command(visible_alias = "projects")]
    Project {
        /// Its id
        id: String,
    },
    /// An environment, after destroying the resources in its state
    #[command(visible_aliases = ["environments", "env"])]
    Environment {
        /// The project
        project: String,
        /// Its id
        id: String,
        /// Destroy nothing: the resources stay, and Canyon deletes its record of their state
        #[arg(long)]
        force: bool,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
        /// Wait until its resources are destroyed and it is deleted
        #[arg(long)]
        wait: bool,
        /// Stop waiting after this many seconds; the deletion continues
        #[arg(long, value_name = "SECONDS", requires = "wait")]
        timeout: Option<u64>,
    },
    #[command(flatten)]
    Plain(plain_resource::Delete),
    /// A schedule of an environment; deployments that it has requested go on
    #[command(visible_alias = "schedules")]
    Schedule(schedules::Deleted),
    /// Variables of the organization, or of a project, an environment type or an environment
    #[command(
        visible_aliases = ["variables", "var"],
        after_help = "\
Example:
  canyon delete variable --project shop --env dev replicas"
    )]
    Variable(named_variables::Several),
    /// The retention: Canyon removes nothing any more
    Retention,
    /// An API token: Canyon refuses it from then on
    #[command(visible_alias = "tokens")]
    Token {
        /// Its id
        id: String,
    },
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let mut is_forced = false;
    let resource = match arguments.what {
        What::Runner { id } => Resource::new(Kind::Runner, id),
        What::RunnerRule { id } => Resource::new(Kind::RunnerRule, id),
        What::Project { id } => Resource::new(Kind::Project, id),
        What::Plain(plain) => {
            let (kind, id, force) = plain.parts();
            is_forced = force;
            Resource::new(Kind::Plain(kind), id)
        }
        What::Schedule(given) => return schedules::delete(given, client, output).await,
        What::Retention => return retention::delete(client, output).await,
        What::Token { id } => Resource::new(Kind::Token, id),
        What::Variable(given) => return named_variables::unset(given, client, output).await,
        What::Environment { project, id, force, yes, wait, timeout } => {
            let environment = Resource::environment(project, id);
            let wait = wait.then_some(Wait { timeout });
            return delete_environment(&environment, force, yes, wait, client, output).await;
        }
    };
    let options = Vec::from_iter(is_forced.then(forced));
    if let Some(left) = delete(&resource, &options, client, output).await? {
        output.resource(&left)?;
    }
    Ok(Exit::Ok)
}

/// Asks for confirmation first, and reports which resources stay behind.
async fn delete_environment(
    environment: &Resource,
    force: bool,
    yes: bool,
    wait: Option<Wait>,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let name = environment.full_name();
    let action = if force {
        format!("delete environment {name} and leave its resources behind")
    } else {
        format!("destroy everything in the state of {name} and delete the environment")
    };
    confirm::require_yes(yes, &action)?;
    let facts = EnvironmentFacts::read(client, environment).await?;
    if force || !yes {
        output.notice(&facts.describe());
    }
    if !yes {
        confirm::ask(&action, confirm::ctrl_c(), output).await?;
    }
    let force_option = force.then(forced);
    // Deletes only the environment that was read, and not a newer one of the same name.
    let uuid = facts.uuid().map(|uuid| ("uuid", uuid.to_string()));
    let options: Vec<_> = force_option.into_iter().chain(uuid).collect();
    match (delete(environment, &options, client, output).await?, wait) {
        (None, _) if force => output.notice(&facts.left_behind()),
        (None, _) => {}
        (Some(left), None) => output.resource(&left)?,
        (Some(_), Some(wait)) => {
            wait.until_deleted(environment, facts.uuid(), client, output).await?;
        }
    }
    Ok(Exit::Ok)
}

fn forced() -> (&'static str, String) {
    ("force", "true".to_owned())
}

/// Deletes the resource. `Some` if Canyon has to destroy resources in it first: the resource as it is now.
async fn delete(
    resource: &Resource,
    options: &[(&str, String)],
    client: &Client,
    output: Output,
) -> Result<Option<Value>, CliError> {
    let noun = resource.kind.noun();
    match client.delete(&resource.path(), options).await {
        Ok(None) => {
            output.notice(&format!("deleted {noun} `{}`", resource.full_name()));
            Ok(None)
        }
        Ok(Some(left)) => {
            output.notice(&format!(
                "deleting {noun} `{}`: Canyon destroys its resources first",
                resource.full_name()
            ));
            Ok(Some(left))
        }
        Err(error) => Err(resource.explain(client, error).await),
    }
}
