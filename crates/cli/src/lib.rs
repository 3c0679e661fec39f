//! The command line `canyon`.
//!
//! `arguments` defines the commands and flags, `commands` has one file for each command, and `output` is
//! the only module that writes: results to stdout, everything else to stderr. `exit` maps each error to
//! an exit code for scripts, `hint` to the user's next step.

mod answer;
mod archive;
mod arguments;
mod assignment;
mod body;
mod commands;
mod config_fields;
mod config_file;
mod confirm;
mod context;
mod context_name;
mod declared_types;
mod deletions;
mod deployment_history;
mod deployment_id;
mod deployment_overview;
mod deployment_target;
mod dispatch;
mod environment_facts;
mod environment_resources;
mod error;
mod examples;
mod exit;
mod follow;
mod foreign_flag;
mod hcl;
mod hint;
mod identity;
mod jq;
mod json_lines;
mod list_tip;
#[cfg(feature = "local")]
mod listen_address;
#[cfg(feature = "local")]
mod local_run;
mod log_tail;
mod login_context;
mod module_argument;
mod output;
mod outside_module;
mod plain_resource;
mod plan_text;
mod policy_text;
mod process_variable;
mod progress;
mod progress_bar;
mod resource;
mod retry;
mod settings;
mod sign_in;
mod since;
mod stored_parts;
mod suggestion;
mod summary;
mod table;
mod timed_log;
mod value_completion;
mod variables;
mod yaml_writer;

use arguments::{Cli, Global};
use clap::FromArgMatches as _;
use clap_complete::CompleteEnv;
use commands::completion::VARIABLE;
use error::CliError;
use exit::Exit;
use output::{Format, Output};
use std::io::Write as _;
use std::process::ExitCode;

/// Runs the command that this process's arguments give.
#[must_use]
pub fn run() -> ExitCode {
    // If a shell asks for completions, this prints them and ends the process.
    CompleteEnv::with_factory(value_completion::command).var(VARIABLE).complete();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => {
            let given: Vec<String> =
                std::env::args_os().skip(1).map(|one| one.to_string_lossy().into_owned()).collect();
            if let Some(error) = foreign_flag::refusal(&error, &given) {
                Output::new(Format::Table, None).error(&error);
                return error.exit().into();
            }
            // clap formats its errors, and prints help to stdout; a closed pipe is not an error.
            let error = list_tip::of_list(suggestion::narrow(error), &given);
            let _ = match suggestion::without_rust_words(&error) {
                Some(text) => write!(std::io::stderr(), "{text}"),
                None => error.print(),
            };
            return if error.use_stderr() { Exit::Usage } else { Exit::Ok }.into();
        }
    };
    let output = match output(&cli.global) {
        Ok(output) => output,
        Err(error) => {
            Output::new(Format::Table, None).error(&error);
            return error.exit().into();
        }
    };
    match dispatch::dispatch(cli, output) {
        Ok(exit) => exit.into(),
        Err(CliError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            Exit::Ok.into()
        }
        Err(error) => {
            output.error(&error);
            error.exit().into()
        }
    }
}

fn parse() -> Result<Cli, clap::Error> {
    let mut command = examples::command();
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// The form of the results that the flags ask for.
fn output(flags: &Global) -> Result<Output, CliError> {
    let Some(filter) = &flags.jq else {
        return Ok(Output::new(flags.out.unwrap_or_default(), None));
    };
    if !matches!(flags.out, None | Some(Format::Json)) {
        return Err(CliError::usage("--jq filters JSON: leave out `-o`, or give `-o json`"));
    }
    jq::check(filter)?;
    // `Output` is copied everywhere, and this text lives as long as the process in any case.
    Ok(Output::new(Format::Json, Some(filter.clone().leak())))
}
