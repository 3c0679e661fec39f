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
use clap::{Arg, ArgMatches, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use std::collections::HashMap;
use std::ffi::OsString;
use std::time::Duration;

/// How long a user waits for candidates at most.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What the value of an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Context,
    Resource(Kind),
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
        ("deployment", _) if has("project") => return None,
        ("project" | "deployment", _) => Kind::Project,
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
    let names = match of {
        Named::Context => config_file::load()
            .ok()
            .map(|file| file.contexts.keys().map(ContextName::to_string).collect()),
        Named::Resource(kind) => ids(kind, &typed()),
    };
    names.unwrap_or_else(Vec::new).into_iter().map(CompletionCandidate::new).collect()
}

/// What the user has typed before the word to complete.
#[derive(Debug, Default)]
struct Typed {
    flags: SettingFlags,
    /// The project of an environment.
    project: Option<String>,
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
    }
}

fn value<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Option<T> {
    matches.try_get_one(name).ok().flatten().cloned()
}

/// The ids that a list of the server has.
fn ids(kind: Kind, typed: &Typed) -> Option<Vec<String>> {
    if kind == Kind::Environment && typed.project.is_none() {
        return None;
    }
    let client = Settings::load(&typed.flags).ok()?.client().ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let path = collection(kind, typed.project.as_deref());
    let list = async { tokio::time::timeout(TIMEOUT, client.list(&path, &[])).await };
    let items = runtime.block_on(list).ok()?.ok()?;
    Some(items.iter().filter_map(|item| item.get("id")?.as_str().map(str::to_owned)).collect())
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
