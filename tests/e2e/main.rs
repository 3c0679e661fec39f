//! Canyon from end to end: the real programs `canyon` and `canyon-runner`, real OpenTofu, real git,
//! real signals. No test is skipped: a test fails if a program that it needs is missing, and names
//! it. `scripts/test` sets the variables that name the programs.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a harness may panic, and says what a failing server said"
)]

mod agent;
mod agent_faults;
mod agent_file;
mod agent_network;
mod agents;
mod approvals;
mod arrows;
mod cancel;
mod confirming;
mod connections;
mod deleted_elsewhere;
mod deploy_here;
mod deploy_local;
mod deployment_inputs;
mod docker_runner;
mod doctor;
mod drift;
mod duplicates;
mod fallbacks;
mod former_secrets;
mod guides;
mod harness;
mod hostile_network;
mod http_edges;
mod job_identity;
mod kept_plans;
mod kept_state;
mod kills;
mod lost_output;
mod lost_reports;
mod main_job;
mod module_arrows;
mod module_resources;
mod module_token;
mod moves;
mod openapi;
mod order;
mod people;
mod plan_checks;
mod plan_options;
mod policy;
mod private_sources;
mod protection;
mod provider_mirrors;
mod retention;
mod runner_pages;
mod runner_variables;
mod schedules;
mod secret_stores;
mod seed;
mod service_accounts;
mod sources;
mod state_commands;
mod states;
#[path = "../../crates/cli/tests/it/terminal.rs"]
#[expect(dead_code, reason = "the tests of the command line use more of it")]
mod terminal;
mod touched_files;
mod variables;
mod warnings;
mod withheld;
