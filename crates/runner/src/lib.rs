//! The program inside the job.
//!
//! One process serves one attempt of one deployment: it claims the attempt ([`session`]), fetches
//! the module ([`source`]), writes what OpenTofu needs beside it ([`workspace`]), runs `init`,
//! `plan` and `apply` ([`run`], [`tofu`]), ships their output while they run ([`shipper`]) and
//! delivers the result ([`result`]). If the job has a container, it runs the program of that in place of
//! OpenTofu ([`container`]). Before all that it hides itself from the programs of the module
//! ([`protection`]). It keeps nothing in memory that is on disk, and survives an outage of the
//! control plane.
//!
//! The names of the files in the job's folder are in [`workspace`]: the launcher of local jobs
//! reads [`workspace::LOG`] and [`workspace::EVENTS`] if a runner died before it could ship them.

pub mod applying;
pub mod backoff;
pub mod certificates;
pub mod code_commit_signature;
pub mod container;
pub mod container_log;
pub mod declared_variables;
pub mod environment;
pub mod environment_size;
pub mod event;
pub mod executable;
pub mod exit;
pub mod facts;
pub mod git_access;
pub mod hcl_blocks;
pub mod host_processes;
pub mod identity;
pub mod inherited_variables;
pub mod inject;
pub mod judge;
pub mod lines;
pub mod lock;
pub mod lock_owner_name;
pub mod log;
pub mod mask;
pub mod metadata_services;
pub mod module_files;
pub mod module_variables;
pub mod oom;
pub mod orphans;
pub mod outage;
pub mod outputs;
pub mod own_backend;
pub mod plan_archive;
pub mod plan_changes;
pub mod protection;
pub mod reaper;
pub mod records;
pub mod registry_token;
pub mod render;
pub mod result;
pub mod run;
pub mod seal;
pub mod secret_stores;
pub mod secret_values;
pub mod session;
pub mod settings;
pub mod shipper;
mod sign_in;
pub mod source;
pub mod state_file;
pub mod stop;
pub mod streams;
pub mod tail;
pub mod tofu;
pub mod transcript;
pub mod unreachable;
pub mod url_credentials;
pub mod verdict;
pub mod workspace;

use exit::Exit;
use settings::Settings;
use stop::Stop;
use workspace::Workspace;

/// Serves the attempt that `settings` name, in the folder `workspace`.
pub async fn serve(settings: Settings, workspace: Workspace) -> Exit {
    let stop = match Stop::on_signals() {
        Ok(stop) => stop,
        Err(error) => return Exit::undelivered(format!("cannot listen for signals: {error}")),
    };
    reaper::start_if_init();
    let mut session = match session::claim(&settings, &stop).await {
        Ok(session) => session,
        Err(exit) => return exit,
    };
    match session.job.bundle.container.take() {
        Some(task) => Box::pin(container::serve(session, task, settings, workspace, stop)).await,
        None => Box::pin(run::serve(session, settings, workspace, stop)).await,
    }
}
