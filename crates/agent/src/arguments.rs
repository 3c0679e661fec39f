//! The command line.

use crate::settings::faults::Faults;
use crate::settings::file;
use crate::settings::identity::Place;
use crate::settings::layers::Layer;
use crate::settings::names::{DATA, NAMES};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::path::{Path, PathBuf};

/// Where settings are kept, if there are any.
const FILE: &str = "/etc/canyon-agent/config.yaml";

/// What the program understands.
pub fn command() -> Command {
    let mut command = Command::new("canyon-agent")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Launches deployments of Canyon where nothing reaches in")
        .after_help(
            "Flags go before variables of the environment, and those before the file. Secrets are no \
             flags: CANYON_TOKEN.",
        )
        .arg(
            Arg::new("config")
                .long("config")
                .env("CANYON_AGENT_CONFIG")
                .value_name("FILE")
                .global(true)
                .help(format!("A file of settings, YAML [{FILE}, if it is there]")),
        )
        .arg(
            Arg::new("label")
                .long("label")
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .global(true)
                .help("What runners may choose it by"),
        )
        .arg(
            Arg::new(DATA)
                .long("job-dispatcher-data")
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .global(true)
                .help("A setting of what jobs run on (CANYON_JOB_DISPATCHER_DATA_NAME)"),
        );
    command = command.subcommand(
        Command::new("check")
            .about("Tries what the agent needs, and says what to change; starts no job")
            .arg(
                Arg::new("runner_definition")
                    .long("runner-definition")
                    .value_name("FILE")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("A runner whose jobs are tried, as `canyon get runner ID --out json` shows it"),
            ),
    );
    command = command.subcommand(
        Command::new("health")
            .about("Asks the agent that runs here whether it lives, as a probe does: ends with 0, or says why not")
            .arg(
                Arg::new("ready")
                    .long("ready")
                    .action(ArgAction::SetTrue)
                    .help("Asks whether it has a session, and so would get work"),
            ),
    );
    for name in NAMES.iter().filter(|name| name.flag) {
        let arg = Arg::new(name.key).long(name.key.replace('_', "-")).global(true);
        let arg = arg.help(format!("{} [{}]", name.help, name.variables.join(", ")));
        command = command.arg(match name.key {
            "single" => arg.action(ArgAction::SetTrue),
            _ => arg.value_name("VALUE"),
        });
    }
    command
}

/// All that the command line, the environment and the file say.
pub fn layers(matches: &ArgMatches, faults: &mut Faults) -> Layer {
    let flags = Layer::of_flags(matches, faults);
    let ours = |(name, _): &(String, String)| name != "CANYON_AGENT_CONFIG";
    let text = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment = Layer::of_environment(text.filter(ours), faults);
    let named = matches.get_one::<String>("config");
    let path = Path::new(named.map_or(FILE, String::as_str));
    let file =
        if named.is_some() || path.exists() { file::read(path, faults) } else { Layer::default() };
    flags.over(environment).over(file)
}

/// What this machine says besides settings.
pub fn place() -> Place<'static> {
    Place {
        variable: &|name| std::env::var(name).ok().filter(|value| !value.is_empty()),
        exists: &Path::exists,
    }
}
