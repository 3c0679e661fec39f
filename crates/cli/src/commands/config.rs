//! `canyon config`.

use crate::config_file::{self, ConfigFile};
use crate::confirm;
use crate::context::Context;
use crate::context_name::ContextName;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::process_variable::variable;
use crate::settings::SettingFlags;
use serde_json::{Value, json};

/// What to do with the contexts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List the contexts, without their secrets; `*` marks the one that commands use
    GetContexts,
    /// Print the name of the context that commands use
    CurrentContext,
    /// Let commands use another context
    UseContext {
        /// Its name
        name: ContextName,
    },
    /// Give a context another name
    RenameContext {
        /// The name that it has
        old: ContextName,
        /// The name that it gets
        new: ContextName,
    },
    /// Delete a context and its token from this machine; Canyon continues to accept the token
    DeleteContext {
        /// Its name
        name: ContextName,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

pub(crate) async fn run(
    arguments: Arguments,
    flags: &SettingFlags,
    output: Output,
) -> Result<Exit, CliError> {
    match arguments.what {
        What::GetContexts => list(flags, output)?,
        What::CurrentContext => {
            let Some(name) = in_use(&config_file::load()?, flags)? else {
                return Err(CliError::usage_with_hint(
                    "no context is the current one",
                    "choose one with `canyon config use-context NAME`, or create one with `canyon login`",
                ));
            };
            match output.format {
                Format::Table => output.text(&format!("{name}\n"))?,
                Format::Yaml | Format::Json => output.value(&Value::from(name.as_str()))?,
            }
        }
        What::UseContext { name } => {
            change(|file| {
                file.context(&name)?;
                file.current = Some(name.clone());
                Ok(())
            })?;
            output.notice(&format!("the current context is `{name}` now"));
            if variable("CANYON_CONTEXT").is_some_and(|other| other != name.as_str()) {
                output.notice(
                    "warning: in this shell CANYON_CONTEXT names another one, and takes precedence",
                );
            }
        }
        What::RenameContext { old, new } => {
            change(|file| rename(file, &old, &new))?;
            output.notice(&format!("context `{old}` is now called `{new}`"));
        }
        What::DeleteContext { name, yes } => delete(&name, yes, output).await?,
    }
    Ok(Exit::Ok)
}

/// The context that commands with these flags use.
fn in_use(file: &ConfigFile, flags: &SettingFlags) -> Result<Option<ContextName>, CliError> {
    let name = flags.context_name(&variable, file)?;
    name.map(|name| file.context(&name).map(|_| name.clone())).transpose()
}

fn list(flags: &SettingFlags, output: Output) -> Result<(), CliError> {
    let file = config_file::load()?;
    let in_use = flags.context_name(&variable, &file)?;
    let is_table = output.format == Format::Table;
    let rows = file.contexts.iter().map(|(name, context)| {
        let is_current = in_use.as_ref() == Some(name);
        let json = Value::from(is_current);
        let mark = if is_current { json!("*") } else { json!(" ") };
        row(name, context, if is_table { &mark } else { &json })
    });
    output.list(rows.collect(), &["current", "name", "org", "url", "credential", "expires_at"])
}

/// What is shown of a context: everything but its secrets.
fn row(name: &ContextName, context: &Context, current: &Value) -> Value {
    let credential = match (&context.sign_in, &context.token) {
        (Some(sign_in), _) => json!(format!("sign-in by {}", sign_in.identity_provider)),
        (None, Some(_)) => json!("token"),
        (None, None) => Value::Null,
    };
    json!({
        "current": current, "name": name.as_str(), "org": context.org, "url": context.url,
        "credential": credential, "expires_at": context.token_expires_at.map(|at| at.to_string()),
    })
}

fn rename(file: &mut ConfigFile, old: &ContextName, new: &ContextName) -> Result<(), CliError> {
    file.context(old)?;
    if file.contexts.contains_key(new) {
        return Err(CliError::usage_with_hint(
            format!("a context `{new}` exists already"),
            format!("choose another name, or run `canyon config delete-context {new}` first"),
        ));
    }
    if let Some(context) = file.contexts.remove(old) {
        file.contexts.insert(new.clone(), context);
    }
    if file.current.as_ref() == Some(old) {
        file.current = Some(new.clone());
    }
    Ok(())
}

/// Asks first if the context has a token, because Canyon does not show a token again.
async fn delete(name: &ContextName, yes: bool, output: Output) -> Result<(), CliError> {
    if config_file::load()?.context(name)?.has_secret() && !yes {
        let action = format!("delete the context `{name}` with its token");
        confirm::require_yes(yes, &action)?;
        confirm::ask(&action, confirm::ctrl_c(), output).await?;
    }
    let was_current = change(|file| {
        file.context(name)?;
        file.contexts.remove(name);
        Ok(file.current.take_if(|current| current == name).is_some())
    })?;
    output.notice(&format!("deleted context `{name}`"));
    if was_current {
        output.notice(
            "no context is the current one now: choose one with `canyon config use-context NAME`",
        );
    }
    Ok(())
}

fn change<T>(change: impl FnOnce(&mut ConfigFile) -> Result<T, CliError>) -> Result<T, CliError> {
    ConfigFile::change(&config_file::required_path()?, change)
}
