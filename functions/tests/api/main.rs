//! The API over HTTP: the router on a loopback port, over a real (embedded) table.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as the tests do")]

mod access;
mod archives;
mod bad_input;
mod deployments;
mod environments;
mod harness;
mod inventory;
mod job;
mod paging;
mod runners;
mod runs;
mod tokens;
