//! Reads the settings, runs the agent, and exits with a code of [`canyon_agent::exit`].

use canyon_agent::exit::Exit;
use canyon_agent::settings::Settings;
use canyon_agent::settings::faults::Faults;
use canyon_agent::stop::Stop;
use canyon_agent::{arguments, check, health, logging};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let exit = serve();
    if let Some(message) = exit.message() {
        for line in message.lines() {
            #[expect(
                clippy::print_stderr,
                reason = "the reason of the exit, whatever the log level"
            )]
            {
                eprintln!("canyon-agent: {line}");
            }
        }
    }
    exit.into()
}

fn serve() -> Exit {
    // Before the settings are read, which may contain the agent's token: jobs of an earlier agent may be running already.
    if let Err(error) = canyon_dispatch::local::protect_this_process() {
        return Exit::Broken(format!(
            "cannot protect its key from the modules of local jobs: {error}"
        ));
    }
    let matches = arguments::command().get_matches();
    let mut faults = Faults::default();
    let (layer, former_names) = arguments::layers(&matches, &mut faults);
    if let Some(("health", arguments)) = matches.subcommand() {
        // Needs only the address of the health server. The running agent checks the other settings.
        return until_done(health::probe::ask(&layer, arguments.get_flag("ready")));
    }
    logging::start(&layer);
    // Before the settings are read: the warning also explains why one of them is missing.
    if let Some(warning) = former_names {
        tracing::warn!("{warning}");
    }
    let settings = match Settings::read(&layer, &arguments::machine(), faults) {
        Ok(settings) => settings,
        Err(faults) => return Exit::Settings(faults.to_string()),
    };
    until_done(async {
        if let Some(("check", arguments)) = matches.subcommand() {
            let definition = arguments.get_one::<PathBuf>("runner_definition");
            return check::check(&settings, definition.map(PathBuf::as_path)).await;
        }
        match Stop::on_signals() {
            Ok(stop) => canyon_agent::run(settings, stop).await,
            Err(error) => Exit::Broken(format!("cannot listen for signals: {error}")),
        }
    })
}

fn until_done(work: impl Future<Output = Exit>) -> Exit {
    // One thread: the agent nearly always waits, and threads cost memory.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return Exit::Broken(format!("cannot start: {error}")),
    };
    let exit = runtime.block_on(work);
    // A call to a platform that hangs must not delay the exit.
    runtime.shutdown_background();
    exit
}
