//! Agents under faults: each program is killed at each step of a job, and each deployment ends once, with the
//! right result.
//!
//! The tests run the real programs `canyon`, `canyon-agent` and `canyon-runner`. A gate (`gate.rs`) stands
//! between the agent and Canyon, and in some tests between jobs and Canyon. It holds one request at the step that
//! the test names.

mod absent;
pub(crate) mod agent;
mod cancels;
pub(crate) mod clock;
mod gate;
mod job_kills;
mod kills;
mod partition;
mod replay;
mod revoked;
mod several;
pub(crate) mod world;
