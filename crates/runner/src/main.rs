//! Reads the settings once, serves one attempt, exits with a code of [`canyon_runner::exit`].

use canyon_runner::{exit::Exit, settings::Settings, workspace::Workspace};
use std::process::ExitCode;

fn main() -> ExitCode {
    let exit = serve();
    if let Some(message) = exit.message() {
        #[expect(clippy::print_stderr, reason = "the only line that the platform's own log gets")]
        {
            eprintln!("canyon-runner: {message}");
        }
    }
    exit.into()
}

fn serve() -> Exit {
    let settings = match Settings::from_environment() {
        Ok(settings) => settings,
        Err(error) => return Exit::Settings(error.to_string()),
    };
    // One thread: it waits for OpenTofu nearly all the time, and threads cost memory.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let workspace = std::env::current_dir().map(Workspace::new);
    match (runtime, workspace) {
        (Ok(runtime), Ok(workspace)) => {
            let exit = runtime.block_on(canyon_runner::serve(settings, workspace));
            // A thread that still unpacks must not hold up the end.
            runtime.shutdown_background();
            exit
        }
        (Err(error), _) | (_, Err(error)) => {
            Exit::undelivered(format!("cannot start in this folder: {error}"))
        }
    }
}
