//! `canyon completion`.

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use clap_complete::Shell;

/// The shell.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The shell; for bash: `canyon completion bash > /etc/bash_completion.d/canyon`
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

/// Prints the completions of `canyon` for a shell.
pub(crate) fn run(
    arguments: &Arguments,
    canyon: &mut clap::Command,
    output: Output,
) -> Result<Exit, CliError> {
    let shell: Shell = arguments.shell.parse().map_err(CliError::usage)?;
    let mut script = Vec::new();
    clap_complete::generate(shell, canyon, "canyon", &mut script);
    output.bytes(&script)?;
    Ok(Exit::Ok)
}
