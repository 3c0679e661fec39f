//! Starts, observes and stops jobs, on each kind of compute.
//!
//! [`Dispatcher`] is the launcher's interface to a kind. Every call is idempotent: names derive
//! from the deployment and the attempt, so a repeat finds what the first call created. This crate
//! decides nothing about a deployment; that is `canyon_domain::deadline`.
//!
//! The kind [`local`] runs a job as processes on Canyon's own machine. It needs Linux (5.3 or
//! newer), because it identifies processes by `/proc` and by pidfd.

#[cfg(any(feature = "ecs", feature = "kubernetes"))]
mod ambient_aws;
mod check;
#[cfg(any(feature = "docker", feature = "kubernetes"))]
mod container_output;
mod dispatcher;
#[cfg(feature = "docker")]
pub mod docker;
#[cfg(feature = "ecs")]
pub mod ecs;
mod error;
#[cfg(any(feature = "docker", feature = "kubernetes"))]
mod fingerprint;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
#[cfg(target_os = "linux")]
pub mod local;
mod platform;
mod rate_limiter;

#[cfg(any(feature = "ecs", feature = "kubernetes"))]
pub use ambient_aws::AmbientAws;
pub use check::CheckReports;
pub use dispatcher::{
    AgentNeed, Dispatcher, JobRef, Launch, RemovalOutcome, Started, StopMode, TAIL_LIMIT,
    TailStream,
};
pub use error::{DispatchError, OnFailure};
pub use platform::{ChosenAgent, Platform, Target};
pub use rate_limiter::{Permit, Rate, RateLimiter};
