//! Agents when things fail: everything is killed at each step of a job, and each deployment ends once and right.
//!
//! The real programs `canyon`, `canyon-agent` and `canyon-runner`; between agent and Canyon, and between jobs and
//! Canyon where a test is about those, a gate that holds one request at the step that the test means.

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
