//! `canyon set variable`, `canyon unset variable`, `canyon list variables`; what `canyon explain variables` shows.

use crate::body::read_file_or_stdin;
use crate::commands::variable_scope::{Kind, Scope};
use crate::commands::variable_table::{one, show, shown};
use crate::commands::{exposed_variables, git_credentials, named_variables, retention};
use crate::error::CliError;
use crate::exit::Exit;
use crate::hcl;
use crate::output::{Format, Output};
use crate::plain_resource::PlainKind;
use crate::resource::{Kind as ResourceKind, Resource};
use crate::retry::retry_contended;
use crate::variables::by_form;
use canyon_api::client::Client;
use canyon_api::variable_set::{SecretReference, VariableBody, VariableSet, VariableSetUpdateBody};
use canyon_api::variable_use::VariableSetQuery;
use canyon_domain::json::Json;
use canyon_domain::secret_text::MIN_SECRET_BYTES;
use serde_json::json;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

/// What `canyon set` sets.
#[derive(Debug, clap::Args)]
pub(crate) struct SetArguments {
    #[command(subcommand)]
    what: Set,
}

#[derive(Debug, clap::Subcommand)]
enum Set {
    /// A variable for the jobs of the organization, or of a project, an environment type, an environment or a runner
    #[command(visible_alias = "variables", after_help = SET_EXAMPLES)]
    Variable(SetVariable),
    /// A credential with which jobs read git repositories: a token, a key for SSH, or a GitHub App
    #[command(visible_alias = "git-credentials", after_help = git_credentials::SET_EXAMPLES)]
    GitCredential(git_credentials::Set),
    /// For how many days the organization keeps deployments, logs and audit records
    #[command(after_help = retention::SET_EXAMPLES)]
    Retention(retention::Set),
}

const SET_EXAMPLES: &str = "\
Examples:
  canyon set variable region=eu-central-1
  canyon set variable --project shop --env dev replicas=2 'zones=[\"a\",\"b\"]'
  canyon set variable --project shop --kind environment TF_LOG=info
  canyon set variable --environment-type production --secret db_password < password.txt
  canyon set variable --project shop --secret --from-file key.pem tls_key
  canyon set variable --runner eu-prod --kind environment --secret CLOUDFLARE_API_TOKEN < token.txt
  canyon set variable --project shop --hcl --from-file zones.hcl zones
  canyon set variable --project shop --store team-vault --ref shop/db#password db_password";

#[derive(Debug, clap::Args)]
struct SetVariable {
    #[command(flatten)]
    scope: Scope,
    /// What it is in a job
    #[arg(long, value_enum, default_value = "terraform")]
    kind: Kind,
    /// The value is a secret: it is stored encrypted, never shown, and masked in logs
    #[arg(long, conflicts_with = "plain")]
    secret: bool,
    /// The value is no secret any more
    #[arg(long)]
    plain: bool,
    /// File with the value of the one NAME, `-` for stdin; the end of its last line is left out
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
    /// Read every value as HCL, as in a `.tfvars` file: a number, `true`, a list, an object or a quoted text
    #[arg(long)]
    hcl: bool,
    /// Secret store in which jobs read the value of the one NAME
    #[arg(
        long,
        value_name = "ID",
        requires = "reference",
        conflicts_with_all = ["plain", "from_file", "hcl"]
    )]
    store: Option<String>,
    /// The secret in that store; after `#`, one member of a JSON object
    #[arg(long = "ref", value_name = "SECRET[#MEMBER]", requires = "store")]
    reference: Option<String>,
    /// Its version; the current one unless given
    #[arg(long, value_name = "VERSION", requires = "store")]
    ref_version: Option<String>,
    /// Purpose, for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// NAME=VALUE; a NAME alone takes its value from --from-file, or asks for it
    #[arg(required = true, value_name = "NAME=VALUE")]
    assignments: Vec<String>,
}

/// What `canyon unset` removes.
#[derive(Debug, clap::Args)]
pub(crate) struct UnsetArguments {
    #[command(subcommand)]
    what: Unset,
}

#[derive(Debug, clap::Subcommand)]
enum Unset {
    /// Variables of the organization, or of a project, an environment type, an environment or a runner
    #[command(
        visible_alias = "variables",
        after_help = "\
Example:
  canyon unset variable --project shop --env dev replicas"
    )]
    Variable(named_variables::Several),
    /// Git credentials of the organization or of a project
    #[command(
        visible_alias = "git-credentials",
        after_help = "\
Example:
  canyon unset git-credential --project shop https://github.com/acme"
    )]
    GitCredential(git_credentials::Unset),
}

