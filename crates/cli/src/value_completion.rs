//! Completes ids by the shell: the server's resources, and the contexts of this user.
//!
//! The script of `canyon completion` calls `canyon` itself with the words of the line. An error, or a server that does not
//! answer soon, gives no candidates: a shell has no place for a message.

use crate::config_file;
use crate::context_name::ContextName;
use crate::examples;
use crate::plain_resource::PlainKind;
use crate::process_variable::variable;
use crate::resource::{Kind, collection};
use crate::settings::{SettingFlags, Settings};
use canyon_api::client::{Client, ClientError};
use canyon_api::deployment::{Deployment, DeploymentQuery};
use canyon_api::page::PageQuery;
use clap::{Arg, ArgMatches, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use serde_json::Value;
use std::collections::HashMap;
use std::ffi::OsString;
use std::time::Duration;

/// How many deployments are candidates, the newest first.
const DEPLOYMENTS: u32 = 20;
/// How long a user waits for candidates at most.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What the value of an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Context,
    Resource(Kind),
    /// A deployment, of the project and the environment before it if there are such.
    Deployment,
    /// A project, whose environment follows, or a deployment.
    ProjectOrDeployment,
}

/// The commands and flags of `canyon`, with the completion of their values.
pub(crate) fn command() -> Command {
    completed(examples::command(), false)
}

fn completed(command: Command, creates: bool) -> Command {
    let creates = creates || command.get_name() == "create";
    let named: HashMap<_, _> = command
        .get_arguments()
        .filter_map(|arg| Some((arg.get_id().clone(), named(&command, arg, creates)?)))
        .collect();
    let command = command.mut_args(|arg| match named.get(arg.get_id()) {
        Some(named) => {
            let named = *named;
            arg.add(ArgValueCandidates::new(move || candidates(named)))
        }
        None => arg,
    });
    command.mut_subcommands(|found| completed(found, creates))
}

/// What the value of `arg` names, if that exists already.
fn named(command: &Command, arg: &Arg, creates: bool) -> Option<Named> {
    let has = |name: &str| command.get_arguments().any(|arg| arg.get_id() == name);
    let kind = match (arg.get_id().as_str(), command.get_name()) {
        ("context", _) | ("name", "use-context" | "delete-context") | ("old", "rename-context") => {
            return Some(Named::Context);
        }
        // `rollback` takes the id of a deployment behind its environment.
        ("deployment", _) if has("project") => return Some(Named::Deployment),
        ("deployment", _) if has("environment") => return Some(Named::ProjectOrDeployment),
        ("deployment", _) | ("id", "deployment") => return Some(Named::Deployment),
        ("project", _) => Kind::Project,
        ("runner", _) => Kind::Runner,
        ("environment" | "env", _) => Kind::Environment,
        ("environment_type", _) => kind("environment-type")?,
        ("id", _) if creates => return None,
        ("id", "environment") if has("project") => Kind::Environment,
        ("id", noun) => kind(noun)?,
        _ => return None,
    };
    Some(Named::Resource(kind))
}

/// The kind that a command is named for.
fn kind(noun: &str) -> Option<Kind> {
    Some(match noun {
        "runner" => Kind::Runner,
        "runner-rule" => Kind::RunnerRule,
        "project" => Kind::Project,
        "agent" => Kind::Agent,
        "token" => Kind::Token,
        plain => Kind::Plain(PlainKind::of_command(plain)?),
    })
}

fn candidates(of: Named) -> Vec<CompletionCandidate> {
    let found = match of {
        Named::Context => config_file::load().ok().map(|file| {
            file.contexts.keys().map(ContextName::to_string).map(CompletionCandidate::new).collect()
        }),
        Named::Resource(kind) => ids(kind, &typed()),
        Named::Deployment => deployments(&typed()),
        Named::ProjectOrDeployment => {
            let (typed, mut found) = (typed(), Vec::new());
            // A project before the word is an earlier word of another command.
            found.extend(ids(Kind::Project, &typed).into_iter().flatten());
            found.extend(deployments(&typed).into_iter().flatten());
            Some(found)
        }
    };
    found.unwrap_or_default()
}

/// What the user has typed before the word to complete.
#[derive(Debug, Default)]
struct Typed {
    flags: SettingFlags,
    /// The project of an environment.
    project: Option<String>,
    /// The environment.
    environment: Option<String>,
}

