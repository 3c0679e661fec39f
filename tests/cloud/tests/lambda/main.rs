//! Lambda and API Gateway as this crate implements them, with real functions on the real runtime;
//! and the real services. `scripts/test` sets the variables that name the programs.

#![expect(clippy::unwrap_used, reason = "the harness of tests may panic as the tests do")]

mod api_gateway;
mod asynchronous;
mod faults;
mod invocations;
mod parts;
mod puppet;
