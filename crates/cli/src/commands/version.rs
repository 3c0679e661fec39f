//! `canyon version`.

use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::settings::{SettingFlags, address_of};
use canyon_api::client::Client;
use serde_json::json;

/// Which versions to print.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Do not ask the server
    #[arg(long)]
    client: bool,
}

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that it was built from; `None` if it was built without git.
const COMMIT: Option<&str> = option_env!("CANYON_BUILD_COMMIT");

/// Prints the version of this program, and of the server if its address is set.
pub(crate) async fn run(
    arguments: &Arguments,
    flags: &SettingFlags,
    output: Output,
) -> Result<Exit, CliError> {
    let url = if arguments.client { None } else { address_of(flags)? };
    let server = match url {
        None => None,
        Some(url) => {
            // The server answers this without a token.
            let client = Client::new(url.as_str(), "", "".into())?;
            let version = client.server_version().await;
            if let Err(error) = &version {
                output.notice(&format!("warning: the server's version is unknown: {error}"));
            }
            Some((url, version.ok()))
        }
    };
    if output.format != Format::Table {
        let server = server.map(|(url, version)| json!({"url": url.as_str(), "version": version}));
        output
            .value(&json!({"client": {"version": VERSION, "commit": COMMIT}, "server": server}))?;
        return Ok(Exit::Ok);
    }
    output.text(&own(COMMIT))?;
    if let Some((url, Some(version))) = server {
        output.text(&format!("server {version} at {url}\n"))?;
    }
    Ok(Exit::Ok)
}

fn own(commit: Option<&str>) -> String {
    let commit = commit.map_or_else(String::new, |commit| format!(" (commit {commit})"));
    format!("canyon {VERSION}{commit}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_built_without_git_has_a_version_without_a_commit() {
        assert_eq!(own(None), format!("canyon {VERSION}\n"));
        assert_eq!(own(Some("0123456789ab")), format!("canyon {VERSION} (commit 0123456789ab)\n"));
    }
}
