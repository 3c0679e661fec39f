//! `canyon update`.

use super::{exposed_variables, role_scopes, schedules, type_protection};
use crate::body::BodyArguments;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::plain_resource;
use crate::resource::{Kind, Resource};
use crate::stored_parts;
use canyon_api::client::Client;
use serde_json::Value;

/// The resource to change.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// A runner; --set changes single values, and a part of a configuration in --set-yaml replaces the stored part
    #[command(visible_alias = "runners")]
    Runner {
        /// Its id
        id: String,
        #[command(flatten)]
        body: BodyArguments,
        /// Have the next run of each linked environment move its state to the new storage
        #[arg(long)]
        migrate: bool,
    },
    /// A rule cannot be changed: delete it and create another
    #[command(visible_alias = "runner-rules")]
    RunnerRule {
        /// Its id
        id: String,
        #[command(flatten)]
        body: BodyArguments,
    },
    /// A project
    #[command(visible_alias = "projects")]
    Project {
        /// Its id
        id: String,
        #[command(flatten)]
        body: BodyArguments,
    },
    /// An environment
    #[command(visible_aliases = ["environments", "env"])]
    Environment {
        /// The project
        project: String,
        /// Its id
        id: String,
        #[command(flatten)]
        body: BodyArguments,
    },
    #[command(flatten)]
    Plain(plain_resource::Update),
    /// A schedule of an environment; its later deployments are in your name
    #[command(visible_alias = "schedules")]
    Schedule(schedules::Written),
    /// An agent: `labels`, by which runners choose it, `run_untagged_jobs`, `disabled`
    #[command(visible_alias = "agents")]
    Agent {
        /// Its id
        id: String,
        #[command(flatten)]
        body: BodyArguments,
    },
    /// The organization: `agent_requests` (`allowed` or `refused`)
    #[command(visible_alias = "organizations")]
    Organization {
        #[command(flatten)]
        body: BodyArguments,
    },
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let mut migrates = false;
    let (resource, body) = match arguments.what {
        What::Runner { id, body, migrate } => {
            migrates = migrate;
            (Resource::new(Kind::Runner, id), body)
        }
        What::Project { id, body } => (Resource::new(Kind::Project, id), body),
        What::Environment { project, id, body } => (Resource::environment(project, id), body),
        What::Plain(plain) => {
            let (kind, id, body) = plain.parts();
            (Resource::new(Kind::Plain(kind), id), body)
        }
        What::Schedule(given) => return schedules::update(given, client, output).await,
        What::Agent { id, body } => (Resource::new(Kind::Agent, id), body),
        What::Organization { body } => {
            (Resource::new(Kind::Organization, client.org().to_owned()), body)
        }
        What::RunnerRule { id, .. } => {
            return Err(CliError::usage_with_hint(
                "a runner rule cannot be changed",
                format!(
                    "create the new rule with `canyon create runner-rule`, and delete this one with \
                     `canyon delete runner-rule {id}`"
                ),
            ));
        }
    };
    let mut body = stored_parts::change_of(&resource, &body, client).await?;
    if body.is_empty() {
        return Err(CliError::usage_with_hint(
            "no change was given",
            "give the values to change with --set or --set-yaml",
        ));
    }
    let is_configured = body.contains_key("runner_configuration");
    let is_protection = type_protection::is_changed(resource.kind, &body);
    let has_roles = ["rules", "scoped_roles"].iter().any(|name| body.contains_key(*name));
    if migrates {
        body.insert("migrate".to_owned(), Value::Bool(true));
    }
    match client.update(&resource.path(), &Value::Object(body)).await {
        Ok(changed) => {
            output.notice(&format!("updated {} `{}`", resource.kind.noun(), resource.full_name()));
            output.resource(&changed)?;
            if resource.kind == Kind::Runner && is_configured {
                exposed_variables::warn(&changed, output);
            }
            if is_protection {
                type_protection::notice(&resource.id, client, output).await;
            }
            if has_roles {
                role_scopes::warn_of_missing(role_scopes::of(&changed), client, output).await;
            }
            Ok(Exit::Ok)
        }
        Err(error) => Err(resource.explain(client, error).await),
    }
}
