//! `canyon adopt`, `canyon reject` and `canyon forget`: whether the organization trusts an agent.

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::resource::{Kind, Resource};
use canyon_api::client::Client;
use serde_json::Value;

/// The agent.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum What {
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
    let resource = Resource::new(Kind::Agent, id);
    let agent = judge(resource, ("adopt", "adopted"), options, client, output).await?;
    if let Some(warning) = missing_runner(&agent, client).await {
        output.notice(&warning);
    }
    Ok(Exit::Ok)
}

/// The warning about an agent whose runner does not exist, perhaps because its name is misspelt in the agent's settings.
async fn missing_runner(agent: &Value, client: &Client) -> Option<String> {
    let runner = Resource::new(Kind::Runner, agent["runner_id"].as_str()?.to_owned());
    let error = client.get(&runner.path()).await.err()?;
    if error.status() != Some(404) {
        return None;
    }
    let near = runner.nearest(client).await;
    let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    Some(format!(
        "warning: the agent is for the runner `{}`, which does not exist, so it gets no jobs{near}",
        runner.id
    ))
}

pub(super) async fn reject(what: What, client: &Client, output: Output) -> Result<Exit, CliError> {
    let resource = Arguments { what }.resource();
    judge(resource, ("reject", "rejected"), None, client, output).await?;
    Ok(Exit::Ok)
}

/// Adopts or rejects an agent, and prints it.
async fn judge(
    resource: Resource,
    (action, done): (&str, &str),
    options: Option<(&str, String)>,
    client: &Client,
    output: Output,
) -> Result<Value, CliError> {
    let mut path = resource.path();
    path.extend(["actions", action]);
    match client.act(&path, options.as_slice()).await {
        Ok(agent) => {
            output.notice(&format!("{done} agent `{}`", resource.id));
            output.resource(&agent)?;
            Ok(agent)
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
