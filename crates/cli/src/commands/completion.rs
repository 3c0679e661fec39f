//! `canyon completion`.

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use clap_complete::env::Shells;

/// The variable by which the script asks for completions.
pub(crate) const VARIABLE: &str = "CANYON_COMPLETE";

/// The shell.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The shell; for bash, in ~/.bashrc: `source <(canyon completion bash)`
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

/// Prints the script by which a shell asks `canyon` for completions.
pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    // clap accepts only shells that are there.
    if let Some(shell) = Shells::builtins().completer(&arguments.shell) {
        shell.write_registration(VARIABLE, "canyon", "canyon", "canyon", &mut script)?;
    }
    output.bytes(&script)?;
    Ok(Exit::Ok)
}
