//! Lambda and API Gateway as these tests play them, before real functions on the real runtime; and
//! the real parts. `scripts/test` sets the variables that name the parts.

#![expect(clippy::unwrap_used, reason = "the harness of tests may panic as the tests do")]

mod api_gateway;
mod asynchronous;
mod faults;
mod invocations;
mod parts;
mod puppet;
