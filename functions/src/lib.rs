//! The HTTP API and its use cases.
//!
//! [`http`] extracts, calls and renders: one file for each resource. [`app`] has one use case in each file: it loads,
//! asks the domain, and writes. The same router serves a laptop and a Lambda function.

pub mod agent_hints;
pub mod app;
pub mod changes;
#[cfg(feature = "lambda")]
pub mod function;
pub mod http;
mod json;
mod json_words;
mod quoted;
mod waits;
mod watched;

pub use app::App;
