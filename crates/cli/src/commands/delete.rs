//! `canyon delete`.

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::resource::{Kind, Resource};
use canyon_api::client::Client;

/// What to delete.
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
    /// An environment, after destroying what was deployed to it
    #[command(visible_alias = "environments")]
    Environment {
        /// The project
        project: String,
        /// Its id
        id: String,
        /// Without destroying anything: what was deployed stays, and its state is forgotten
        #[arg(long)]
        force: bool,
    },
    /// An environment type that nothing uses
    #[command(visible_alias = "environment-types")]
    EnvironmentType {
        /// Its id
        id: String,
    },
    /// An event source: its requests are refused from then on
    #[command(visible_alias = "event-sources")]
    EventSource {
        /// Its id
        id: String,
    },
    /// A runner profile: deployments that need it fail from then on
    #[command(visible_alias = "runner-profiles")]
    RunnerProfile {
        /// Its id
        id: String,
    },
    /// A service account: nobody signs in as it any more, and its tokens end
    #[command(visible_alias = "service-accounts")]
    ServiceAccount {
        /// Its id
        id: String,
    },
    /// An API token: it is refused from then on
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
    let mut options = Vec::new();
    let resource = match arguments.what {
        What::Runner { id } => Resource::new(Kind::Runner, id),
        What::RunnerRule { id } => Resource::new(Kind::RunnerRule, id),
        What::Project { id } => Resource::new(Kind::Project, id),
        What::EnvironmentType { id } => Resource::new(Kind::EnvironmentType, id),
        What::EventSource { id } => Resource::new(Kind::EventSource, id),
        What::RunnerProfile { id } => Resource::new(Kind::RunnerProfile, id),
        What::ServiceAccount { id } => Resource::new(Kind::ServiceAccount, id),
        What::Token { id } => Resource::new(Kind::Token, id),
        What::Environment { project, id, force } => {
            if force {
                options.push(("force", "true".to_owned()));
            }
            Resource::environment(project, id)
        }
    };
    let noun = resource.kind.noun();
    match client.delete(&resource.path(), &options).await {
        Ok(None) => output.notice(&format!("deleted {noun} `{}`", resource.id)),
        Ok(Some(left)) => {
            output.notice(&format!(
                "deleting {noun} `{}`: what was deployed is being destroyed first",
                resource.id
            ));
            output.thing(&left)?;
        }
        Err(error) => return Err(resource.explain(client, error).await),
    }
    Ok(Exit::Ok)
}
