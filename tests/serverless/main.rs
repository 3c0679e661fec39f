//! The end-to-end tests of the laptop, run on the functions: real processes under the Lambda runtime API, with
//! the rights that the template gives them, over DynamoDB Local, MinIO and moto. The test files are shared with
//! `tests/e2e`; only the server that they start differs.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a harness may panic, and says what a failing server said"
)]

mod agent;
mod announcements;
#[path = "../e2e/approvals.rs"]
mod approvals;
#[path = "../e2e/cancel.rs"]
mod cancel;
#[path = "../e2e/agent.rs"]
mod companion;
mod disorder;
#[path = "../e2e/doctor.rs"]
mod doctor;
#[path = "../e2e/drift.rs"]
mod drift;
#[path = "../e2e/duplicates.rs"]
mod duplicates;
mod faults;
#[path = "../e2e/hostile_network.rs"]
mod hostile_network;
#[path = "../e2e/http_edges.rs"]
mod http_edges;
#[path = "../e2e/kept_state.rs"]
mod kept_state;
#[path = "../e2e/kills.rs"]
mod kills;
#[path = "../e2e/lost_reports.rs"]
mod lost_reports;
#[path = "../e2e/main_job.rs"]
mod main_job;
#[path = "../e2e/order.rs"]
mod order;
#[path = "../e2e/plan_checks.rs"]
mod plan_checks;
mod poison;
#[path = "../e2e/policy.rs"]
mod policy;
#[path = "../e2e/schedules.rs"]
mod schedules;
#[path = "../e2e/seed.rs"]
mod seed;
#[path = "../e2e/sources.rs"]
mod sources;
mod stream_off;
#[path = "../e2e/withheld.rs"]
mod withheld;

mod bus;
mod bus_down;
mod cluster;
mod confined;
mod deploying;
mod encryption;
mod gateway;
mod harness;
mod hints;
mod install;
mod installer;
mod permissions;
mod retention;
mod runner_stack;
mod samples;
mod settings;
mod stack;
