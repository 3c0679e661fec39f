//! The API over HTTP: the router on a loopback port, over a real (embedded) table.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as the tests do")]

mod access;
mod answers;
mod archives;
mod bad_input;
mod browsers;
mod deploy_requests;
mod deployments;
mod environments;
mod event_sources;
mod harness;
mod inventory;
mod job;
mod job_tokens;
mod operator;
mod paging;
mod request_ids;
mod runner_checks;
mod runners;
mod runs;
mod tokens;
mod transfers;
