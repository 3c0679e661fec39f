//! The command line of `canyon-agent`.

use crate::settings::faults::Faults;
use crate::settings::file;
use crate::settings::former_names::FormerNames;
use crate::settings::identity::Machine;
use crate::settings::layers::Layer;
use crate::settings::names::{DATA, NAMES};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::path::{Path, PathBuf};

/// The default file of settings, which need not exist.
const FILE: &str = "/etc/canyon-agent/config.yaml";

/// The command with its flags and subcommands.
pub fn command() -> Command {
    let mut command = Command::new("canyon-agent")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Launches Canyon's jobs in networks that Canyon cannot connect to")
        .after_help(
            "Flags take precedence over environment variables, and these over the file. A secret cannot be a \
             flag: set CANYON_TOKEN.",
        )
        .arg(
            Arg::new("config")
                .long("config")
                .env("CANYON_AGENT_CONFIG")
                .value_name("FILE")
                .global(true)
                .help(format!("A file of settings in YAML [{FILE}, if it exists]")),
        )
        .arg(
            Arg::new("label")
                .long("label")
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .global(true)
                .help("A label by which runners may select this agent"),
        )
        .arg(
            Arg::new(DATA)
                .long("job-dispatcher-data")
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .global(true)
                .help("A setting of the jobs' platform (CANYON_JOB_DISPATCHER_DATA_NAME)"),
        );
    command = command.subcommand(
        Command::new("check")
            .about("Tries each step that the agent needs, and says what to change; starts no job")
            .arg(
                Arg::new("runner_definition")
                    .long("runner-definition")
                    .value_name("FILE")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("The definition of a runner to try, as printed by `canyon get runner ID --out json`"),
            ),
    );
    command = command.subcommand(
        Command::new("health")
            .about("Checks whether the agent on this machine is alive, as a probe does: exits with 0, or says why not")
            .arg(
                Arg::new("ready")
                    .long("ready")
                    .action(ArgAction::SetTrue)
                    .help("Checks whether the agent has a session, so that Canyon offers it jobs"),
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

/// All settings of the command line, the environment and the file, and the warning of variables of other products.
pub fn layers(matches: &ArgMatches, faults: &mut Faults) -> (Layer, Option<String>) {
    let flags = Layer::of_flags(matches, faults);
    let ours = |(name, _): &(String, String)| name != "CANYON_AGENT_CONFIG";
    let text = || {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
    };
    let environment = Layer::of_environment(text().filter(ours), faults);
    let named = matches.get_one::<String>("config");
    let path = Path::new(named.map_or(FILE, String::as_str));
    let file =
        if named.is_some() || path.exists() { file::read(path, faults) } else { Layer::default() };
    let own = flags.over(environment).over(file);
    let former = FormerNames::read(text(), &own, faults);
    let warning = former.warning();
    (own.over(former.layer), warning)
}

/// Facts about this machine that are not settings.
pub fn machine() -> Machine<'static> {
    Machine {
        variable: &|name| std::env::var(name).ok().filter(|value| !value.is_empty()),
        exists: &Path::exists,
    }
}