fn typed() -> Typed {
    let words: Vec<OsString> =
        std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let index = variable("_CLAP_COMPLETE_INDEX").and_then(|index| index.parse().ok());
    // The script for fish gives only the words before the cursor.
    let count = index.unwrap_or(words.len().saturating_sub(1));
    parsed(words.into_iter().take(count))
}

fn parsed(words: impl Iterator<Item = OsString>) -> Typed {
    let command = examples::command().ignore_errors(true);
    let Ok(matches) = command.try_get_matches_from(words) else { return Typed::default() };
    let mut deepest = &matches;
    while let Some((_, deeper)) = deepest.subcommand() {
        deepest = deeper;
    }
    Typed {
        flags: SettingFlags {
            context: value(deepest, "context"),
            api_url: value(deepest, "api_url"),
            org: value(deepest, "org"),
        },
        project: value(deepest, "project").or_else(|| value(deepest, "deployment")),
        environment: value(deepest, "environment"),
    }
}

fn value<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Option<T> {
    matches.try_get_one(name).ok().flatten().cloned()
}

/// The ids that a list of the server has.
fn ids(kind: Kind, typed: &Typed) -> Option<Vec<CompletionCandidate>> {
    if kind == Kind::Environment && typed.project.is_none() {
        return None;
    }
    let path = collection(kind, typed.project.as_deref());
    let items = answer(typed, async |client| client.list(&path, &[]).await)?;
    let id = |item: &Value| item.get("id")?.as_str().map(str::to_owned);
    Some(items.iter().filter_map(id).map(CompletionCandidate::new).collect())
}

/// The newest deployments, each with its environment and its status.
fn deployments(typed: &Typed) -> Option<Vec<CompletionCandidate>> {
    let filter = DeploymentQuery {
        project_id: typed.project.clone().filter(|_| typed.environment.is_some()),
        env_id: typed.environment.clone(),
        ..DeploymentQuery::default()
    };
    let page = PageQuery { per_page: Some(DEPLOYMENTS), page: None };
    let found = answer(typed, async |client| client.deployments(&filter, &page).await)?;
    let candidate = |of: Deployment| {
        let minute = of.created_at.strftime("%Y-%m-%d %H:%M");
        let help = format!("{} {} {} {} {minute}", of.project_id, of.env_id, of.mode, of.status);
        CompletionCandidate::new(of.id.to_string()).help(Some(help.into()))
    };
    Some(found.items.into_iter().map(candidate).collect())
}

/// The server's answer, if it comes soon.
fn answer<T>(typed: &Typed, ask: impl AsyncFn(&Client) -> Result<T, ClientError>) -> Option<T> {
    let client = Settings::load(&typed.flags).ok()?.client().ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let asked = async { tokio::time::timeout(TIMEOUT, ask(&client)).await };
    runtime.block_on(asked).ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments whose values are completed, with their commands.
    fn arguments(command: &Command, path: &str, found: &mut Vec<String>) {
        for arg in command.get_arguments().filter(|arg| !arg.is_global_set()) {
            if arg.get::<ArgValueCandidates>().is_some() {
                found.push(format!("{path} {}", arg.get_id()));
            }
        }
        for deeper in command.get_subcommands() {
            arguments(deeper, &format!("{path} {}", deeper.get_name()), found);
        }
    }

    #[test]
    fn every_argument_that_names_an_existing_thing_is_completed() {
        let mut found = Vec::new();
        // clap checks all commands when it builds them.
        command().build();
        arguments(&command(), "canyon", &mut found);
        insta::assert_snapshot!(found.join("\n"));
    }

    #[test]
    fn the_settings_and_the_project_are_taken_from_the_words_before() {
        let typed = |line: &str| {
            let typed = parsed(line.split(' ').map(OsString::from));
            let context = typed.flags.context.map(|name| name.to_string());
            (context, typed.flags.org, typed.project)
        };
        let environment =
            parsed("canyon rollback shop dev".split(' ').map(OsString::from)).environment;
        assert_eq!(environment.as_deref(), Some("dev"));
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(typed("canyon get environment shop"), (None, None, text("shop")));
        assert_eq!(
            typed("canyon --context a deploy --org b --var x=y shop"),
            (text("a"), text("b"), text("shop"))
        );
        assert_eq!(typed("canyon logs shop"), (None, None, text("shop")));
        assert_eq!(typed("canyon get runner"), (None, None, None));
        assert_eq!(typed("canyon nonsense --nonsense"), (None, None, None));
    }
}
