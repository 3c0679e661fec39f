//! `canyon adopt`, `canyon reject` and `canyon forget`: whether the organization trusts an agent.

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::resource::{Kind, Resource};
use canyon_api::client::Client;

/// The agent.
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

/// The agent, and the key to adopt it by.
#[derive(Debug, clap::Args)]
pub(crate) struct AdoptArguments {
    #[command(subcommand)]
    what: Adopted,
}

#[derive(Debug, clap::Subcommand)]
enum Adopted {
    /// An agent
    #[command(visible_alias = "agents")]
    Agent {
        /// Its id
        id: String,
        /// Adopt it only by this key: the fingerprint that the agent printed at its start
        #[arg(long)]
        fingerprint: Option<String>,
    },
}

impl Arguments {
    fn resource(self) -> Resource {
        let What::Agent { id } = self.what;
        Resource::new(Kind::Agent, id)
    }
}

pub(crate) async fn adopt(
    arguments: AdoptArguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Adopted::Agent { id, fingerprint } = arguments.what;
    let options = fingerprint.map(|fingerprint| ("fingerprint", fingerprint));
    judge(Resource::new(Kind::Agent, id), ("adopt", "adopted"), options, client, output).await
}

pub(crate) async fn reject(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    judge(arguments.resource(), ("reject", "rejected"), None, client, output).await
}

async fn judge(
    resource: Resource,
    (action, done): (&str, &str),
    options: Option<(&str, String)>,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let mut path = resource.path();
    path.extend(["actions", action]);
    match client.act(&path, options.as_slice()).await {
        Ok(agent) => {
            output.notice(&format!("{done} agent `{}`", resource.id));
            output.resource(&agent)?;
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
