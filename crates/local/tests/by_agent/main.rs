//! What every kind of compute must do, once more with an agent in between: the rules are those of the direct launch, the
//! dispatcher is the one that writes into the table, and the real agent comes for the jobs by HTTP and starts them.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a harness may panic, and says what a failing agent said"
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
mod far;
mod kubernetes;
mod local;
#[path = "../../../../launcher/dispatch/tests/suite/notes.rs"]
mod notes;
mod restart;
