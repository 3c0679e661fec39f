//! Policies over plans, in Rego: compiles them for the API, and evaluates them for the runner.
//!
//! Both must know the same built-in functions: a policy that the API accepts must not fail in a job for a function that is
//! missing there. So both use this crate, whose `Cargo.toml` names them once. None of them has input or output.

mod compile;
mod evaluate;
mod fault;
mod functions;
mod nesting;

pub use compile::{check, check_modules};
pub use evaluate::evaluate;
pub use fault::Fault;

/// The package of the rules that Canyon reads.
const PACKAGE: &str = "canyon";
/// The rule whose messages end the run.
const DENY: &str = "deny";
/// The rule whose messages are shown.
const WARN: &str = "warn";
