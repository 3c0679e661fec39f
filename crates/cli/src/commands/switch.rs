//! `canyon disable` and `canyon enable`.

use super::token::seconds;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::resource::{Kind, Resource};
use canyon_api::client::{Client, ClientError};
use serde_json::{Value, json};

/// What to disable.
#[derive(Debug, clap::Args)]
pub(crate) struct DisableArguments {
    #[command(subcommand)]
    what: Disabled,
}

/// What to enable.
#[derive(Debug, clap::Args)]
pub(crate) struct EnableArguments {
    #[command(subcommand)]
    what: Enabled,
}

#[derive(Debug, clap::Subcommand)]
enum Disabled {
    /// An agent: while it is disabled it gets no new work, and finishes its current work
    #[command(visible_alias = "agents")]
    Agent {
        /// Its id
        id: String,
    },
    /// A runner: while it is disabled it launches nothing; running jobs continue, the rest waits
    #[command(visible_alias = "runners")]
    Runner {
        /// Its id
        id: String,
    },
    /// A role of a runner's jobs that is enabled for some hours; running jobs keep it
    Role(RoleOfRunner),
}

#[derive(Debug, clap::Subcommand)]
enum Enabled {
    /// An agent that is disabled
    #[command(visible_alias = "agents")]
    Agent {
        /// Its id
        id: String,
    },
    /// A runner that is disabled
    #[command(visible_alias = "runners")]
    Runner {
        /// Its id
        id: String,
    },
    /// A disabled role of a runner's jobs, for some hours: `canyon deploy --role` may ask for it then
    Role {
        #[command(flatten)]
        role: RoleOfRunner,
        /// Why; the audit records and the readers of the runner see it
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// For how long, such as `90m`; at most `8h` [default: 1h]
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        expires_in: Option<u32>,
    },
}

#[derive(Debug, clap::Args)]
struct RoleOfRunner {
    /// The runner
    runner: String,
    /// The name of the role
    role: String,
}

pub(crate) async fn disable(
    arguments: DisableArguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let sent = match arguments.what {
        Disabled::Agent { id } => switched(Kind::Agent, id, true, client).await,
        Disabled::Runner { id } => switched(Kind::Runner, id, true, client).await,
        Disabled::Role(role) => role.act("disable", &json!({}), client).await,
    };
    report("disabled", sent, client, output).await
}

pub(crate) async fn enable(
    arguments: EnableArguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let sent = match arguments.what {
        Enabled::Agent { id } => switched(Kind::Agent, id, false, client).await,
        Enabled::Runner { id } => switched(Kind::Runner, id, false, client).await,
        Enabled::Role { role, reason, expires_in } => {
            let body = json!({ "reason": reason, "expires_in_seconds": expires_in });
            role.act("enable", &body, client).await
        }
    };
    report("enabled", sent, client, output).await
}

/// What was changed, for people; the resource whose siblings a refusal suggests; and the answer.
type Sent = (String, Option<Resource>, Result<Value, ClientError>);

async fn switched(kind: Kind, id: String, disabled: bool, client: &Client) -> Sent {
    let resource = Resource::new(kind, id);
    let answer = client.update(&resource.path(), &json!({ "disabled": disabled })).await;
    (format!("{} `{}`", kind.noun(), resource.id), Some(resource), answer)
}

impl RoleOfRunner {
    async fn act(self, action: &str, body: &Value, client: &Client) -> Sent {
        let path = ["runners", &self.runner, "named-roles", &self.role, "actions", action];
        let answer = client.create(&path, body).await;
        let what = format!("role `{}` of runner `{}`", self.role, self.runner);
        (what, None, answer)
    }
}

async fn report(
    done: &str,
    (what, resource, answer): Sent,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    match answer {
        Ok(changed) => {
            output.notice(&format!("{done} {what}"));
            output.resource(&changed)?;
            Ok(Exit::Ok)
        }
        Err(error) => Err(match resource {
            Some(resource) => resource.explain(client, error).await,
            // The refusal itself names the roles that exist.
            None => error.into(),
        }),
    }
}
