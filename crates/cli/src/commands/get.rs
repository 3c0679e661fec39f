//! `canyon get`.

use crate::answer::json;
use crate::commands::{named_variables, retention, schedules};
use crate::deployment_target;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::plain_resource;
use crate::resource::{Kind, Resource};
use canyon_api::client::Client;

/// The resource to show.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// A runner
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
    /// An environment
    #[command(visible_aliases = ["environments", "env"])]
    Environment {
        /// The project
        project: String,
        /// Its id
        id: String,
    },
    #[command(flatten)]
    Plain(plain_resource::Get),
    /// A schedule of an environment, with its next times and its history
    #[command(visible_alias = "schedules")]
    Schedule(schedules::One),
    /// An agent
    #[command(visible_alias = "agents")]
    Agent {
        /// Its id
        id: String,
    },
    /// For how many days the organization keeps deployments, logs and audit records
    Retention,
    /// The organization of the command's settings
    #[command(visible_alias = "organizations")]
    Organization,
    /// A variable of the organization, or of a project, an environment type or an environment
    #[command(
        visible_aliases = ["variables", "var"],
        after_help = "\
Example:
  canyon get variable --project shop --env dev replicas"
    )]
    Variable(named_variables::One),
    /// A deployment
    #[command(visible_alias = "deployments")]
    Deployment {
        /// Its id, or the first or last characters of it
        id: String,
    },
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let resource = match arguments.what {
        What::Runner { id } => Resource::new(Kind::Runner, id),
        What::RunnerRule { id } => Resource::new(Kind::RunnerRule, id),
        What::Project { id } => Resource::new(Kind::Project, id),
        What::Environment { project, id } => Resource::environment(project, id),
        What::Plain(plain) => {
            let (kind, id) = plain.parts();
            Resource::new(Kind::Plain(kind), id)
        }
        What::Schedule(one) => return schedules::get(one, client, output).await,
        What::Agent { id } => Resource::new(Kind::Agent, id),
        What::Variable(given) => return named_variables::get(given, client, output).await,
        What::Retention => return retention::get(client, output).await,
        What::Organization => Resource::new(Kind::Organization, client.org().to_owned()),
        What::Deployment { id } => {
            let id = deployment_target::of_id(client, &id).await?;
            output.resource(&json(&client.deployment(&id).await?)?)?;
            return Ok(Exit::Ok);
        }
    };
    match client.get(&resource.path()).await {
        Ok(found) => output.resource(&found)?,
        Err(error) => return Err(resource.explain(client, error).await),
    }
    Ok(Exit::Ok)
}
