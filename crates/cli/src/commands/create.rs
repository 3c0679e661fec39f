//! `canyon create`.

use super::{definition_files, exposed_variables, role_scopes, schedules, token};
use crate::answer::json;
use crate::body::BodyArguments;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::plain_resource::{self, PlainKind};
use crate::resource::{Kind, Resource};
use canyon_api::client::{Client, ClientError};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// The resource to create.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    /// Create the resource definitions of a YAML file, or of stdin for `-`; repeatable
    #[arg(
        short,
        long = "filename",
        value_name = "FILE",
        required = true,
        allow_hyphen_values = true
    )]
    filename: Vec<PathBuf>,
    #[command(subcommand)]
    what: Option<What>,
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
    /// A schedule of an environment: what Canyon requests for it at set times
    #[command(
        visible_alias = "schedules",
        after_help = "\
Example:
  canyon create schedule shop dev nightly --set=kind=deploy --set='cron=0 4 * * MON-FRI' --set=timezone=Europe/Berlin"
    )]
    Schedule(schedules::Written),
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
        matches!(self.what, Some(What::Organization))
    }
}

pub(crate) async fn run(
    arguments: Arguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let Some(what) = arguments.what else {
        return definition_files::create(&arguments.filename, client, output).await;
    };
    let (resource, body) = match what {
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
        What::Schedule(given) => return schedules::create(given, client, output).await,
        What::Organization => return organization(client, output).await,
        What::Token(arguments) => return token::create(arguments, client, output).await,
    };
    let asked = Value::Object(body);
    let made = client.create(&resource.collection(), &asked).await;
    let made = match made {
        Ok(made) => made,
        Err(error) => return Err(explain(&resource, &asked, client, error).await),
    };
    let id = made.get("id").and_then(Value::as_str).unwrap_or(&resource.id);
    let name = Resource { id: id.to_owned(), ..resource.clone() }.full_name();
    output.notice(&format!("created {} `{name}`", resource.kind.noun()));
    output.resource(&made)?;
    if resource.kind == Kind::Runner {
        exposed_variables::warn(&made, output);
    }
    role_scopes::warn_of_missing(role_scopes::of(&made), client, output).await;
    Ok(Exit::Ok)
}

/// Says how to give the fields that are missing, and which name a field with one that does not exist probably means.
async fn explain(
    resource: &Resource,
    asked: &Value,
    client: &Client,
    error: ClientError,
) -> CliError {
    let ClientError::Refused { body, .. } = &error else { return error.into() };
    let fields = body.details.get("fields").and_then(Value::as_array).cloned();
    let fields = fields.unwrap_or_default();
    let paths = |is_meant: &dyn Fn(&str) -> bool| {
        let meant = fields.iter().filter(|field| field["reason"].as_str().is_some_and(is_meant));
        let paths = meant.filter_map(|field| field["path"].as_str().map(str::to_owned));
        paths.collect::<Vec<_>>()
    };
    let missing = paths(&|reason| reason == "is required");
    if !missing.is_empty() {
        let flags: Vec<_> = missing.iter().map(|path| set_flag(path)).collect();
        return CliError::Explained { refusal: error, hint: format!("add {}", flags.join(" ")) };
    }
    for path in paths(&|reason| reason.contains("create it: ")) {
        let kind = match path.as_str() {
            "env_type_id" => Kind::Plain(PlainKind::EnvironmentType),
            "project_id" => Kind::Project,
            "runner_id" => Kind::Runner,
            _ => continue,
        };
        let named = asked[&path].as_str().map(|id| Resource::new(kind, id.to_owned()));
        if let Some(named) = named
            && let Some(nearest) = named.nearest(client).await
        {
            let hint = format!("did you mean `{nearest}`?");
            return CliError::Explained { refusal: error, hint };
        }
    }
    if resource.project.is_some() { resource.explain(client, error).await } else { error.into() }
}

/// The flag that gives a value at `path`. An object with a type begins with that.
fn set_flag(path: &str) -> String {
    let of_type = if path.ends_with("_configuration") { ".type" } else { "" };
    format!("--set={path}{of_type}=VALUE")
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
