//! `canyon create`.

use super::{exposed_variables, token};
use crate::answer::json;
use crate::body::BodyArguments;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::plain_resource;
use crate::resource::{Kind, Resource};
use canyon_api::client::{Client, ClientError};
use serde_json::{Map, Value};

/// The resource to create.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// A runner: where and how jobs run, and where state is stored
    #[command(visible_alias = "runners")]
    Runner {
        /// Its id
        id: String,
        #[command(flatten)]
        body: BodyArguments,
    },
    /// A rule that decides which environments a runner serves
    #[command(visible_alias = "runner-rules")]
    RunnerRule {
        #[command(flatten)]
        body: BodyArguments,
    },
    /// A project
    #[command(visible_alias = "projects")]
    Project {
        /// Its id, or a path of groups that ends with it
        id: String,
        #[command(flatten)]
        body: BodyArguments,
    },
    /// An environment of a project
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
    Plain(plain_resource::Create),
    /// An organization with a random name; for the operator of a Canyon, with the operator's token
    #[command(visible_alias = "organizations")]
    Organization,
    /// An API token; its secret is shown once
    #[command(visible_alias = "tokens")]
    Token(token::NewArguments),
}

impl Arguments {
    /// Whether the command needs no existing organization.
    pub(crate) fn is_organization(&self) -> bool {
        matches!(self.what, What::Organization)
    }
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let (resource, body) = match arguments.what {
        What::Runner { id, body } => named(Resource::new(Kind::Runner, id), &body)?,
        What::RunnerRule { body } => (Resource::new(Kind::RunnerRule, String::new()), body.body()?),
        What::Project { id, body } => named(Resource::new(Kind::Project, id), &body)?,
        What::Environment { project, id, body } => {
            named(Resource::environment(project, id), &body)?
        }
        What::Plain(plain) => {
            let (kind, id, body) = plain.parts();
            named(Resource::new(Kind::Plain(kind), id), &body)?
        }
        What::Organization => return organization(client, output).await,
        What::Token(arguments) => return token::create(arguments, client, output).await,
    };
    let made = client.create(&resource.collection(), &Value::Object(body)).await;
    let made = made.map_err(of_fields)?;
    let id = made.get("id").and_then(Value::as_str).unwrap_or(&resource.id);
    output.notice(&format!("created {} `{id}`", resource.kind.noun()));
    output.resource(&made)?;
    if resource.kind == Kind::Runner {
        exposed_variables::warn(&made, output);
    }
    Ok(Exit::Ok)
}

/// Says how to give the fields that are missing.
fn of_fields(error: ClientError) -> CliError {
    let ClientError::Refused { body, .. } = &error else { return error.into() };
    let fields = body.details.get("fields").and_then(Value::as_array);
    let missing = fields.into_iter().flatten().filter(|field| field["reason"] == "is required");
    let flags: Vec<_> = missing
        .filter_map(|field| Some(format!("--set={}=VALUE", field["path"].as_str()?)))
        .collect();
    if flags.is_empty() {
        return error.into();
    }
    CliError::Explained { refusal: error, hint: format!("add {}", flags.join(" ")) }
}

/// Puts the command line's id into the body. Another id in the body is a mistake.
fn named(
    resource: Resource,
    body: &BodyArguments,
) -> Result<(Resource, Map<String, Value>), CliError> {
    let mut body = body.body()?;
    let id = Value::String(resource.id.clone());
    match body.insert("id".to_owned(), id.clone()) {
        Some(other) if other != id => Err(CliError::usage_with_hint(
            format!("the document has another `id` than `{}`", resource.id),
            "remove `id` from the document, or give the same id",
        )),
        _ => Ok((resource, body)),
    }
}

/// As a table: shell lines that set the organization's settings.
async fn organization(client: &Client, output: Output) -> Result<Exit, CliError> {
    let made = client.create_organization().await?;
    output.notice(&format!("created organization `{}`", made.organization.id));
    output.notice("warning: the token is shown this once; keep it where only its user can read it");
    if output.format != Format::Table {
        output.resource(&json(&made)?)?;
        return Ok(Exit::Ok);
    }
    for (name, value) in [
        ("CANYON_API_URL", client.url()),
        ("CANYON_ORG", &made.organization.id),
        ("CANYON_TOKEN", &made.admin_token),
    ] {
        // Quoted, so that the shell runs nothing that a server answers.
        output.text(&format!("export {name}='{}'\n", value.replace('\'', "'\\''")))?;
    }
    Ok(Exit::Ok)
}