/// Which variables `canyon list` lists.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only those of the organization itself
    #[arg(long, conflicts_with_all = ["project", "env", "environment_type", "runner"])]
    organization: bool,
    #[command(flatten)]
    scope: Scope,
    /// Only those whose values are in this secret store, of every scope
    #[arg(long, value_name = "ID", conflicts_with_all = ["organization", "project", "env", "environment_type", "runner"])]
    store: Option<String>,
}

pub(crate) async fn set(
    arguments: SetArguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let given = match arguments.what {
        Set::Variable(given) => given,
        Set::GitCredential(given) => return git_credentials::set(given, client, output).await,
        Set::Retention(given) => return retention::set(given, client, output).await,
    };
    if given.assignments.len() > 1
        && (given.from_file.is_some() || given.assignments.iter().any(|one| !one.contains('=')))
    {
        return Err(CliError::usage("give one NAME if its value is not in the arguments"));
    }
    let secret = if given.secret { Some(true) } else { given.plain.then_some(false) };
    let mut body = VariableSetUpdateBody::default();
    let mut names = Vec::new();
    let reference = given.reference();
    for assignment in &given.assignments {
        let (name, value) = match reference {
            None => value_of(assignment, &given)?,
            Some(_) if assignment.contains('=') => {
                let message = "give a NAME alone: its value is in the secret store";
                return Err(CliError::usage(message));
            }
            Some(_) => (assignment.as_str(), None),
        };
        let variable = VariableBody {
            value: value.map(Into::into),
            reference: reference.clone(),
            secret,
            description: given.description.clone(),
        };
        let of_kind = match given.kind {
            Kind::Terraform => &mut body.terraform,
            Kind::Environment => &mut body.environment,
        };
        if of_kind.insert(name.to_owned(), Some(variable)).is_some() {
            return Err(CliError::usage(format!("`{name}` is given twice")));
        }
        names.push(name);
    }
    let exposed: Vec<&str> = given.exposed_secrets().collect();
    if let Some(name) = exposed.first() {
        output.notice(&format!(
            "warning: the value of `{}` was an argument: other users of this machine could read it, and your shell may \
             keep it in its history. Give the name alone, and `canyon` asks for the value or reads it from stdin: canyon \
             set variable --secret {name}; or give a file: --from-file FILE",
            exposed.join("`, `"),
        ));
    }
    let path = given.scope.path();
    let update = async || client.update_variables(&path, &body).await;
    let mut changed = match retry_contended(update).await {
        Ok(changed) => changed,
        Err(error) => return Err(given.scope.explain(client, error).await),
    };
    output.notice(&format!("set {} of {}", names.join(", "), changed.scope));
    let is_set = |kind: Kind, name: &String| kind == given.kind && names.contains(&name.as_str());
    changed.terraform.retain(|name, _| is_set(Kind::Terraform, name));
    changed.environment.retain(|name, _| is_set(Kind::Environment, name));
    if !given.secret && !given.plain {
        given.warn_of_exposed(&changed, output);
    }
    if output.format == Format::Table { show(vec![changed], output) } else { one(&changed, output) }
}

impl SetVariable {
    /// The names of the secrets whose values are arguments.
    fn exposed_secrets(&self) -> impl Iterator<Item = &str> {
        let pairs = self.assignments.iter().filter_map(|one| one.split_once('='));
        pairs.filter(|_| self.secret).map(|(name, _)| name)
    }

    /// Warns about values that may be secrets, and that every reader of the scope sees.
    fn warn_of_exposed(&self, changed: &VariableSet, output: Output) {
        let of_kind = match self.kind {
            Kind::Terraform => &changed.terraform,
            Kind::Environment => &changed.environment,
        };
        let plain = of_kind.iter().filter(|(_, variable)| !variable.secret);
        let plain = plain.filter_map(|(name, variable)| Some((name, variable.value.as_ref()?)));
        let exposed = exposed_variables::exposed(plain);
        let Some(first) = exposed.first() else { return };
        let kind = if self.kind == Kind::Environment { " --kind environment" } else { "" };
        output.notice(&format!(
            "warning: every reader of the variables of {} sees `{}`; if that is a secret, set it again: canyon set \
             variable{}{kind} --secret {first}",
            changed.scope,
            exposed.join("`, `"),
            self.scope.flags(),
        ));
    }

    /// Where jobs read the value, if a store keeps it.
    fn reference(&self) -> Option<SecretReference> {
        let (store, locator) = (self.store.clone()?, self.reference.clone()?);
        Some(SecretReference { store, locator, version: self.ref_version.clone() })
    }
}

