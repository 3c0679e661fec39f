//! The behaviour of every kind of compute (`behaviour`), and what only one kind has: processes
//! (`local`), clusters (`kubernetes`), Fargate (`ecs`), or a Docker engine (`docker`).

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as the tests do")]

mod act_scripts;
#[cfg(feature = "kubernetes")]
mod bed;
mod behaviour;
// These tests use the engine and the notes' address of the cluster.
#[cfg(all(feature = "docker", feature = "kubernetes"))]
mod docker;
#[cfg(all(feature = "docker", feature = "kubernetes"))]
mod docker_bed;
#[cfg(all(feature = "docker", feature = "kubernetes"))]
mod docker_engine;
#[cfg(all(feature = "docker", feature = "kubernetes"))]
mod docker_of_canyon_local;
#[cfg(all(feature = "docker", feature = "kubernetes"))]
mod docker_registry;
// It uses the starter of ECS's servers.
#[cfg(all(feature = "ecs", feature = "kubernetes"))]
mod eks_bed;
#[cfg(feature = "kubernetes")]
mod forwarder;
// It runs its containers on the cluster's node.
#[cfg(all(feature = "ecs", feature = "kubernetes"))]
mod ecs;
#[cfg(all(feature = "ecs", feature = "kubernetes"))]
mod ecs_agent;
#[cfg(all(feature = "ecs", feature = "kubernetes"))]
mod ecs_bed;
#[cfg(all(feature = "ecs", feature = "kubernetes"))]
mod ecs_containers;
#[cfg(all(feature = "ecs", feature = "kubernetes"))]
mod ecs_lists;
#[cfg(feature = "kubernetes")]
mod kubernetes;
#[cfg(feature = "kubernetes")]
mod kubernetes_connect;
#[cfg(feature = "kubernetes")]
mod kubernetes_containers;
#[cfg(all(feature = "ecs", feature = "kubernetes"))]
mod kubernetes_eks;
#[cfg(feature = "kubernetes")]
mod kubernetes_in_place;
#[cfg(feature = "kubernetes")]
mod kubernetes_templates;
#[cfg(feature = "kubernetes")]
mod kubernetes_waits;
mod local;
#[cfg(feature = "kubernetes")]
mod notes;
#[cfg(feature = "kubernetes")]
mod random_template;
