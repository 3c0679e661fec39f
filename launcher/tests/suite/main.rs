//! The launcher over a real table, with a platform that the test controls.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as the tests do")]

mod agents;
mod changed_runner;
mod checks;
mod cleanup;
mod concurrency;
mod container_jobs;
mod disabled_runner;
mod drift_checks;
mod fairness;
mod fallbacks;
mod late_salvage;
mod plan_checks;
mod platform;
mod profiles;
mod retention;
mod reviews;
mod salvage;
mod stop;
#[cfg(feature = "lambda")]
mod stream;
mod table_requests;
mod throttled;
mod time;
mod world;
