//! What every kind of compute must do (`behaviour`), and what only processes (`local`) or only clusters
//! (`kubernetes`) or only Fargate can (`ecs`).

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as the tests do")]

#[cfg(feature = "kubernetes")]
mod bed;
mod behaviour;
#[cfg(feature = "kubernetes")]
mod forwarder;
// It runs its containers on the cluster's node.
#[cfg(all(feature = "ecs", feature = "kubernetes"))]
mod ecs;
#[cfg(all(feature = "ecs", feature = "kubernetes"))]
mod ecs_bed;
#[cfg(feature = "kubernetes")]
mod kubernetes;
#[cfg(feature = "kubernetes")]
mod kubernetes_connect;
#[cfg(feature = "kubernetes")]
mod kubernetes_templates;
#[cfg(feature = "kubernetes")]
mod kubernetes_waits;
mod local;
#[cfg(feature = "kubernetes")]
mod notes;
#[cfg(feature = "kubernetes")]
mod random_template;
