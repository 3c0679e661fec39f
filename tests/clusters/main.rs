//! Deployments to a real cluster: the API server authenticates and authorizes Canyon, and the jobs are pods with the
//! runner's image.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a harness may panic, and says what a failing server said"
)]

mod agent_chart;
mod agent_install;
mod agent_shared;
mod agent_walled;
mod canaries;
mod cancel;
mod container_jobs;
mod container_sources;
mod definitions;
mod docker;
mod ecs;
#[path = "../e2e/private_sources/git_host.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod git_host;
mod harness;
mod image;
mod kills;
mod life;
mod protection;
mod refusals;
mod remote_runner;
mod salvage;
mod secret_stores;
mod sign_in;
mod states;
mod trust;
mod withheld;
