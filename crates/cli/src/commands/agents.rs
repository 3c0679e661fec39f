//! `canyon adopt`, `canyon reject` and `canyon forget`: whether an agent is the team's own.

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::resource::{Kind, Resource};
use canyon_api::client::Client;

/// Which agent.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// An agent
    #[command(visible_alias = "agents")]
    Agent {
        /// Its id
        id: String,
    },
}

impl Arguments {
    fn resource(self) -> Resource {
        let What::Agent { id } = self.what;
        Resource::new(Kind::Agent, id)
    }
}

/// What is said of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It is ours, and may work.
    Adopt,
    /// It is not ours.
    Reject,
}

pub(crate) async fn judge(
    arguments: Arguments,
    judgement: Judgement,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let resource = arguments.resource();
    let (action, done) = match judgement {
        Judgement::Adopt => ("adopt", "adopted"),
        Judgement::Reject => ("reject", "rejected"),
    };
    let mut path = resource.path();
    path.extend(["actions", action]);
    match client.act(&path, &[]).await {
        Ok(agent) => {
            output.notice(&format!("{done} agent `{}`", resource.id));
            output.thing(&agent)?;
            Ok(Exit::Ok)
        }
        Err(error) => Err(resource.explain(client, error).await),
    }
}

pub(crate) async fn forget(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let resource = arguments.resource();
    if let Err(error) = client.delete(&resource.path(), &[]).await {
        return Err(resource.explain(client, error).await);
    }
    output.notice(&format!("forgot agent `{}`: it must be adopted again", resource.id));
    Ok(Exit::Ok)
}
