//! The behaviour that every kind of platform must have, with an agent in between. The rules are those of the direct
//! launch. The dispatcher is the one that writes into the table; a real agent takes the jobs over HTTP and starts them.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test may panic, and prints the log of a failing agent"
)]

#[path = "../../../../launcher/dispatch/tests/suite/act_scripts.rs"]
mod act_scripts;
mod agent;
#[allow(dead_code, reason = "the suite of the dispatchers uses the rest")]
#[path = "../../../../launcher/dispatch/tests/suite/bed.rs"]
mod bed;
#[path = "../../../../launcher/dispatch/tests/suite/behaviour.rs"]
mod behaviour;
mod canyon;
mod check;
mod docker;
mod ecs;
#[allow(dead_code, reason = "the suite of the dispatchers uses the rest")]
#[path = "../../../../launcher/dispatch/tests/suite/ecs_bed.rs"]
mod ecs_bed;
mod kubernetes;
mod local;
#[path = "../../../../launcher/dispatch/tests/suite/notes.rs"]
mod notes;
mod restart;
mod through_agent;
