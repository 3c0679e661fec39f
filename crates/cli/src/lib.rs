//! The command line `canyon`.
//!
//! `arguments` says what may be typed, `commands` has one file for each thing that can be done, and
//! `output` is the only place that writes: results to stdout, everything else to stderr. What a
//! failure means for a script stands in `exit`, what to do about it in `hint`.

mod archive;
mod arguments;
mod assignment;
mod body;
mod commands;
mod config_file;
mod confirm;
mod deletions;
mod environment_facts;
mod error;
mod exit;
mod follow;
#[cfg(feature = "local")]
mod here;
mod hint;
mod identity;
mod json_lines;
mod module_argument;
mod output;
mod patience;
mod progress;
mod progress_bar;
mod resource;
mod settings;
mod summary;
mod table;
mod variables;
mod yaml;

use arguments::Cli;
use clap::Parser;
use error::CliError;
use exit::Exit;
use output::Output;
use std::process::ExitCode;

/// Does what the arguments of this process say.
#[must_use]
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap words its errors, and help goes to stdout; a closed pipe is no reason to fail.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Ok }.into();
        }
    };
    let output = Output::new(cli.global.out);
    match commands::dispatch(cli, output) {
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
