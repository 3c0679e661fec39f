//! The real runner with the real OpenTofu and git, against a small control plane ([`server`]).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may panic when its own setup fails"
)]

mod container;
mod container_job;
mod container_job_results;
mod container_job_stop;
mod delivery;
mod git;
mod identity;
mod kept_plans;
mod metadata_services;
mod network;
mod policies;
mod reports;
mod secrets;
mod server;
mod unwritten;
mod whole_run;
