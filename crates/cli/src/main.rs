//! The program `canyon`.

use std::process::ExitCode;

fn main() -> ExitCode {
    canyon_cli::run()
}
