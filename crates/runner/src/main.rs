//! Reads the settings, serves one attempt, and exits with a code of [`canyon_runner::exit`].

use canyon_runner::{
    container_log,
    exit::Exit,
    git_access::{code_commit, ssh},
    inject, judge, metadata_services, protection, settings,
    settings::Settings,
    workspace::Workspace,
};
use secrecy::SecretString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    // These commands have no claim code and no token to protect.
    match arguments.next().as_deref() {
        Some(metadata_services::ARGUMENT) => return try_metadata_services(arguments),
        Some(ssh::ARGUMENT) => return ssh::execute(arguments),
        Some(code_commit::ARGUMENT) => return code_commit::answer(arguments),
        Some(judge::ARGUMENT) => return judge::execute(),
        Some(inject::ARGUMENT) => return inject::execute(arguments),
        Some(_) | None => {}
    }
    // Before anything else: from here on no other process can read this one.
    let claim_code = protection::begin();
    let in_container = settings::is_in_container();
    if in_container {
        container_log::redirect_panics();
    }
    let exit = match claim_code {
        Ok(claim_code) => serve(claim_code),
        Err(error) => Exit::undelivered(format!(
            "cannot protect its secrets from the programs of the module: {error}"
        )),
    };
    if let Some(message) = exit.message() {
        if in_container {
            container_log::write_note(&format!("canyon-runner: {message}"));
            return exit.into();
        }
        #[expect(clippy::print_stderr, reason = "the only line that the platform's own log gets")]
        {
            eprintln!("canyon-runner: {message}");
        }
    }
    exit.into()
}

fn try_metadata_services(addresses: impl Iterator<Item = String>) -> ExitCode {
    let reachable = metadata_services::reachable(addresses);
    for address in &reachable {
        #[expect(clippy::print_stdout, reason = "the output of this command")]
        {
            println!("{address}");
        }
    }
    if reachable.is_empty() { ExitCode::SUCCESS } else { metadata_services::REACHABLE.into() }
}

fn serve(claim_code: Option<SecretString>) -> Exit {
    let settings = match Settings::from_environment(claim_code) {
        Ok(settings) => settings,
        Err(error) => return Exit::Settings(error.to_string()),
    };
    // One thread: the runner nearly always waits for OpenTofu, and threads cost memory.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let workspace = std::env::current_dir().map(Workspace::new);
    match (runtime, workspace) {
        (Ok(runtime), Ok(workspace)) => {
            let exit = runtime.block_on(canyon_runner::serve(settings, workspace));
            // A thread that still unpacks an archive must not delay the exit.
            runtime.shutdown_background();
            exit
        }
        (Err(error), _) | (_, Err(error)) => {
            Exit::undelivered(format!("cannot start in this folder: {error}"))
        }
    }
}
