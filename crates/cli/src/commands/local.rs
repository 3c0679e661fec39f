//! `canyon local`.

use crate::error::CliError;
use crate::exit::Exit;
use crate::listen_address::ListenAddress;
use crate::output::Output;
use crate::process_variable::variable;
use canyon_local::{Ready, Settings};
use std::path::{Path, PathBuf};

/// Where to listen, and where to store data.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The address to listen on; `:PORT` is a port of 127.0.0.1
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    listen: ListenAddress,
    /// The folder for all data; without it `canyon` in `$XDG_DATA_HOME` or `~/.local/share`
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The URL by which jobs on other machines reach this API, if it is not the address of --listen
    #[arg(long, value_name = "URL")]
    advertise_url: Option<String>,
    /// Canyon's name as an OIDC issuer: an https address at which clouds and clusters find this API
    #[arg(long, value_name = "URL")]
    issuer_url: Option<String>,
    /// Image of jobs in clusters, on ECS and on Docker whose runner names no image
    #[arg(long, value_name = "IMAGE", env = "CANYON_RUNNER_IMAGE")]
    runner_image: Option<String>,
    /// Issuers in a private network whose keys Canyon may fetch, separated by commas
    #[arg(long, value_name = "URLS", value_delimiter = ',', env = "CANYON_PRIVATE_ISSUERS")]
    private_issuers: Vec<String>,
    /// File with the CA certificate of these issuers, if the system does not trust it
    #[arg(long, value_name = "FILE", env = "CANYON_PRIVATE_ISSUERS_CA")]
    private_issuers_ca: Option<PathBuf>,
}

pub(crate) fn run(arguments: Arguments, output: Output) -> Result<Exit, CliError> {
    let data_dir = arguments.data_dir.or_else(default_folder).ok_or_else(|| {
        CliError::usage_with_hint("the folder for data is unknown", "set it with --data-dir")
    })?;
    let settings = Settings {
        listen: arguments.listen.0,
        data_dir,
        advertise_url: arguments.advertise_url,
        issuer_url: arguments.issuer_url,
        runner_image: arguments.runner_image,
        private_issuers: arguments.private_issuers,
        private_issuers_ca: arguments.private_issuers_ca,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime
        .map_err(CliError::Runtime)?
        .block_on(canyon_local::run(settings, |ready| print_ready(ready, output)))?;
    Ok(Exit::Ok)
}

/// Prints the URL, and how to use it; never the token.
fn print_ready(ready: &Ready, output: Output) {
    output.notice(&format!(
        "Canyon is ready at {}\nhint: in another shell, run `. {}`, then `canyon list runners`",
        ready.url,
        ready.environment_file.display()
    ));
}

fn default_folder() -> Option<PathBuf> {
    let data = variable("XDG_DATA_HOME").filter(|folder| Path::new(folder).is_absolute());
    let data = data.map(PathBuf::from);
    let data = data.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".local/share")));
    data.map(|data| data.join("canyon"))
}
