//! Starts, observes and stops jobs, on each kind of compute.
//!
//! [`Dispatcher`] is what the launcher knows of a kind. Every call may be repeated: names derive
//! from the deployment and the attempt, so that a repeat finds what the first call made. Nothing
//! here decides anything about a deployment; that is `canyon_domain::deadline`.
//!
//! The kind [`local`] runs a job as processes of the machine that Canyon itself runs on. It needs
//! Linux (5.3 or newer), because it tells processes apart by `/proc` and by pidfd.

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
mod pace;
mod platform;

#[cfg(any(feature = "ecs", feature = "kubernetes"))]
pub use ambient_aws::AmbientAws;
pub use check::Steps;
pub use dispatcher::{
    Dispatcher, JobRef, Launch, Remains, Started, StopMode, TAIL_LIMIT, TailStream,
};
pub use error::{DispatchError, Then};
pub use pace::{Pace, Rate, Turn};
pub use platform::{Platform, Target};