/// The name, and the value if there is a new one.
fn value_of<'a>(
    assignment: &'a str,
    given: &SetVariable,
) -> Result<(&'a str, Option<Json>), CliError> {
    let (name, text) = match (assignment.split_once('='), &given.from_file) {
        (Some((name, _)), Some(_)) => {
            let message = format!("`{name}` has a value here and one in --from-file");
            return Err(CliError::usage(message));
        }
        (Some((name, text)), None) => (name, text.to_owned()),
        (None, Some(file)) => (assignment, without_last_end(read_file_or_stdin(file)?)),
        // A new description or --plain alone keeps the value.
        (None, None) if given.description.is_some() && !given.secret && !given.plain => {
            return Ok((assignment, None));
        }
        (None, None) => (assignment, asked(assignment, given.secret)?),
    };
    // The file is the value; on the command line a list or an object is written as for `deploy --var`.
    let value = match given.kind {
        Kind::Terraform if given.hcl => hcl::value(&text)
            .map_err(|reason| CliError::usage(format!("variable `{name}`: {reason}")))?,
        Kind::Environment if given.hcl => {
            return Err(CliError::usage("an environment variable is text: leave out --hcl"));
        }
        Kind::Terraform if assignment.contains('=') => by_form(&text)
            .map_err(|reason| CliError::usage(format!("variable `{name}`: {reason}")))?,
        Kind::Terraform | Kind::Environment => text.into(),
    };
    let is_short = matches!(&value, Json::String(text) if text.len() < MIN_SECRET_BYTES);
    if given.secret && is_short {
        let message =
            format!("`{name}` is too short: a secret has at least {MIN_SECRET_BYTES} bytes");
        return Err(CliError::usage(message));
    }
    Ok((name, Some(value)))
}

/// The value that the user types, or that stdin has. A terminal does not show a secret.
fn asked(name: &str, secret: bool) -> Result<String, CliError> {
    if !io::stdin().is_terminal() {
        let text = read_file_or_stdin(Path::new("-"))?;
        // Without any input, as in a job of CI, an existing value would be replaced by nothing.
        if text.is_empty() {
            return Err(CliError::usage_with_hint(
                format!("`{name}` has no value: stdin is empty"),
                format!("for an empty value write {name}="),
            ));
        }
        return Ok(without_last_end(text));
    }
    let prompt = format!("{name}: ");
    let stdin = |source| CliError::file("read", Path::new("stdin"), source);
    if secret {
        return rpassword::prompt_password(prompt).map_err(stdin);
    }
    Err(CliError::usage_with_hint(
        format!("`{name}` has no value"),
        format!("write it as {name}=VALUE, or give --from-file FILE"),
    ))
}

pub(crate) fn without_last_end(mut text: String) -> String {
    let end = text.trim_end_matches(['\r', '\n']).len();
    // A key file may end in several empty lines; only the end of its last line is left out.
    if text.ends_with('\n') {
        text.truncate((text.len() - 1).max(end));
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

pub(crate) async fn unset(
    arguments: UnsetArguments,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    match arguments.what {
        Unset::Variable(given) => named_variables::unset(given, client, output).await,
        Unset::GitCredential(given) => git_credentials::unset(given, client, output).await,
    }
}

/// Lists the variables of one scope, or of all that the caller may read.
pub(crate) async fn list(given: List, client: &Client, output: Output) -> Result<Exit, CliError> {
    let List { organization, scope, store } = given;
    let sets = if organization || scope.is_given() {
        vec![scope.read(client).await?]
    } else {
        client.variable_sets(&VariableSetQuery { store: store.clone() }).await?
    };
    if let (Some(id), []) = (store, &sets[..]) {
        Resource::new(ResourceKind::Plain(PlainKind::SecretStore), id).require(client).await?;
    }
    show(sets, output)
}

/// Shows what a job of an environment gets.
pub(super) async fn explain(
    project: String,
    env: String,
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let found = match client.effective_variables(&project, &env).await {
        Ok(found) => found,
        Err(error) => return Err(Resource::environment(project, env).explain(client, error).await),
    };
    if output.format != Format::Table {
        return one(&found, output);
    }
    let rows = [(Kind::Terraform, found.terraform), (Kind::Environment, found.environment)];
    let rows = rows.into_iter().flat_map(|(kind, of_kind)| {
        of_kind.into_iter().map(move |(name, variable)| {
            json!({
                "kind": kind.as_str(), "name": name, "from": variable.from,
                "value": shown(variable.value.as_ref(), variable.reference.as_ref()),
                "overrides": variable.overrides.join(", "),
            })
        })
    });
    output.list(rows.collect(), &["kind", "name", "value", "from", "overrides"])?;
    Ok(Exit::Ok)
}
