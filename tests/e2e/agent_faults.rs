//! Agents when things fail: everything is killed at each step of a job, and each deployment ends once and right.
//!
//! The real programs `canyon`, `canyon-agent` and `canyon-runner`; between agent and Canyon a gate that holds one
//! request at the step that a test means.

mod absent;
pub(crate) mod agent;
mod cancels;
pub(crate) mod clock;
mod gate;
mod kills;
mod partition;
mod replay;
mod revoked;
mod several;
pub(crate) mod world;
