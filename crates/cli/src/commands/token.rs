//! `canyon token`.

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use canyon_identity::bearer;
use canyon_identity::system::System;
use secrecy::ExposeSecret as _;
use serde_json::json;

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make a token and its hash here, without a server: for the operator of an installation
    New,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<Exit, CliError> {
    let What::New = arguments.what;
    let token = bearer::api_token(&System);
    let token = token.expose_secret();
    output.notice(
        "warning: the token is shown this once; keep it where only its user can read it. The hash \
         is no secret",
    );
    output.thing(&json!({ "token": token, "hash": bearer::hash(token).0 }))?;
    Ok(Exit::Ok)
}
